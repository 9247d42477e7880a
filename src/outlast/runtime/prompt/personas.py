"""Personas: a prompt, a model, a set of tools, and a permission mode that can lower the session's mode, never raise it.

They are files: `agents/*.md` (front matter, then the prompt) or `agents/*.toml` in Outlast's home and in a project's
`.outlast`, and Claude Code's definitions in `.claude/agents`. The first of a name counts, in this order, so that a
cloned project cannot replace the user's personas. A project's are read without following a link out of the project.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from outlast.core.errors import ConfigError
from outlast.core.text import visible_line
from outlast.core.workflow_mode import Workflow
from outlast.runtime.permissions.consent import content_digest
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.prompt import claude_agents
from outlast.runtime.prompt.front_matter import Malformed, front_matter, toml_table
from outlast.runtime.safe_open import read_inside

DEFAULT = "default-interactive"
LIMIT = 64 * 1024
MOST = 200
KEYS = frozenset({"name", "description", "model", "tools", "permission_mode", "workflow", "prompt"})

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class Persona(msgspec.Struct, frozen=True, kw_only=True):
    """`tools` None means all tools. `source` is built-in, home or project."""

    name: str
    description: str = ""
    model: str | None = None
    tools: tuple[str, ...] | None = None
    permission_mode: PermissionMode | None = None
    workflow: str | None = None
    prompt: str = ""
    source: str = "built-in"
    path: str | None = None
    digest: str = ""
    """Of the content of a project's file: its persona names a model only after the user's consent to that."""

    def mode_under(self, ceiling: PermissionMode) -> PermissionMode:
        """Return the persona's own mode if it permits no more than `ceiling`, else `ceiling`."""
        wanted = self.permission_mode
        return wanted if wanted is not None and wanted.is_at_most(ceiling) else ceiling

    def may_use(self, tool: str) -> bool:
        return self.tools is None or tool in self.tools


BUILT_IN = Persona(name=DEFAULT, description="Works with you in the project folder; asks when it has to.")


class Personas:
    """The available personas. A malformed file is an error only when its persona is requested."""

    def __init__(self, found: Iterable[Persona] = (), faults: Mapping[str, str] | None = None) -> None:
        self._found = {BUILT_IN.name: BUILT_IN}
        self._found.update({persona.name: persona for persona in found})
        self.faults: dict[str, str] = dict(faults or {})

    def names(self) -> list[str]:
        return sorted(self._found)

    def all(self) -> list[Persona]:
        return [self._found[name] for name in self.names()]

    def get(self, name: str | None) -> Persona:
        """Return the persona of that name, for None the default one. Raises `ConfigError` if missing or invalid."""
        wanted = name or DEFAULT
        if wanted in self.faults:
            raise ConfigError(self.faults[wanted])
        if wanted not in self._found:
            raise ConfigError(f"there is no persona '{wanted}'; choose one of {', '.join(self.names())}")
        return self._found[wanted]


def load_personas(home: Path | None, project: Path | None) -> Personas:
    """Load the personas of this user and this project."""
    found: dict[str, Persona] = {}
    faults: dict[str, str] = {}
    places = [(home, "agents", "home")] if home is not None else []
    if project is not None:
        places += [(project, ".outlast/agents", "project"), (project, claude_agents.FOLDER, "project")]
    for root, folder, source in places:
        for relative in _files(root, folder):
            stem = Path(relative).stem
            try:
                persona = _read(root, relative, source)
            except Malformed as error:
                if stem not in found and (source == "home" or stem != DEFAULT):
                    faults.setdefault(stem, f"{root / relative}: {error}")
                continue
            taken = persona.name in found or persona.name in faults
            if not taken and (source == "home" or persona.name != DEFAULT):
                found[persona.name] = persona
    return Personas(found.values(), faults)


def _files(root: Path, folder: str) -> list[str]:
    try:
        names = sorted(path.name for path in (root / folder).iterdir() if path.suffix in (".md", ".toml"))
    except OSError:  # a missing or unreadable folder has no personas
        return []
    return [f"{folder}/{name}" for name in names[:MOST]]


def _read(root: Path, relative: str, source: str) -> Persona:
    data = read_inside(root, relative, LIMIT + 1)
    if data is None:
        raise Malformed("is not a readable file inside its folder; correct or remove it")
    if len(data) > LIMIT:
        raise Malformed(f"is larger than {LIMIT // 1024} KiB; shorten it")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed("is not UTF-8 text; save it as UTF-8") from error
    table = toml_table(text) if relative.endswith(".toml") else front_matter(text, body="prompt")
    if relative.startswith(claude_agents.FOLDER):
        table = claude_agents.persona_keys(table)
    persona = _persona(table, Path(relative).stem, source, str(root / relative))
    return msgspec.structs.replace(persona, digest=content_digest(data)) if source == "project" else persona


def _persona(table: Mapping[str, object], stem: str, source: str, path: str) -> Persona:
    for key in table:
        if key not in KEYS:
            raise Malformed(f"unknown key '{key}'; known keys are {', '.join(sorted(KEYS))}")
    name = _text(table, "name") or stem
    if not _NAME.fullmatch(name):
        raise Malformed(f"'{name}' is not a valid persona name; use letters, digits, '-' and '_'")
    return Persona(
        name=name,
        description=_text(table, "description") or "",
        model=_text(table, "model"),
        tools=_tools(table.get("tools")),
        permission_mode=_mode(_text(table, "permission_mode")),
        workflow=_workflow(_text(table, "workflow")),
        prompt=_text(table, "prompt") or "",
        source=source,
        path=path,
    )


def _text(table: Mapping[str, object], key: str) -> str | None:
    value = table.get(key)
    if value is None:
        return None
    if not isinstance(value, str):
        raise Malformed(f"{key} must be text; put it in quotes")
    return value.strip() or None


def _tools(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    if value == "":
        raise Malformed("tools is empty; list names, write [] for none, or remove the key for all")
    names = value.split(",") if isinstance(value, str) else value
    try:
        listed = msgspec.convert(names, tuple[str, ...])
    except msgspec.ValidationError as error:
        raise Malformed('tools must be a list of names, like ["read", "search"]') from error
    return tuple(name.strip() for name in listed if name.strip())


def _mode(name: str | None) -> PermissionMode | None:
    if name is None:
        return None
    if name not in set(PermissionMode):
        raise Malformed(f"permission_mode '{name}' is unknown; use one of {', '.join(PermissionMode)}")
    return PermissionMode(name)


def _workflow(name: str | None) -> str | None:
    if name is not None and name not in set(Workflow):
        raise Malformed(f"workflow '{name}' is unknown; use one of {', '.join(Workflow)}")
    return name


MOST_LISTED = 50
DESCRIPTION_LENGTH = 300


def rendered(personas: Sequence[Persona]) -> str:
    """Return the list of sub-agents for the prompt; empty without a persona besides the built-in one."""
    others = [persona for persona in personas if persona.name != DEFAULT]
    if not others:
        return ""
    lines = [f"- {persona.name}: {_described(persona)}" for persona in others[:MOST_LISTED]]
    if len(others) > MOST_LISTED:
        lines.append(f"- ... and {len(others) - MOST_LISTED} more that are not listed")
    return "\n".join([SUB_AGENTS, *lines])


SUB_AGENTS = "The task tool runs a sub-agent; its persona can be one of these. Without one it works as you do."


def _described(persona: Persona) -> str:
    return visible_line(persona.description, DESCRIPTION_LENGTH) or "(no description)"
