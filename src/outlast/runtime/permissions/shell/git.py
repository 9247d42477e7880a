"""Judges `git`: accepts subcommands and options that only read, in a repository whose configuration runs nothing.

A repository can make `git status` run programs (`core.fsmonitor`, filters, `diff` drivers, an index hook). So this
module reads the repository's configuration, and any setting that is not known to be harmless needs a question. The
user's global git configuration is trusted. Every shell must have `GIT_ENVIRONMENT` in its environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from outlast.runtime.git_repository import (
    CONFIG_LIMIT,
    find_repository,
    is_harmless_setting,
    is_outside_repositories,
    may_enter_submodules,
    setting_names,
)
from outlast.runtime.permissions.shell.arguments import CommandArguments, Grammar, OptionKind, arguments, grammar
from outlast.runtime.permissions.shell.command_scope import CommandScope
from outlast.runtime.permissions.shell.tokenizer import NotUnderstood, Word
from outlast.runtime.safe_open import read_inside

_SETTINGS = {
    "core.fsmonitor": "false",
    "log.showSignature": "false",
    "safe.bareRepository": "explicit",
    "diff.ignoreSubmodules": "dirty",  # otherwise `git status` runs git, with its configuration, in every submodule
}
GIT_ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {
        "GIT_PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",  # keeps `git status` from writing the index and so from running its hook
        "GIT_CONFIG_COUNT": str(len(_SETTINGS)),
        **{f"GIT_CONFIG_KEY_{n}": key for n, key in enumerate(_SETTINGS)},
        **{f"GIT_CONFIG_VALUE_{n}": value for n, value in enumerate(_SETTINGS.values())},
    }
)
"""Set for every shell. Commit hooks stay on: the user is asked about commits, and an approved one runs as written."""

_DIFF_FLAGS = "puswbRaz"
_DIFF = (
    "stat=? numstat shortstat dirstat=? summary name-only name-status color=? no-color color-words=? word-diff=? "
    "word-diff-regex== patch no-patch unified== minimal patience histogram diff-algorithm== no-renames find-renames=? "
    "find-copies=? diff-filter== ignore-all-space ignore-space-change ignore-space-at-eol ignore-blank-lines "
    "ignore-cr-at-eol function-context exit-code quiet no-ext-diff no-textconv text binary full-index abbrev=? "
    "relative=? no-prefix check raw compact-summary patch-with-stat inter-hunk-context== pickaxe-regex pickaxe-all"
)
_LOG = (
    f"{_DIFF} oneline graph all decorate=? no-decorate max-count== skip== since== after== until== before== author== "
    "committer== grep== format== pretty=? abbrev-commit no-abbrev-commit follow merges no-merges first-parent reverse "
    "date== branches=? tags=? remotes=? topo-order date-order author-date-order left-right cherry-pick full-history "
    "simplify-by-decoration ancestry-path invert-grep all-match regexp-ignore-case perl-regexp fixed-strings "
    "extended-regexp walk-reflogs cc show-pulls boundary parents children no-notes count not left-only right-only "
    "no-walk source min-parents== max-parents=="
)
_LOOK = grammar(f"{_DIFF_FLAGS}gicmtEFPW", _LOG, valued="nSGL", attached="UMCB", digits=True)
_REFS = (
    "sort== format== contains=? no-contains=? merged=? no-merged=? points-at== column=? no-column color=? ignore-case"
)

_SUBCOMMANDS: dict[str, Grammar] = {
    "status": grammar(
        "sbvz",
        "short branch show-stash porcelain=? long verbose untracked-files=? ignored=? ahead-behind no-ahead-behind "
        "renames no-renames column=? no-column",
        attached="u",
    ),
    "diff": grammar(f"{_DIFF_FLAGS}W", f"{_DIFF} cached staged merge-base", valued="SG", attached="UMCB", digits=True),
    "log": _LOOK,
    "show": _LOOK,
    "rev-list": _LOOK,
    "reflog": _LOOK,
    "whatchanged": _LOOK,
    "shortlog": grammar("nsec", "numbered summary email all since== until== no-merges group==", attached="w"),
    "branch": grammar("arvl", f"list show-current all remotes verbose no-abbrev abbrev=? no-color {_REFS}"),
    "tag": grammar("l", f"list {_REFS}", attached="n"),
    "remote": grammar("v", "verbose", operands=OptionKind.NONE),
    "rev-parse": grammar(
        "q",
        "abbrev-ref=? show-toplevel short=? verify git-dir is-inside-work-tree quiet show-prefix show-cdup "
        "git-common-dir absolute-git-dir is-bare-repository symbolic-full-name",
    ),
    "ls-files": grammar(
        "cdmostuvz",
        "cached deleted modified others ignored stage unmerged exclude-standard full-name error-unmatch exclude== "
        "abbrev=? eol deduplicate directory no-empty-directory",
        valued="x",
    ),
    "ls-tree": grammar("drtlz", "name-only name-status full-name full-tree long abbrev=? object-only"),
    "blame": grammar(
        "lsfnpewtbc",
        "line-porcelain porcelain date== show-email show-name show-number root since== abbrev==",
        valued="L",
        attached="MC",
    ),
    "describe": grammar(
        "", "tags all always dirty=? abbrev== long exact-match contains match== exclude== first-parent"
    ),
    "merge-base": grammar("a", "all is-ancestor octopus fork-point"),
    "cat-file": grammar("pets", most=2),
    "grep": grammar(
        "niwlLcEFPGvhHaIqoprz",
        "line-number ignore-case word-regexp files-with-matches files-without-match name-only count extended-regexp "
        "fixed-strings perl-regexp basic-regexp invert-match cached untracked show-function function-context break "
        "heading max-depth== and or not all-match quiet text null column only-matching context== after-context== "
        "before-context== color=? no-color exclude-standard full-name",
        valued="eABCm",
        pattern=True,
        expressions="-e",
        digits=True,
    ),
    "for-each-ref": grammar("", f"count== {_REFS}"),
    "show-ref": grammar("dsq", "heads tags head dereference hash=? verify quiet abbrev=?"),
    "name-rev": grammar("", "tags name-only all always refs=="),
    "check-ignore": grammar("qvn", "quiet verbose non-matching no-index"),
    "count-objects": grammar("vH", "verbose human-readable", operands=OptionKind.NONE),
    "version": grammar("", "build-options", operands=OptionKind.NONE),
}
_LISTING = ("-l", "--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")


def judge_git(words: Sequence[Word], scope: CommandScope) -> None:
    """Return if the command only reads; raise NotUnderstood otherwise."""
    rest, folders = _globals(list(words), scope)
    if not rest or rest[0].glob:
        raise NotUnderstood("gives git no subcommand")
    if [word.text for word in rest] == ["--version"]:
        return
    name, rest = _subcommand(rest)
    given = arguments(f"git {name}", rest, _SUBCOMMANDS[name])
    _only_looks(name, given)
    with scope.standing_in(folders):
        for operand in (*given.operands, *given.reads):
            scope.reads(operand)
            scope.reads(Word(operand.text.rpartition(":")[2] or ".", operand.start, operand.end))  # as in HEAD:path
    for folder in folders:
        if scope.writes and not os.path.lexists(os.path.join(folder, ".git")):
            raise NotUnderstood("writes files and runs git where a repository could be made of them")
        fault = repository_fault(folder)
        if fault:
            raise NotUnderstood(fault)


def _globals(words: list[Word], scope: CommandScope) -> tuple[list[Word], list[str]]:
    folders = list(scope.folders)
    while words and words[0].text.startswith("-") and words[0].text != "--version":
        if words[0].text in {"--no-pager", "--no-optional-locks", "-P"}:
            words = words[1:]
        elif words[0].text == "-C" and len(words) > 1 and not words[1].glob and folders == scope.folders:
            scope.reads(words[1])
            folders = [os.path.realpath(os.path.join(folder, words[1].text)) for folder in folders]
            words = words[2:]
        else:
            raise NotUnderstood(f"uses an option of git that is not judged ({words[0].text.partition('=')[0]})")
    return words, folders


def _subcommand(words: list[Word]) -> tuple[str, list[Word]]:
    name, second = words[0].text, words[1].text if len(words) > 1 else ""
    if name == "stash" and second in {"list", "show"}:
        return ("reflog" if second == "list" else "diff"), words[2:]
    if name == "worktree" and second == "list":
        return "remote", words[2:]
    if name == "remote" and second == "get-url" and len(words) == 3 and not words[2].text.startswith("-"):
        return "remote", []
    if name == "reflog" and second in {"expire", "delete", "exists", "drop", "write"}:
        raise NotUnderstood("changes the reflog")
    if name not in _SUBCOMMANDS:
        raise NotUnderstood(f"runs git {name}, which does more than look")
    return name, words[1:]


def _only_looks(name: str, given: CommandArguments) -> None:
    if name in {"branch", "tag"} and given.operands and not given.has(*_LISTING):
        raise NotUnderstood(f"makes a {name}")
    for value in given.values("--format", "--pretty"):
        if "%G" in value or "signature" in value:
            raise NotUnderstood("has git check signatures, which runs a program")


# --- the repository's own configuration


def repository_fault(folder: str) -> str | None:
    """Return why reading with git in this folder needs a question; None if no repository, or if it runs nothing."""
    repository = find_repository(Path(folder))
    if repository is None:
        unusual = "runs git in a repository with a layout that is not judged"
        return None if is_outside_repositories(Path(folder)) else unusual
    if os.path.lexists(repository.common / "hooks" / "post-index-change"):
        return "runs git in a repository with a hook that looking may run (post-index-change)"
    if may_enter_submodules(repository):
        return "runs git in a repository with submodules that git may look into"
    files = ((repository.common, "config"), (repository.folder, "config.worktree"))
    faults = (_config_fault(place, name) for place, name in files if os.path.lexists(place / name))
    return next((fault for fault in faults if fault), None)


def _config_fault(folder: Path, name: str) -> str | None:
    """Return why a configuration file needs a question; None if each of its settings is known to run nothing."""
    settings = setting_names(folder, name)
    if settings is None:
        return "runs git in a repository whose configuration cannot be read"
    if b"::" in (read_inside(folder, name, CONFIG_LIMIT) or b""):  # an address that names a program
        return "runs git in a repository whose configuration may run programs (::)"
    for setting in settings:
        if setting == "core.hookspath" or not is_harmless_setting(setting):
            return f"runs git in a repository whose configuration may run programs ({setting})"
    return None
