"""Judges programs whose arguments are a small language: `find`, `test`, `sed -n 1,5p` and others.

Each function returns, or raises NotUnderstood. It knows only the plainly harmless part of each language; everything
else needs a question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from outlast.runtime.permissions.shell.arguments import OptionKind, arguments, grammar
from outlast.runtime.permissions.shell.command_scope import CommandScope
from outlast.runtime.permissions.shell.git import judge_git
from outlast.runtime.permissions.shell.tokenizer import NotUnderstood, Word, names

Judge = Callable[[Sequence[Word], CommandScope], None]

# --- commands of bash itself


def _say(words: Sequence[Word], scope: CommandScope) -> None:
    """`echo` prints its arguments; file names that a pattern expands to are not secret."""


_PLAIN_FORMAT = re.compile(r"([^%]|%[-+ #0']*[0-9]{0,4}(\.[0-9]{0,4})?[sdiouxXeEfFgGcbq%])*")


def _printf(words: Sequence[Word], scope: CommandScope) -> None:
    """A format may hold plain conversions only: `%n` sets a variable, such as PATH, and `*` takes a width from the
    arguments. bash does not undo escapes before it looks for `%`."""
    if not words or words[0].text.startswith("-") or words[0].glob or words[0].status:
        raise NotUnderstood("gives printf an option, which may set a variable")
    if not _PLAIN_FORMAT.fullmatch(words[0].text):
        raise NotUnderstood("gives printf a format that may set a variable, or that is not judged")


def _cd(words: Sequence[Word], scope: CommandScope) -> None:
    if len(words) != 1 or words[0].glob or words[0].text.startswith("-") or not words[0].text:
        raise NotUnderstood("changes folders in a way that is not judged")
    scope.goes_to(words[0])


def _command(words: Sequence[Word], scope: CommandScope) -> None:
    if not words or words[0].text not in {"-v", "-V"} or any(word.text.startswith("-") for word in words[1:]):
        raise NotUnderstood("runs a program through 'command'")


_TESTS = names(
    "-f -d -e -s -r -w -x -L -h -p -S -b -c -g -u -k -O -G -N -n -z -t -eq -ne -lt -le -gt -ge -nt -ot -ef -a -o"
)
_NUMBER = re.compile(r"[-+]?\d+")


def _test(words: Sequence[Word], scope: CommandScope) -> None:
    """Only inspects. `-v` is left out: it evaluates text in brackets as code."""
    for word in words:
        if word.glob or (word.status and word.text != "0"):
            raise NotUnderstood("tests a pattern, or a name that is only known when it runs ($?)")
        if word.text.startswith("-") and word.text not in _TESTS and not _NUMBER.fullmatch(word.text):
            raise NotUnderstood(f"uses a test that is not judged ({word.text})")


def _bracket(words: Sequence[Word], scope: CommandScope) -> None:
    if not words or words[-1].text != "]" or any(word.text == "]" for word in words[:-1]):
        raise NotUnderstood("has a bracket that is not closed")
    _test(words[:-1], scope)


# --- programs with an expression

_FIND_PLAIN = names(
    "-print -print0 -ls -prune -quit -depth -d -mount -xdev -empty -true -false -not -a -and -o -or ! ( ) , -readable "
    "-writable -executable -nouser -nogroup -daystart -noleaf -ignore_readdir_race"
)
_FIND_VALUED = names(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype -maxdepth -mindepth -size "
    "-mtime -mmin -atime -amin -ctime -cmin -perm -user -group -uid -gid -links -inum -lname -ilname -fstype -used "
    "-printf"
)
_FIND_FILES = re.compile(r"-[ac]?newer|-newer[aBcm][aBcmt]|-samefile")


def _find(words: Sequence[Word], scope: CommandScope) -> None:
    at, starts = 0, list[Word]()
    while at < len(words) and words[at].text in {"-H", "-P"}:
        at += 1
    while at < len(words) and not words[at].text.startswith("-") and words[at].text not in {"!", "(", ",", ")"}:
        if words[at].glob and words[at].text[0] in "*?[":
            raise NotUnderstood("gives find a pattern that could become an expression; write ./ before it")
        starts.append(words[at])
        at += 1
    for start in starts:
        scope.reads(start)
    while at < len(words):
        word = words[at]
        if word.glob:
            raise NotUnderstood("gives find a pattern that is not quoted")
        if word.text in _FIND_PLAIN:
            at += 1
        elif at + 1 < len(words) and not words[at + 1].glob and _FIND_FILES.fullmatch(word.text):
            scope.reads(words[at + 1])
            at += 2
        elif at + 1 < len(words) and not words[at + 1].glob and word.text in _FIND_VALUED:
            at += 2
        else:
            raise NotUnderstood(f"uses an expression of find that is not judged ({word.text})")


_SED_PRINT = re.compile(r"\s*(\d+|\$)(,(\d+|\$|\+\d+))?[pq]\s*")
_SED = grammar(
    "nEr", "quiet silent regexp-extended expression==", valued="e", pattern=True, expressions="-e --expression"
)


def _sed(words: Sequence[Word], scope: CommandScope) -> None:
    given = arguments("sed", words, _SED)
    scripts = given.values("-e", "--expression") or [given.expression]
    if not given.has("-n", "--quiet", "--silent"):
        raise NotUnderstood("runs a sed script other than printing lines by number (sed -n 1,5p)")
    for part in (part for script in scripts for part in script.split(";")):
        if not _SED_PRINT.fullmatch(part):
            raise NotUnderstood("runs a sed script other than printing lines by number (sed -n 1,5p)")
    for operand in given.operands:
        scope.reads(operand)


_AWK_PRINT = re.compile(r"\s*(NR\s*[=!<>]=?\s*\d+\s*)?\{\s*print(\s+\$(\d+|NF)(\s*,\s*\$(\d+|NF))*)?\s*;?\s*\}\s*")


def _awk(words: Sequence[Word], scope: CommandScope) -> None:
    rest = list(words)
    if any(word.glob for word in rest):
        raise NotUnderstood("gives awk a pattern that could become a program")
    if rest and rest[0].text.startswith("-F"):
        rest = rest[1:] if len(rest[0].text) > 2 else rest[2:]
    if not rest or not _AWK_PRINT.fullmatch(rest[0].text):
        raise NotUnderstood("runs an awk program other than printing columns ({print $1})")
    for operand in rest[1:]:
        if operand.text.startswith("-"):
            raise NotUnderstood("gives awk an option after its program")
        scope.reads(operand)


_JQ = grammar(
    "rcnsMCSeaj",
    "raw-output compact-output null-input slurp raw-input monochrome-output color-output sort-keys exit-status tab "
    "ascii-output join-output indent==",
    pattern=True,
)


def _jq(words: Sequence[Word], scope: CommandScope) -> None:
    given = arguments("jq", words, _JQ)
    if re.search(r"env|import|include|input|modulemeta|search_list", given.expression, re.IGNORECASE):
        raise NotUnderstood("runs a jq program that reads more than its input")
    for operand in given.operands:
        scope.reads(operand)


_DATE = grammar(
    "uR",
    "utc universal rfc-email iso-8601=? rfc-3339== date== reference=r",
    valued="d",
    reads="r",
    attached="I",
    operands=OptionKind.TEXT,
)


def _date(words: Sequence[Word], scope: CommandScope) -> None:
    given = arguments("date", words, _DATE)
    if any(not operand.text.startswith("+") or operand.glob for operand in given.operands):
        raise NotUnderstood("sets the clock")
    for path in given.reads:
        scope.reads(path)


def _python(words: Sequence[Word], scope: CommandScope) -> None:
    if [word.text for word in words] not in (["--version"], ["-V"]):
        raise NotUnderstood("runs Python")


SPECIAL: Mapping[str, Judge] = {
    "echo": _say,
    "printf": _printf,
    "cd": _cd,
    "command": _command,
    "test": _test,
    "[": _bracket,
    "find": _find,
    "sed": _sed,
    "awk": _awk,
    "jq": _jq,
    "date": _date,
    "python": _python,
    "python3": _python,
    "git": judge_git,
}
