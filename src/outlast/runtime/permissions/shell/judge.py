"""Decides whether a shell command may run without asking: each simple command in it is judged by its arguments.

A command passes if both parsers agree on it (`tokenizer`, `grammar_check`) and each simple command is known only to
read with these exact arguments (`known_programs`, `special_programs`, `git`) or matches an allow rule or a grant.
Every other command needs a question. The caller must run exactly the text that was judged, by bash, in the policy's
`cwd` or else the project, with `git.GIT_ENVIRONMENT` set and `shell_variables.UNSET` unset.
"""

from __future__ import annotations

import os
import re

import msgspec

from outlast.runtime.permissions.decision import Policy, Verdict
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.permissions.paths import inside, writing_fault
from outlast.runtime.permissions.rule_files import ALWAYS
from outlast.runtime.permissions.rules import PermissionRule
from outlast.runtime.permissions.shell.arguments import Grammar, OptionKind, arguments
from outlast.runtime.permissions.shell.command_scope import CommandScope
from outlast.runtime.permissions.shell.grammar_check import confirm
from outlast.runtime.permissions.shell.grants import grantable, head_words, is_covered
from outlast.runtime.permissions.shell.known_programs import BUILTINS, READERS, TALKERS, WRITERS
from outlast.runtime.permissions.shell.special_programs import SPECIAL
from outlast.runtime.permissions.shell.tokenizer import NotUnderstood, Redirect, Simple, scan

__all__ = ["Judgement", "grantable", "head_words", "judge", "read_commands"]

_PYTHON = re.compile(r"python3\.\d+")
_SYSTEM = ("/bin/", "/usr/bin/")
_SHOWS_STATUS = frozenset({"echo", "printf", "test", "["})
_MOST_REASONS = 5


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """`reasons` say what the user must be asked about; `writes`: the command is known to write. `asked` are the simple
    commands behind the reasons, empty if the whole text was not understood. `by_rule`: rules or grants cover all."""

    verdict: Verdict
    reasons: tuple[str, ...] = ()
    writes: bool = False
    asked: tuple[Simple, ...] = ()
    by_rule: bool = False


def read_commands(command: str) -> list[Simple]:
    """Return the simple commands of a text on which both parsers agree; raise NotUnderstood otherwise."""
    commands = scan(command)
    confirm(command, commands)
    return commands


def judge(command: str, policy: Policy) -> Judgement:
    scope = CommandScope(policy.cwd or policy.project, policy.roots, policy.search_path)
    try:
        commands = read_commands(command)
        _looked_up("bash", scope)  # bash itself must be the system's, too
    except NotUnderstood as why:
        return Judgement(verdict=Verdict.ASK, reasons=(f"the command {why}",))
    scope.writes = any(map(_is_writer, commands))
    faults, ruled = _faults(command, commands, scope, policy)
    reasons = tuple(f"`{_short(command, simple)}` {why}" for simple, why in faults[:_MOST_REASONS])
    if len(faults) > _MOST_REASONS:
        reasons += (f"and {len(faults) - _MOST_REASONS} more",)
    verdict = Verdict.ASK if faults else Verdict.ALLOW
    if scope.writes and policy.mode is PermissionMode.READ_ONLY:
        verdict, reasons = Verdict.DENY, ("the command writes, and the mode is read-only",)
    asked = tuple(simple for simple, _ in faults)
    return Judgement(verdict=verdict, reasons=reasons, writes=scope.writes, asked=asked, by_rule=ruled == len(commands))


def _is_writer(simple: Simple) -> bool:
    return _program(simple.argv[0]) in WRITERS or any(map(_is_output, simple.redirects))


def _is_output(redirect: Redirect) -> bool:
    return redirect.mode == ">" and redirect.target.text != "/dev/null"


def _faults(
    command: str, commands: list[Simple], scope: CommandScope, policy: Policy
) -> tuple[list[tuple[Simple, str]], int]:
    """Return the commands that need a question, each with the reason, and how many are covered by rules or grants."""
    faults: list[tuple[Simple, str]] = []
    ruled = 0
    for simple in commands:
        try:
            _redirections(simple, scope)
            if _is_allowed(command, simple, policy, scope):
                ruled += 1
            else:
                _harmless(simple, scope)
        except NotUnderstood as why:
            faults.append((simple, str(why)))
    return faults, ruled


def _redirections(simple: Simple, scope: CommandScope) -> None:
    for redirect in simple.redirects:
        if redirect.mode == ">":
            scope.writes_to(redirect.target)
        elif redirect.mode == "<":
            scope.reads(redirect.target)


# --- commands the user has allowed


def _is_allowed(command: str, simple: Simple, policy: Policy, scope: CommandScope) -> bool:
    text = command[slice(*simple.span)]
    if any(_covers(rule, simple, text, scope) for rule in policy.rules.allow):
        return True
    heads = (words for grant in policy.grants if grant.tool == "bash" for words in grant.commands)
    return any(is_covered(simple, words, scope) for words in heads)


def _covers(rule: PermissionRule, simple: Simple, text: str, scope: CommandScope) -> bool:
    """Whether the rule allows this simple command. Rules for a whole call (digest, tool alone) or a path never do. A
    rule that the user wrote covers all that begins with its words, one that comes from an answer less (`grants`)."""
    if (
        rule.tool not in {"", "bash"}
        or rule.path_contains
        or rule.digest
        or rule.need
        or not (rule.command or rule.contains)
    ):
        return False
    if rule.origin.startswith(ALWAYS):
        return bool(rule.command) and is_covered(simple, rule.command, scope)
    return simple.argv[: len(rule.command)] == rule.command and rule.contains in text


# --- commands known to be harmless


def _harmless(simple: Simple, scope: CommandScope) -> None:
    name = _program(simple.argv[0])
    if name in WRITERS:
        raise NotUnderstood("writes files")
    words = simple.words[1:]
    special = SPECIAL.get("python3" if _PYTHON.fullmatch(name) else name)
    table = READERS.get(name) or TALKERS.get(name)
    if special is None and table is None:
        raise NotUnderstood("runs a program that is not on the list of harmless ones")
    if name not in _SHOWS_STATUS and any(word.status for word in words):
        raise NotUnderstood(f"gives {name} a word that is only known when it runs ($?)")
    if name not in BUILTINS and name == simple.argv[0]:
        _looked_up(name, scope)
    if special is not None:
        special(words, scope)
    elif table is not None:
        _by_table(name, simple, table, scope)
    if any(map(_is_output, simple.redirects)):
        raise NotUnderstood("writes to a file")


def _program(first: str) -> str:
    for place in _SYSTEM:
        if first.startswith(place):
            return first.removeprefix(place)
    return first


def _by_table(name: str, simple: Simple, table: Grammar, scope: CommandScope) -> None:
    given = arguments(name, simple.words[1:], table)
    if name == "diff" and not given.has("--no-dereference") and any(map(scope.is_folder, given.operands)):
        raise NotUnderstood("compares folders and follows the links in them; --no-dereference does not")
    for word in given.reads:
        scope.reads(word)
    for word in given.operands:
        if table.operands is OptionKind.READ:
            scope.reads(word)
        elif word.glob:
            raise NotUnderstood(f"gives {name} a pattern")


def _looked_up(name: str, scope: CommandScope) -> None:
    """Raises NotUnderstood unless the program is the system's: not in the project, nor one this line may put there."""
    for entry in scope.search_path.split(":") if scope.search_path else ():
        place = os.path.join(entry, name)
        if not os.path.isabs(entry):  # an empty entry is the current folder
            raise NotUnderstood(f"would look for {name} in a relative folder of PATH")
        if os.access(place, os.X_OK) and not os.path.isdir(place):
            if inside(os.path.realpath(place), scope.roots):
                raise NotUnderstood(f"would run the project's own {name}")
            return
        if scope.writes and inside(os.path.realpath(entry), scope.roots) and not writing_fault(place, "/", scope.roots):
            raise NotUnderstood(f"writes files, and the project's own folder {entry} comes first in PATH")


def _short(command: str, simple: Simple) -> str:
    """Return the simple command for one line of text, with nothing in it that moves the cursor or hides."""
    text = command[slice(*simple.span)]
    shown = text if len(text) <= 120 else f"{text[:100]} ... ({len(text)} characters)"
    return shown if shown.isprintable() and shown.isascii() else ascii(shown)[1:-1]
