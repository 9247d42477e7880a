"""Puts shell commands behind walls: the bash tool asks it how to start a command.

With bubblewrap, the commands of one session and mode share namespaces (`SessionSandbox`): their /tmp, their loopback
network and their background jobs. Each command has mounts of its own, made from its walls. A sandbox starts with the
first command of its session and lives as long as this process; the least recently used idle ones are ended when there
are too many. With Landlock every command is confined by itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from outlast.runtime.sandbox.bubblewrap import SessionPlaces, command_argv, session_argv
from outlast.runtime.sandbox.caches import CacheArea, CachePlan, open_cache_area
from outlast.runtime.sandbox.command_network import CallConnections, CommandNetwork, Lift
from outlast.runtime.sandbox.denials import named_denials, passed_over, start_folder
from outlast.runtime.sandbox.environment import sandbox_environment
from outlast.runtime.sandbox.git_guard import GitGuard, KnownRepositories, NewRepositories
from outlast.runtime.sandbox.git_protection import git_environment
from outlast.runtime.sandbox.limits import ResourceLimits, has_room, limit_note
from outlast.runtime.sandbox.memory_group import MemoryGroup, memory_group
from outlast.runtime.sandbox.network.environment import proxy_environment
from outlast.runtime.sandbox.placeholders import sweep_placeholders
from outlast.runtime.sandbox.port import CommandRequest, CommandWalls, NeedKind, SandboxReport, SandboxTier
from outlast.runtime.sandbox.protected_files import protected_snapshot
from outlast.runtime.sandbox.session_sandbox import SandboxFailure, SessionSandbox
from outlast.runtime.sandbox.unix_sockets import reachable_sockets

_OWN_VARIABLES = ("OUTLAST_SESSION_ID", "OUTLAST_FOLDER_FILE", "BASH_ENV", "PWD")
"""What the bash tool sets for its shell."""
_NETWORK = frozenset({NeedKind.NETWORK, NeedKind.LOCALHOST})
MOST_IDLE = 24
"""How many sandboxes without a running command are kept; the least recently used ones are ended first."""


class PreparedCommand:
    """How to start one command. `spec` are fields of its `CommandSpec`; `session` starts its supervisor inside the
    session's namespaces, None: the agent starts it. `close` must be called once the command has ended."""

    def __init__(
        self,
        spec: Mapping[str, Any],
        request: CommandRequest,
        report: SandboxReport,
        limits: ResourceLimits,
        *,
        session: SessionSandbox | None = None,
        hidden: tuple[Path, ...] = (),
        connections: CallConnections | None = None,
        group: MemoryGroup | None = None,
        ended: Callable[[], tuple[str, ...]] | None = None,
    ) -> None:
        self.spec = spec
        self.session = session
        self._request = request
        self._report = report
        self._limits = limits
        self._hidden = hidden
        self._connections = connections
        self._group = group
        self._oom_kills = group.oom_kills() if group is not None else 0
        self._notes: tuple[str, ...] = ()
        self._is_closed = False
        self._closing = threading.Lock()
        self._ended = ended

    def facts(self) -> dict[str, Any]:
        """Return what the log records of the walls: the tier, lifted walls, connections."""
        lifted = [str(need) for need in self._request.needs]
        return {"sandbox": str(self._report.tier)} | ({"lifted": lifted} if lifted else {})

    def ended_facts(self) -> dict[str, Any]:
        """Return what the log records of the command's connections, after it has ended."""
        self.close()
        connections = self._connections.facts() if self._connections is not None else []
        return {"connections": connections} if connections else {}

    def notes(self, code: int | None, signal: str | None, output: str) -> list[str]:
        """Return lines for the model and the user: what the sandbox refused, and that nothing stays."""
        self.close()
        notes = [f"[{note}]" for note in self._notes]
        refused = self._connections.notes() if self._connections is not None else []
        command = self._request.argv[-1]
        folder = start_folder(command, self._request.cwd)
        if code or signal:
            notes += named_denials(
                output,
                self._request.roots,
                self._hidden,
                looking=self._request.looking,
                folder=folder,
                network=not refused,
                permissions=self._report.tier is SandboxTier.LANDLOCK,
            )
        elif not self._request.looking:
            notes += passed_over(output, command, self._hidden, folder)
        notes += refused
        limit = self._limit_note(code, signal, output)
        notes += [f"[{limit}]"] if limit is not None else []
        if self._request.looking and self._report.overlays:
            notes.append("[read-only: the command ran on a throw-away copy; nothing that it wrote was kept]")
        return notes

    def _limit_note(self, code: int | None, signal: str | None, output: str) -> str | None:
        is_bounded = self._report.tier is SandboxTier.BUBBLEWRAP  # elsewhere /tmp is a folder on the disk
        return limit_note(
            self._limits,
            code=code,
            signal=signal,
            output=output,
            looking=self._request.looking and is_bounded,
            oom_kills=self._group.oom_kills() - self._oom_kills if self._group is not None else 0,
            has_room=is_bounded and has_room((*self._request.roots, self._request.private)),
        )

    def close(self) -> None:
        """Release what the command used. May be repeated."""
        with self._closing:  # another thread may be at it, when a background job has just ended
            ended, self._ended = self._ended, None
            if ended is not None:
                self._notes = ended()
            if self._connections is not None and not self._is_closed:
                self._connections.close()
            self._is_closed = True


class _Shared:
    """A session's sandbox in use by some commands."""

    def __init__(self, sandbox: SessionSandbox, caches: CachePlan, group: MemoryGroup | None) -> None:
        self.sandbox = sandbox
        self.caches = caches
        self.group = group
        self.running = 0
        self.repositories = KnownRepositories()


class _Unshared:
    """What the commands of a session have in common under Landlock: caches, and what is known of repositories."""

    def __init__(self, area: CacheArea | None, caches: CachePlan, group: MemoryGroup | None) -> None:
        self.area = area
        self.caches = caches
        self.group = group
        self.repositories = KnownRepositories()

    def close(self) -> None:
        if self.area is not None:
            self.area.release()
        if self.group is not None:
            with contextlib.suppress(OSError):  # a process does not end; the next sandbox removes the group
                self.group.close()


class _GrantedFolders:
    """Creates the missing folders that a command was granted: only a path that exists can be opened."""

    def __init__(self, walls: CommandWalls) -> None:
        self._made = [Path(path) for path in walls.granted(NeedKind.WRITE) if not os.path.lexists(path)]
        for folder in self._made:
            with contextlib.suppress(OSError):  # the command will meet the same refusal, and say so
                folder.mkdir()

    def remove_unused(self) -> None:
        for folder in self._made:
            with contextlib.suppress(OSError):  # the command has put something there
                folder.rmdir()


class CommandSandbox:
    """The sandbox of this machine with the user's settings. Safe to use from several threads."""

    def __init__(
        self,
        report: SandboxReport,
        *,
        home: Path,
        user_home: Path,
        hidden: Callable[[], tuple[Path, ...]],
        limits: ResourceLimits | None = None,
        open_network: bool = False,
        variables: tuple[str, ...] = (),
        own_ports: Callable[[], Iterable[int]] = tuple,
    ) -> None:
        self._home, self._user_home = home, user_home
        self._variables = variables
        self._open_network = open_network
        self.report = report
        self.limits = limits or ResourceLimits()
        self._state_dir = home / "state"
        self._folder = self._state_dir / "sandbox"
        self._hidden = hidden
        self.network = CommandNetwork(own_ports)
        self._sessions: OrderedDict[tuple[str, bool], _Shared] = OrderedDict()
        self._is_swept = False
        self._unshared: dict[str, _Unshared] = {}
        self._lock = threading.Lock()
        self._open: weakref.WeakSet[PreparedCommand] = weakref.WeakSet()
        self._starting: dict[tuple[str, bool], threading.Lock] = {}

    def prepare(self, request: CommandRequest, lift: Lift) -> PreparedCommand:
        """Prepare a command. Raises SandboxFailure if the sandbox cannot be started. May block for a moment."""
        match self.report.tier:
            case SandboxTier.BUBBLEWRAP:
                prepared = self._in_namespaces(request, lift)
            case SandboxTier.LANDLOCK:
                prepared = self._by_landlock(request)
            case _:
                raise SandboxFailure(f"the sandbox {self.report.tier} cannot start commands")
        self._open.add(prepared)
        return prepared

    # --- bubblewrap

    def _in_namespaces(self, request: CommandRequest, lift: Lift) -> PreparedCommand:
        key = (request.session_id, request.looking)
        shared = self._acquire(key, request)
        try:
            return self._mounted(request, shared, lift)
        except OSError as error:
            self._release(key)
            raise SandboxFailure(f"a folder of the project changed meanwhile ({error}); run it again") from error
        except BaseException:
            self._release(key)
            raise

    def _mounted(self, request: CommandRequest, shared: _Shared, lift: Lift) -> PreparedCommand:
        places, key = shared.sandbox.places, (request.session_id, request.looking)
        walls = self._walls(request)
        folders = _GrantedFolders(walls)
        layer = places.layers / _short(request.call_id) if request.looking and self.report.overlays else None
        lifted = [Path(path) for path in walls.granted(NeedKind.WRITE)]
        known = shared.repositories
        git = None if request.looking else GitGuard(request.roots, places, self._state_dir, known, lifted)
        connections = None if request.looking else self.network.open(request.call_id, request.needs, lift)
        if connections is not None:
            for port in walls.granted(NeedKind.LOCALHOST):
                shared.sandbox.forward(int(port), connections.token)
        inside = command_argv(
            self.report.program,
            walls,
            places,
            cwd=request.cwd,
            layer=layer,
            writable=(request.private, *shared.caches.writable),
            protection=() if git is None else git.mounts,
        )
        spec = {
            "argv": (*inside, *request.argv),
            "environment": self._environment(request, shared, connections),
            "cwd": Path("/"),  # bubblewrap changes to the command's folder, inside the mounts
            "made": ()
            if layer is None
            else tuple(path for n in range(len(request.roots)) for path in _layer(layer, n)),
            "file_size": self.limits.file_bytes,
            "processes": self.limits.processes,
        }

        def ended() -> tuple[str, ...]:
            self._release(key)
            for port in walls.granted(NeedKind.LOCALHOST):
                shared.sandbox.end_forward(int(port))
            folders.remove_unused()
            return git.end() if git is not None else ()

        return PreparedCommand(
            spec,
            request,
            self.report,
            self.limits,
            session=shared.sandbox,
            hidden=walls.hidden,
            connections=connections,
            group=shared.group,
            ended=ended,
        )

    def _environment(
        self, request: CommandRequest, shared: _Shared, connections: CallConnections | None
    ) -> dict[str, str]:
        found = sandbox_environment(request.environment, added=(*_OWN_VARIABLES, *self._variables))
        found |= {**git_environment(found), **shared.caches.environment, "TMPDIR": "/tmp"}  # noqa: S108
        return found if connections is None else found | proxy_environment(shared.sandbox.port, connections.token)

    def _walls(self, request: CommandRequest) -> CommandWalls:
        hidden = self._hidden()
        if self.report.tier is SandboxTier.BUBBLEWRAP:
            hidden += _outer_sockets(hidden)
        return CommandWalls(
            roots=request.roots,
            read_only=request.looking,
            needs=tuple(need.opened() for need in request.needs),
            hidden=hidden,
            shown=(*request.shown, request.private),
        )

    def _acquire(self, key: tuple[str, bool], request: CommandRequest) -> _Shared:
        with self._lock:
            starting = self._starting.setdefault(key, threading.Lock())
        with starting:
            with self._lock:
                found = self._sessions.get(key)
                if found is not None and found.sandbox.alive:
                    found.running += 1
                    self._sessions.move_to_end(key)
                    return found
            found = self._start(key, request)
            found.running = 1
            with self._lock:
                self._sessions[key] = found
                idle = [old for old, one in self._sessions.items() if one.running == 0]
                surplus = [self._sessions.pop(old) for old in idle[: max(0, len(idle) - MOST_IDLE)]]
        for old in surplus:
            old.sandbox.close()
        return found

    def _release(self, key: tuple[str, bool]) -> None:
        with self._lock:
            found = self._sessions.get(key)
            if found is not None:
                found.running -= 1

    def _start(self, key: tuple[str, bool], request: CommandRequest) -> _Shared:
        if not self._is_swept:
            self._is_swept = True
            sweep_placeholders(self._state_dir)
        session_id, looking = key
        name = f"{_short(session_id)}-{os.getpid()}-{'look' if looking else 'work'}"
        area = open_cache_area(self._home, _short(os.path.realpath(request.project)))
        caches = CachePlan()
        if area is not None:
            area.sweep()
            caches = area.plan(
                user_home=self._user_home,
                environ=request.environment,
                apart=(*request.roots, self._home),
                overlays=self.report.overlays,
            )
        plain = tuple(path for path in caches.writable if path not in {lower for lower, _, _ in caches.layers})
        writable = (*(() if looking else request.roots), request.private, *plain)
        places = SessionPlaces(temporary=self._folder / name, writable=writable)
        argv = session_argv(self.report.program, places, self.limits.tmp_bytes, caches.layers)
        group = self._memory_group(name)
        if group is not None:
            argv = group.start_argv(argv)
        proxy_socket = None if looking else self.network.socket_path()
        sandbox = SessionSandbox(argv, places, proxy_socket, self.limits.processes)
        if area is not None:
            sandbox.at_end(area.release)
        if group is not None:
            sandbox.at_end(group.close)
        sandbox.wait_ready()
        return _Shared(sandbox, caches, group)

    def _memory_group(self, name: str) -> MemoryGroup | None:
        """Return a control group for the session; None where none was delegated."""
        group = memory_group(self.limits, f"{os.getpid()}-{name}")
        return group if isinstance(group, MemoryGroup) else None  # otherwise it is the reason

    def close(self) -> None:
        """End every sandbox and every process in it, then release what its commands used. May be repeated."""
        with self._lock:
            sandboxes = [one.sandbox for one in self._sessions.values()]
            self._sessions.clear()
            unshared = list(self._unshared.values())
            self._unshared.clear()
        for session in unshared:
            session.close()
        for sandbox in sandboxes:
            sandbox.close()
        for sandbox in sandboxes:
            sandbox.join(5)
        for prepared in list(self._open):
            prepared.close()
        self.network.close()

    # --- Landlock

    def _by_landlock(self, request: CommandRequest) -> PreparedCommand:
        walls, session = self._walls(request), self._landlock_session(request)
        caches = session.caches
        written = tuple(Path(path) for path in walls.granted(NeedKind.WRITE))
        folders = _GrantedFolders(walls)
        roots = () if request.looking else request.roots
        variables = sandbox_environment(request.environment, added=(*_OWN_VARIABLES, *self._variables))
        is_networked = self._open_network or any(need.kind in _NETWORK for need in request.needs)
        spec = {
            "argv": request.argv,
            "environment": {**variables, **caches.environment, "TMPDIR": str(request.private)},
            "cwd": request.cwd,
            "writable": (*roots, request.private, *caches.writable, *written),
            "hidden": walls.hidden,
            "shown": (*walls.shown, *request.roots, *caches.writable, *map(Path, walls.granted(NeedKind.READ))),
            "network": is_networked and not request.looking,
            "joined": (session.group.processes,) if session.group is not None else (),
            "file_size": self.limits.file_bytes,
            "processes": self.limits.processes,
        }
        before = repositories = None
        if not request.looking:
            repositories = NewRepositories(request.roots, session.repositories)
            before = protected_snapshot(request.roots, nested=repositories.places, but=(self._home,))

        def ended() -> tuple[str, ...]:
            folders.remove_unused()
            restored = before.restore(but=written) if before is not None else []
            told = tuple(f"blocked by the sandbox: {name} is as it was before the command" for name in restored)
            return told + (repositories.end() if repositories is not None else ())

        return PreparedCommand(
            spec, request, self.report, self.limits, hidden=walls.hidden, group=session.group, ended=ended
        )

    def _landlock_session(self, request: CommandRequest) -> _Unshared:
        with self._lock:
            found = self._unshared.get(request.session_id)
            if found is None:
                area = open_cache_area(self._home, _short(os.path.realpath(request.project)))
                caches = CachePlan()
                if area is not None:
                    area.sweep()
                    caches = area.plan(user_home=self._user_home, environ=request.environment, overlays=False)
                group = self._memory_group(f"{_short(request.session_id)}-landlock")
                found = self._unshared[request.session_id] = _Unshared(area, caches, group)
        return found


def _outer_sockets(hidden: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the sockets on which programs outside listen. Those of the session are in a network of their own, which
    this process does not see."""
    return tuple(map(Path, reachable_sockets([str(path) for path in hidden])))


def _layer(layer: Path, number: int) -> tuple[Path, Path]:
    return layer / f"{number}", layer / f"{number}.work"


def _short(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
