"""Commands that destroy uncommitted work which `/undo` could not bring back: the user is asked, sandbox or not.

The change set of a command keeps changed and untracked files, but no ignored ones and nothing inside git. This module
only recognises the plain forms of such commands. It protects against slips of the model, not against an attacker, whom
the sandbox holds.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence

from outlast.runtime.permissions.shell.tokenizer import NotUnderstood, scan

_SEPARATORS = re.compile(r"&&|\|\||[;|&\n]")
_VALUED = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace"})
_EVERYTHING = frozenset({"/", "/*", ".", "./", "..", "../", "*", "./*", "~", "~/", "~/*", "$HOME", "$HOME/", "$PWD"})


def destroyed_work(command: str) -> str | None:
    """Return what the command would destroy for good, as the end of a sentence; None if nothing is known of it."""
    return next((why for argv in _commands(command) if (why := _judge(argv)) is not None), None)


def _commands(command: str) -> Iterator[tuple[str, ...]]:
    try:
        yield from (simple.argv for simple in scan(command))
    except NotUnderstood:
        for piece in _SEPARATORS.split(command):
            try:
                yield tuple(shlex.split(piece))
            except ValueError:
                yield tuple(piece.split())


def _judge(argv: Sequence[str]) -> str | None:
    while argv and ("=" in argv[0] or argv[0] in {"sudo", "env", "command", "then", "do", "{", "("}):
        argv = argv[1:]
    if not argv:
        return None
    judge = {"git": _git, "rm": _remove}.get(argv[0].rpartition("/")[2])
    return judge(argv[1:]) if judge is not None else None


def _remove(words: Sequence[str]) -> str | None:
    options = "".join(word for word in words if word.startswith("-"))
    whole = [word for word in words if word in _EVERYTHING]
    if whole and ("r" in options or "R" in options):
        return f"removes everything in {whole[0]}, ignored files too"
    return None


def _git(words: Sequence[str]) -> str | None:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _VALUED else 1
    if at >= len(words):
        return None
    judge = _GIT.get(words[at])
    return judge(words[at + 1 :]) if judge is not None else None


def _clean(words: Sequence[str]) -> str | None:
    short = "".join(word[1:] for word in words if re.fullmatch(r"-[A-Za-z]+", word))
    if "n" in short or "--dry-run" in words or not set(short) & {"x", "X"}:
        return None
    return "removes ignored files, which cannot be brought back"


def _stash(words: Sequence[str]) -> str | None:
    return "drops stashed work, which cannot be brought back" if words and words[0] in {"drop", "clear"} else None


def _reflog(words: Sequence[str]) -> str | None:
    return "forgets commits that no branch holds" if words and words[0] in {"expire", "delete"} else None


def _prune(words: Sequence[str]) -> str | None:
    now = any(word in {"--prune=now", "--prune=all", "--expire=now", "--expire=all"} for word in words)
    return "deletes commits that no branch holds" if now else None


_GIT: dict[str, Callable[[Sequence[str]], str | None]] = {
    "clean": _clean,
    "stash": _stash,
    "reflog": _reflog,
    "gc": _prune,
    "prune": _prune,
}
