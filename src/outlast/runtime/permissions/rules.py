"""Permission rules: the user's standing decisions, as data.

A rule file is one JSON object with the lists `allow`, `deny` and `ask`. Each rule is an object with at least one of
`tool` (the exact name), `contains` (text anywhere in the arguments), `path_contains` (text in a path, as written and as
resolved), `command` (the first words of a simple command), `need` (a wall of the sandbox, such as
`network:example.org`) and `digest` (one exact call; Outlast writes those). A rule applies if all its fields match.
Anything else in the file is an error, and the agent does not start.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import msgspec

from outlast.core.errors import ConfigError
from outlast.runtime.private_file import Table, parsed, read_bytes
from outlast.runtime.sandbox.port import NeedKind, parse_need

LISTS = ("allow", "deny", "ask")
FILE_NAME = "permission-rules.json"
FLAG = "--allow"
"""The origin of rules that were given with `--allow`."""
_KEYS = ("tool", "contains", "path_contains", "command", "need", "digest")
_PATH_TOOLS = frozenset({"read", "write", "edit", "apply_patch", "glob", "search"})


class PermissionRule(msgspec.Struct, frozen=True, kw_only=True):
    """Empty fields are not compared. `origin` is where the rule was read, for explanations."""

    tool: str = ""
    contains: str = ""
    path_contains: str = ""
    command: tuple[str, ...] = ()
    need: str = ""
    digest: str = ""
    origin: str = ""

    def table(self) -> dict[str, str]:
        """The form used in a rule file."""
        written = {"command": shlex.join(self.command)} if self.command else {}
        for key in ("tool", "contains", "path_contains", "need", "digest"):
            if getattr(self, key):
                written[key] = getattr(self, key)
        return written

    def __str__(self) -> str:
        said = ", ".join(f"{key} '{value}'" for key, value in self.table().items())
        return f"{said} ({self.origin})" if self.origin else said


class RuleSet(msgspec.Struct, frozen=True, kw_only=True):
    """All rules in force, from all sources. `source` names the files and flags they came from."""

    allow: tuple[PermissionRule, ...] = ()
    deny: tuple[PermissionRule, ...] = ()
    ask: tuple[PermissionRule, ...] = ()
    source: str = ""

    def counts(self) -> dict[str, int]:
        return {"allow": len(self.allow), "deny": len(self.deny), "ask": len(self.ask)}

    def without_allow(self) -> RuleSet:
        return msgspec.structs.replace(self, allow=())

    def __add__(self, other: RuleSet) -> RuleSet:
        return RuleSet(
            allow=self.allow + other.allow,
            deny=self.deny + other.deny,
            ask=self.ask + other.ask,
            source=", ".join(filter(None, (self.source, other.source))),
        )


NO_RULES = RuleSet()


def read_rules(path: Path) -> RuleSet:
    """Return the rules in a file; no rules if the file does not exist."""
    content = read_bytes(path)
    return NO_RULES if content is None else parse_rules(path, content)


def parse_rules(path: Path, content: bytes) -> RuleSet:
    table = parsed(path, content)
    for key in table:
        if key not in LISTS:
            raise ConfigError(f"{path}: unknown key '{key}'; a rule file has the lists allow, deny and ask")
    allow, deny, ask = (tuple(_rules(path, name, table.get(name, []))) for name in LISTS)
    return RuleSet(allow=allow, deny=deny, ask=ask, source=str(path))


def _rules(path: Path, name: str, given: object) -> Iterable[PermissionRule]:
    if not isinstance(given, list):
        raise ConfigError(f"{path}: '{name}' must be a list of rules; write it as [...]")
    for number, rule in enumerate(cast("list[object]", given), 1):
        yield _rule(f"{path}: {name} rule {number}", rule)


def _rule(where: str, given: object) -> PermissionRule:
    if not isinstance(given, dict) or not given:
        raise ConfigError(f"{where} must be an object with at least one of {', '.join(_KEYS)}")
    fields: dict[str, str] = {}
    for key, value in cast("Table", given).items():
        if key not in _KEYS:
            raise ConfigError(f"{where} has the unknown key '{key}'; known keys are {', '.join(_KEYS)}")
        if not isinstance(value, str) or not value.strip():
            raise ConfigError(f"{where}: {key} must be text that is not empty; correct or remove it")
        fields[key] = value
    command = _command(where, fields.pop("command")) if "command" in fields else ()
    if command and fields.get("tool", "bash") != "bash":
        raise ConfigError(f"{where}: command only goes with the tool bash; remove one of the two")
    if "need" in fields:
        if command or fields.keys() - {"need", "tool"} or fields.get("tool", "bash") != "bash":
            raise ConfigError(f"{where}: need stands alone, or with the tool bash; remove the other keys")
        fields["need"] = _need(where, fields["need"])
    return PermissionRule(**fields, command=command, origin=where)


def _need(where: str, text: str, folder: Path | None = None) -> str:
    """Check a wall's name. A network rule may begin with `*.` for every host below a name. A relative path starts at
    `folder`; in a file there is none, and such a path is refused."""
    plain = text.replace("network:*.", "network:", 1)
    try:
        parsed_need = parse_need(plain if plain != "network:*" else "network:any", folder or Path("/"))
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from error
    if parsed_need.kind is NeedKind.NETWORK:
        return text
    path = text.partition(":")[2].strip()
    if parsed_need.kind is not NeedKind.LOCALHOST and folder is None and not path.startswith(("/", "~")):
        raise ConfigError(f"{where}: '{path}' is no absolute path: begin it with / or ~/")
    return str(parsed_need)


def _command(where: str, text: str) -> tuple[str, ...]:
    """Split a command into its first words. A trailing `*` is accepted and dropped: it adds nothing to a prefix."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"{where}: command '{text}' cannot be split into words ({error}); correct it") from error
    if words[-1:] == ["*"]:
        words.pop()
    if not words:
        raise ConfigError(f"{where}: command names no program; write its first words, such as 'git push'")
    if any(set(word) & set("*?;|&<>`$(){}\n") for word in words):
        raise ConfigError(
            f"{where}: command '{text}' must be the first words of one simple command, with * only at its end"
        )
    return tuple(words)


_FLAG = re.compile(r"(?P<tool>[A-Za-z_][\w.-]*)\s*(?:\((?P<pattern>.*)\))?", re.DOTALL)


def parse_flag(text: str, folder: Path | None = None) -> PermissionRule:
    """Parse `--allow TEXT`: `tool`, `bash(first words *)`, `write(part of a path)`, or a wall as `network:HOST`. The
    relative path of a wall starts at `folder`."""
    where = f"--allow '{text}'"
    if text.strip().partition(":")[0] in set(NeedKind) and ":" in text:
        return PermissionRule(tool="bash", need=_need(where, text.strip(), folder), origin=FLAG)
    found = _FLAG.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"{where} is not a rule; write a tool's name or tool(pattern), such as bash(git push *)")
    tool, pattern = found["tool"], found["pattern"]
    if pattern is None:
        return PermissionRule(tool=tool, origin=FLAG)
    pattern = pattern.strip()
    if not pattern or pattern == "*":
        raise ConfigError(f"{where} has no pattern; write --allow {tool} to allow the whole tool")
    if tool == "bash":
        return PermissionRule(tool=tool, command=_command(where, pattern), origin=FLAG)
    if tool not in _PATH_TOOLS:
        raise ConfigError(f"{where}: only bash and the file tools take a pattern; write --allow {tool}")
    part = pattern.removesuffix("*").removesuffix("*")
    if not part or "*" in part:
        raise ConfigError(f"{where}: the pattern must be part of a path; only a last * may stand for the rest")
    return PermissionRule(tool=tool, path_contains=part, origin=FLAG)


def flag_rules(flags: Iterable[str], folder: Path | None = None) -> RuleSet:
    allow = tuple(parse_flag(flag, folder) for flag in flags)
    return RuleSet(allow=allow, source="--allow" if allow else "")
