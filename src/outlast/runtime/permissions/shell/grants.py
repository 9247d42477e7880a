"""Which later commands an answer "for this session" or "always" covers: program, subcommand and harmless options.

A user who allows `pytest -q` has not allowed `pytest -p evil`. So an answer is bound to a head, the words that say what
runs, and covers another command only if its head is the same and each further word is in the head's table. The tables
leave out, on purpose, every option that names a program, a plugin, a configuration or a file to write, and every
operand that fetches something new or throws work away. A command beside the tables is granted as it is, word by word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from outlast.runtime.permissions.shell.command_scope import CommandScope
from outlast.runtime.permissions.shell.tokenizer import NotUnderstood, Simple, Word, names

_PYTHON = re.compile(r"python(3(\.\d+)?)?")
_SCRIPT = re.compile(r"[A-Za-z0-9][\w:.-]*")
_RUNNERS = frozenset({"npm", "yarn", "pnpm", "bun"})


class OperandKind(StrEnum):
    """What the words of a command are that are no options."""

    NONE = "none"
    PATH = "path"
    NAME = "name"


class GrantedOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`flags` are single letters, which may stand in one word. `options` maps whole words to whether a value follows,
    as the next word or after `=`. `attached` are letters that are followed by a number or by plain letters in the same
    word. `after` are the words that may stand after `--` and would otherwise be options."""

    flags: str = ""
    options: dict[str, bool] = {}
    attached: str = ""
    operands: OperandKind = OperandKind.NONE
    after: frozenset[str] = frozenset()


def _table(
    flags: str = "", options: str = "", *, attached: str = "", operands: str = "none", after: str = ""
) -> GrantedOptions:
    """Build a table: `options` is "--name --valued= -k=", with `=` at the end of those that take a value."""
    return GrantedOptions(
        flags=flags,
        options={name.removesuffix("="): name.endswith("=") for name in options.split()},
        attached=attached,
        operands=OperandKind(operands),
        after=names(after),
    )


_PYTEST = _table(
    "qvxsl",
    "--quiet --verbose --exitfirst --showlocals --maxfail= --tb= -k= -m= --lf --last-failed --ff --failed-first --nf "
    "--sw --stepwise --durations= --co --collect-only --no-header --no-summary --disable-warnings --strict-markers "
    "--strict-config --color= --capture= --no-cov -n= --timeout= --deselect= --randomly-seed= --forked --markers",
    attached="rn",
    operands="path",
)
_UNITTEST = _table("qvfbc", "--quiet --verbose --failfast --buffer --catch --locals -k=", operands="name")
_MYPY = _table(
    "v",
    "--strict --pretty --ignore-missing-imports --show-error-codes --no-error-summary --no-color-output "
    "--check-untyped-defs --no-incremental --python-version= --exclude= --follow-imports= -p= -m=",
    operands="path",
)
_RUFF_CHECK = _table(
    "nqve",
    "--fix --no-fix --diff --quiet --silent --verbose --statistics --show-fixes --show-files --exit-zero --no-cache "
    "--preview --select= --ignore= --extend-select= --extend-ignore= --output-format= --target-version= --exclude=",
    operands="path",
)
_RUFF_FORMAT = _table(
    "nqv",
    "--check --diff --quiet --silent --verbose --no-cache --preview --line-length= --target-version= --exclude=",
    operands="path",
)
_BLACK = _table(
    "qvSC",
    "--check --diff --quiet --verbose --color --no-color --line-length= -l= --target-version= -t= --preview --fast "
    "--safe --skip-string-normalization",
    operands="path",
)
_ISORT = _table("cdqv", "--check --check-only --diff --quiet --verbose --profile= --atomic", operands="path")
_FLAKE8 = _table(
    "qv", "--max-line-length= --select= --ignore= --extend-ignore= --count --statistics --exclude=", operands="path"
)
_PYLINT = _table("", "--disable= --enable= --errors-only -E --score= --jobs= -j=", operands="path")
_TOX = _table("qvp", "-e= --quiet --verbose")
_NOX = _table("", "-s= --session= -k= -l --list --reuse-existing-virtualenvs -r")

_SCRIPTED = _table("s", "--silent --quiet")
_INSTALL = _table(
    "s",
    "--silent --quiet --no-audit --no-fund --no-progress --prefer-offline --offline --frozen-lockfile --immutable "
    "--ignore-scripts --no-save --legacy-peer-deps --no-optional",
)
_CARGO = _table(
    "qvr",
    "--quiet --verbose --release --all --workspace --all-targets --all-features --no-default-features --features= -F= "
    "--package= -p= --exclude= --lib --bins --bin= --tests --test= --examples --example= --benches --bench= --doc "
    "--locked --offline --frozen --no-run --no-fail-fast --keep-going --no-deps --jobs= -j= --color= --profile=",
    attached="j",
    operands="name",
    after="--nocapture --ignored --include-ignored --exact --test-threads=1",
)
_CARGO_FMT = _table("qv", "--all --check --quiet --verbose --package= -p=", after="--check")
_CLIPPY = msgspec.structs.replace(
    _CARGO, after=names("-D -W -A warnings clippy::all clippy::pedantic clippy::nursery"), operands=OperandKind.NONE
)
_GO = _table(
    "",
    "-v -race -short -cover -failfast -count= -run= -bench= -benchmem -timeout= -parallel= -p= -tags= -shuffle= -json "
    "-trimpath -n -x -mod=",
    operands="path",
)
_GO_LIST = _table("", "-m -f= -json -deps -test -e", operands="path")
_MAKE = _table("knsBiqw", "-j= --jobs= --silent --quiet --keep-going --dry-run --always-make", attached="jl")
_MAVEN = _table("qeUoB", "-DskipTests -ntp --quiet --batch-mode --offline --no-transfer-progress -pl= -am")
_GRADLE = _table("qi", "--quiet --info --offline --stacktrace --continue --parallel --no-daemon --rerun-tasks")

HEADS: dict[tuple[str, ...], GrantedOptions] = {
    ("pytest",): _PYTEST,
    ("ruff", "check"): _RUFF_CHECK,
    ("ruff", "format"): _RUFF_FORMAT,
    ("mypy",): _MYPY,
    ("pyright",): _table("", "--stats --warnings --outputjson --level= --pythonversion=", operands="path"),
    ("black",): _BLACK,
    ("isort",): _ISORT,
    ("flake8",): _FLAKE8,
    ("pylint",): _PYLINT,
    ("tox",): _TOX,
    ("nox",): _NOX,
    ("tsc",): _table("", "--noEmit --pretty --strict --skipLibCheck --version", operands="path"),
    ("eslint",): _table("", "--fix --quiet --max-warnings= --ext= --cache --no-color --color", operands="path"),
    ("prettier",): _table("clw", "--check --write --list-different --log-level= --loglevel=", operands="path"),
    ("jest",): _table(
        "i",
        "--silent --verbose --coverage --watchAll=false --ci --bail --runInBand -t= --testNamePattern= --maxWorkers= "
        "--passWithNoTests --no-cache --findRelatedTests --forceExit",
        operands="path",
    ),
    ("vitest",): _table(
        "", "--run -t= --testNamePattern= --silent --no-color --bail= --passWithNoTests", operands="path"
    ),
    ("vitest", "run"): _table(
        "", "-t= --testNamePattern= --silent --no-color --bail= --passWithNoTests", operands="path"
    ),
    ("ctest",): _table("VQ", "-R= -E= -L= --output-on-failure --verbose --rerun-failed -j= --parallel=", attached="j"),
    ("ninja",): _table("vnk", "-j= -k=", attached="jk"),
    ("phpunit",): _table("", "--filter= --testdox --stop-on-failure --verbose --colors= --testsuite=", operands="path"),
    ("rspec",): _table("b", "--fail-fast -e= --example= --tag= -t= --no-color --color", operands="path"),
    ("rubocop",): _table("aA", "--autocorrect --only= --except= --parallel --no-color", operands="path"),
    ("shellcheck",): _table("x", "-S= --severity= -e= --exclude= -s= --shell= -f= --format=", operands="path"),
    ("hadolint",): _table("", "--ignore= --no-fail --no-color", operands="path"),
    ("golangci-lint", "run"): _table("v", "--fix --fast --timeout= --verbose", operands="path"),
    ("git", "add"): _table("AuvnN", "--all --update --verbose --dry-run --intent-to-add", operands="path"),
    ("git", "commit"): _table("aqvs", "-m= --message= --all --quiet --verbose --signoff -am= -qm= -aqm="),
    ("git", "switch"): _table("q", "-c= --create= --quiet", operands="name"),
    ("git", "stash"): _table("qu", "--quiet --include-untracked"),
    ("git", "stash", "push"): _table("qu", "--quiet --include-untracked -m= --message="),
    ("npm", "test"): _SCRIPTED,
    ("npm", "ci"): _INSTALL,
    ("npm", "install"): _INSTALL,
    **{(name, word): _SCRIPTED for name in ("yarn", "pnpm") for word in ("test", "build", "lint")},
    ("yarn", "install"): _INSTALL,
    ("pnpm", "install"): _INSTALL,
    ("bun", "install"): _INSTALL,
    ("bun", "test"): _table("", "--bail --timeout= -t= --coverage", operands="path"),
    **{("cargo", word): _CARGO for word in ("build", "test", "check", "doc", "bench")},
    ("cargo", "clippy"): _CLIPPY,
    ("cargo", "fmt"): _CARGO_FMT,
    **{("go", word): _GO for word in ("build", "test", "vet")},
    ("go", "fmt"): _table("", "-n -x", operands="path"),
    ("go", "list"): _GO_LIST,
    **{("make", word): _MAKE for word in names("all test check lint fmt format build clean docs")},
    **{("mvn", word): _MAVEN for word in ("test", "compile", "verify", "package")},
    **{("gradle", word): _GRADLE for word in ("test", "build", "check")},
    **{
        ("dotnet", word): _table("", "--no-restore --no-build --verbosity= -v= --configuration= -c= --filter= --nologo")
        for word in ("build", "test", "restore", "format")
    },
    **{("deno", word): _table("q", "--quiet --check", operands="path") for word in ("lint", "fmt", "check")},
    ("mix", "test"): _table("", "--trace --stale --failed --seed= --max-failures=", operands="path"),
    ("mix", "compile"): _table("", "--force --warnings-as-errors"),
    ("mix", "format"): _table("", "--check-formatted --dry-run", operands="path"),
}
_MODULES = {
    "pytest": _PYTEST,
    "unittest": _UNITTEST,
    "mypy": _MYPY,
    "black": _BLACK,
    "isort": _ISORT,
    "flake8": _FLAKE8,
    "pylint": _PYLINT,
    "tox": _TOX,
    "nox": _NOX,
}


def head_words(argv: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the head under which an answer for this command covers others; None if it covers only this command."""
    head = _head(argv)
    if head is None:
        return None
    rest = [Word(text, 0, 0) for text in argv[len(head) :]]
    return head if _is_harmless(rest, _options(head), None) else None


def grantable(simples: Iterable[Simple]) -> tuple[tuple[str, ...], ...]:
    """Return the heads of all commands, or nothing if one of them has none."""
    heads = [head_words(simple.argv) for simple in simples]
    return tuple(dict.fromkeys(head for head in heads if head)) if all(heads) else ()


def is_covered(simple: Simple, head: tuple[str, ...], scope: CommandScope) -> bool:
    """Whether an answer that was given for `head` covers this command: the paths that it names are in the project, and
    each option is known to be harmless."""
    if _head(simple.argv) != head or any(word.glob or word.status for word in simple.words[: len(head)]):
        return False
    return _is_harmless(simple.words[len(head) :], _options(head), scope)


def _head(argv: tuple[str, ...]) -> tuple[str, ...] | None:
    first, second, third = (*argv, "", "", "")[:3]
    if _PYTHON.fullmatch(first) and second == "-m":
        if third == "ruff":
            return argv[:4] if argv[2:4] in HEADS else None
        return argv[:3] if third in _MODULES else None
    if first in _RUNNERS and second == "run":
        return argv[:3] if _SCRIPT.fullmatch(third) else None
    return next((argv[:count] for count in (3, 2, 1) if len(argv) >= count and argv[:count] in HEADS), None)


def _options(head: tuple[str, ...]) -> GrantedOptions:
    if head[1:2] == ("-m",):
        return HEADS[head[2:]] if head[2] == "ruff" else _MODULES[head[2]]
    return HEADS.get(head, _SCRIPTED)


def _is_harmless(words: Sequence[Word], table: GrantedOptions, scope: CommandScope | None) -> bool:
    """Whether each word is in the table. Without a scope, paths are judged by their spelling alone."""
    rest, ended = list(words), False
    while rest:
        word = rest.pop(0)
        if word.status:
            return False
        if word.text == "--" and not ended:
            ended = True
        elif ended and word.text in table.after:
            continue
        elif word.text.startswith("-"):
            if ended or word.glob or not _takes(word.text, table, rest):
                return False
        elif not _is_operand(word, table, scope):
            return False
    return True


def _takes(text: str, table: GrantedOptions, rest: list[Word]) -> bool:
    """Whether this option is in the table; removes its value from the words that are left."""
    name, equals, _ = text.partition("=")
    if text in table.options and not table.options[text]:
        return True
    if table.options.get(name, False):
        if equals:
            return True
        return bool(rest) and not _is_open(rest.pop(0))
    if table is _PYTEST and text == "-p" and rest and rest[0].text.startswith("no:"):  # without a plugin
        rest.pop(0)
        return True
    letters = text[1:]
    if text.startswith("--") or not letters:
        return False
    if letters[0] in table.attached and letters[1:].isalnum():
        return True
    return all(letter in table.flags for letter in letters)


def _is_open(value: Word) -> bool:
    """Whether the shell, or the program, may read something else in this value of an option."""
    return value.glob or value.status or value.text.startswith(("-", "@"))


def _is_operand(word: Word, table: GrantedOptions, scope: CommandScope | None) -> bool:
    text = word.text
    if table.operands is OperandKind.NONE or not text or text.startswith(("@", "~", "/")):
        return False
    if "=" in text or "://" in text or ".." in text.split("/") or (word.glob and text[0] in "*?["):
        return False
    if table.operands is OperandKind.NAME:
        return not word.glob
    if scope is None:
        return True
    try:
        scope.reads(Word(text.partition("::")[0], word.start, word.end, glob=word.glob))
    except NotUnderstood:
        return False
    return True
