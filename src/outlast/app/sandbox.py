"""The sandbox of this process: which tier confines shell commands here, under the user's settings.

One sandbox serves all sessions of a process, so that the commands of a session find the /tmp and the background jobs of
the ones before. `doctor`, the status line and the first screen show the tier.
"""

from __future__ import annotations

import atexit
from functools import cache
from pathlib import Path

import msgspec

from outlast.app.server_registry import server_ports
from outlast.app.settings import Settings, user_home, whole_environment
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.prompt.project_identity import project_key
from outlast.runtime.sandbox import landlock
from outlast.runtime.sandbox.caches import clear_cache, measured_areas
from outlast.runtime.sandbox.command_sandbox import CommandSandbox
from outlast.runtime.sandbox.hidden_paths import check_patterns, hidden_paths
from outlast.runtime.sandbox.limits import ResourceLimits
from outlast.runtime.sandbox.port import SandboxReport, SandboxTier
from outlast.runtime.sandbox.probe import probe_sandbox

_WALLED = frozenset({SandboxTier.BUBBLEWRAP, SandboxTier.LANDLOCK, SandboxTier.SEATBELT})


def sandbox_report(settings: Settings) -> SandboxReport:
    """Return what confines commands here. The first call on a machine tries it out, which takes a moment."""
    if settings.sandbox == "external":
        return SandboxReport(tier=SandboxTier.EXTERNAL)
    if settings.sandbox == "none":
        return SandboxReport(tier=SandboxTier.NONE, reason="it is switched off (sandbox = none)")
    return _probed(settings.home / "state")


@cache
def _probed(state_dir: Path) -> SandboxReport:
    return probe_sandbox(state_dir, whole_environment().get("PATH"))


def command_sandbox(settings: Settings) -> CommandSandbox | None:
    """Return what puts the commands of this process behind walls; None where nothing does."""
    report = sandbox_report(settings)
    if report.tier not in _WALLED:
        return None
    extra, variables = settings.sandbox_hidden, settings.sandbox_variables
    check_patterns(settings.home, extra)
    return _sandbox(report, settings.home, settings.network, extra, variables, settings.sandbox_limits)


@cache
def _sandbox(
    report: SandboxReport,
    home: Path,
    network: str,
    extra: tuple[str, ...],
    variables: tuple[str, ...],
    limits: ResourceLimits,
) -> CommandSandbox:
    def hidden() -> tuple[Path, ...]:
        return hidden_paths(user_home=user_home() or home, outlast_home=home, extra=extra, environ=whole_environment())

    sandbox = CommandSandbox(
        report,
        home=home,
        user_home=user_home() or home,
        hidden=hidden,
        limits=limits,
        open_network=network == "on",
        variables=variables,
        own_ports=lambda: server_ports(home),
    )
    atexit.register(sandbox.close)  # jobs that still run end, and nothing that protected missing files stays
    return sandbox


def read_only_holds(settings: Settings) -> bool:
    """Return whether no command can write in read-only mode. Where the machine is the wall, Landlock sees to it."""
    return sandbox_report(settings).tier is not SandboxTier.EXTERNAL or landlock.available().runs_unasked


def sandbox_line(report: SandboxReport) -> str:
    """Return one line for people: what confines commands, and what is missing."""
    match report.tier:
        case SandboxTier.BUBBLEWRAP:
            layers = "" if report.overlays else ", without throw-away copies for read-only mode"
            return f"commands run in a sandbox (bubblewrap {report.version}{layers})"
        case SandboxTier.LANDLOCK:
            return f"commands run in a weaker sandbox (Landlock {report.abi}): {report.reason}"
        case SandboxTier.SEATBELT:
            return "commands run in a sandbox (sandbox-exec)"
        case SandboxTier.EXTERNAL:
            return "commands run unconfined and unasked: you said that this machine is the sandbox"
        case SandboxTier.NONE:
            return f"no sandbox, so you are asked about most commands: {report.reason}"


class CacheSize(msgspec.Struct, frozen=True, kw_only=True):
    """What the commands of a project downloaded. `project_key` is that of its sessions."""

    project_key: str
    size: int


def cache_sizes(settings: Settings) -> list[CacheSize]:
    """Return the cache area of each project, largest first."""
    sizes = [CacheSize(project_key=key, size=size) for key, size in measured_areas(settings.home).items()]
    return sorted(sizes, key=lambda one: -one.size)


def clear_caches(settings: Settings, project: Path | None = None) -> int:
    """Remove what commands downloaded, for one project or for all; return the bytes freed."""
    return clear_cache(settings.home, project_key(project) if project is not None else None)


def sandbox_word(settings: Settings, mode: str) -> str:
    """Return what the status line shows: the tier, or that there is none."""
    tier = sandbox_report(settings).tier
    if mode == PermissionMode.DANGER_FULL_ACCESS or tier is SandboxTier.NONE:
        return "no sandbox"
    return f"{tier} sandbox" if tier is SandboxTier.EXTERNAL else str(tier)


def sandbox_warning(settings: Settings, mode: str) -> str | None:
    """Return the line that a user reads at the start if commands are not behind walls, or behind weaker ones."""
    report = sandbox_report(settings)
    if mode == PermissionMode.DANGER_FULL_ACCESS:
        return "danger-full-access: commands run without a sandbox and without questions"
    if report.tier in {SandboxTier.BUBBLEWRAP, SandboxTier.SEATBELT}:
        return None
    return sandbox_line(report)
