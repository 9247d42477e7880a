"""Matches rules against calls: allow rules narrowly, deny and ask rules widely.

A deny rule is compared with every argument in full, with paths as written and as resolved, and with a shell command
also after removing the quotes and backslashes that could hide a word. It may match too much, but must not be evaded.
No rule sees text that only a running shell can compute (`$(printf r)m`): below danger-full-access, a command with
text of that kind is never allowed without asking.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from outlast.core.messages import ToolCall
from outlast.runtime.permissions.call_paths import named_paths, patch_paths
from outlast.runtime.permissions.decision import Policy
from outlast.runtime.permissions.paths import resolve
from outlast.runtime.permissions.rules import PermissionRule
from outlast.runtime.permissions.shell.known_programs import READERS, TALKERS, WRITERS
from outlast.runtime.permissions.shell.special_programs import SPECIAL
from outlast.runtime.permissions.shell.tokenizer import NotUnderstood, Simple, scan


def call_digest(name: str, arguments: Mapping[str, Any], cwd: Path | None = None) -> str:
    """SHA-256 over the call as canonical JSON. Approvals are bound to this digest. `cwd` is the folder where a shell
    command starts: the same text is another call in another folder. None stands for the project."""
    called = [name, arguments] if cwd is None or name != "bash" else [name, arguments, str(cwd)]
    return hashlib.sha256(_canonical(called).encode("utf-8", "surrogatepass")).hexdigest()


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=repr)


def strictly_fits(rule: PermissionRule, call: ToolCall, policy: Policy) -> bool:
    """For allow rules: True if every field of the rule matches. `shell.judge` matches rules for parts of a command."""
    if rule.tool not in {"", call.name} or rule.command or rule.need:
        return False
    if rule.digest:
        return rule.digest == call_digest(call.name, call.arguments, policy.cwd)
    if call.name == "bash":
        return rule.tool == "bash" and not rule.contains and not rule.path_contains
    if rule.contains and rule.contains not in "\n".join(_leaves(call.arguments)):
        return False
    if rule.path_contains:
        given = named_paths(call.name, call.arguments)
        here = str(policy.project)
        seen = [path for raw in given for path in (os.path.normpath(os.path.join(here, raw)), resolve(raw, here))]
        return bool(seen) and all(rule.path_contains in path for path in seen)
    return bool(rule.tool or rule.contains)


def widely_fits(rule: PermissionRule, call: ToolCall, policy: Policy) -> bool:
    """For deny and ask rules: True if every field of the rule may match. A rule for edit or write holds for patches."""
    names = {"", call.name, "edit", "write"} if call.name == "apply_patch" else {"", call.name}
    if rule.tool not in names or rule.need:  # `needs.judge_need` decides about walls
        return False
    if rule.digest and rule.digest != call_digest(call.name, call.arguments, policy.cwd):
        return False
    command = call.arguments.get("command") if call.name == "bash" else None
    text = command if isinstance(command, str) else ""
    if rule.command and not (text and _runs(rule.command, text)):
        return False
    if rule.contains and not any(rule.contains in seen for seen in _texts(call.arguments, text)):
        return False
    if rule.path_contains:
        return any(rule.path_contains in seen for seen in _paths(call.arguments, text, _folder(call, policy)))
    return True


def _folder(call: ToolCall, policy: Policy) -> str:
    """Return the folder against which the paths of a call are resolved."""
    return str(policy.cwd or policy.project) if call.name == "bash" else str(policy.project)


def _leaves(value: object) -> Iterator[str]:
    pending = [value]
    while pending:
        found = pending.pop()
        if isinstance(found, str):
            yield found
        elif isinstance(found, Mapping):
            pending.extend(reversed([*cast("Mapping[str, object]", found).values()]))
        elif isinstance(found, list | tuple):
            pending.extend(reversed(cast("list[object]", found)))
        elif found is not None:
            yield _canonical(found)


def _texts(arguments: Mapping[str, Any], command: str) -> Iterator[str]:
    yield "\n".join(_leaves(arguments))
    yield json.dumps(arguments, ensure_ascii=False, default=repr)
    if command:
        yield _bare(command)
        yield re.sub(r"\s+", " ", _bare(command))


def _paths(arguments: Mapping[str, Any], command: str, project: str) -> Iterator[str]:
    words = [*_leaves(arguments), *patch_paths(str(arguments.get("patch", "")))]
    folders = [project]
    if command:
        bare = re.split(r"[\s;|&<>()=]+", _bare(command))
        words = [command, *bare]
        folders += _entered(bare, project)
        try:
            words += [word.text for simple in scan(command) for word in simple.words]
        except NotUnderstood:
            words.append(_bare(command))
    for word in dict.fromkeys(words):
        yield word
        if "\0" not in word and len(word) < 4096:
            for folder in folders:
                for path in (os.path.normpath(os.path.join(folder, word)), resolve(word, folder)):
                    yield path
                    yield f"{path}/"  # a rule may name a folder so


_ENTERS = frozenset({"cd", "pushd", "-C"})
_MOST_ENTERED = 16


def _entered(words: Sequence[str], project: str) -> list[str]:
    """Return the folders in which a later word of the command may be a path: those after `cd`, one below the other."""
    here, found = project, dict[str, None]()
    for word, name in pairwise(words):
        if word in _ENTERS and "\0" not in name and len(found) < _MOST_ENTERED:
            here = os.path.normpath(os.path.join(here, name))[:4096]
            found[here] = None
    return list(found)


def _bare(text: str) -> str:
    """Remove from the text what a shell removes: quotes, backslashes, line continuations."""
    return text.replace("\\\n", "").translate({ord("'"): None, ord('"'): None, ord("\\"): None})


def _runs(words: tuple[str, ...], command: str) -> bool:
    """Whether a program with these first words may run; checks the bare text if the command is not understood."""
    try:
        simples = scan(command)
    except NotUnderstood:
        return _in_order(words, _tokens(command))
    return any(_simple_runs(words, simple) for simple in simples)


def _simple_runs(words: tuple[str, ...], simple: Simple) -> bool:
    name = os.path.basename(simple.argv[0])
    if name == words[0] or simple.argv[0] == words[0]:
        return _follow(words[1:], list(simple.argv[1:]))
    if name in READERS or name in TALKERS or name in WRITERS or name in SPECIAL.keys() - _RUNNERS:
        return False
    return _in_order(words, _tokens(" ".join(simple.argv)))


_RUNNERS = {"find", "git", "python", "python3", "command", "awk", "sed"}
"""Known programs that may run other programs when they are not harmless."""


def _tokens(text: str) -> list[str]:
    return [token for token in re.split(r"[^\w.+:@%-]+", _bare(text)) if token]


def _in_order(words: tuple[str, ...], tokens: list[str]) -> bool:
    first = {words[0], os.path.basename(words[0])}
    return any(token in first and _follow(words[1:], tokens[at + 1 :]) for at, token in enumerate(tokens))


def _follow(words: tuple[str, ...], tokens: list[str]) -> bool:
    """Whether all words occur in this order, with any tokens in between, since options may appear anywhere."""
    left = iter(tokens)
    return all(any(token == word for token in left) for word in words)
