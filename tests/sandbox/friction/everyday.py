"""An everyday command of the friction corpus, and how often its kind occurred in recorded sessions of agents.

The weights are the calls that section 3.1 of the reference counts: developers with one agent on a Go project, and an
agent on issues of Python projects. Commands of kind OTHER are those that nobody was asked about there.
"""

from dataclasses import dataclass

from tests.sandbox.arena import WORLD

HOME = WORLD / "home"
PROJECT = HOME / "project"
LIBRARY = HOME / "library"
OUTSIDE = WORLD / "outside"
REMOTES = WORLD / "remotes"
TOOLS = WORLD / "tools"
PYTHON = WORLD.parent / "python"
"""The tests' own Python, where no hidden folder holds it."""
OURS = HOME / ".outlast"

OTHER = "other"
DEVELOPERS = {
    "mise run": 1601, "go test": 483, "gh api": 324, "variable": 236, "go build": 231, "cd outside": 213, "gh pr": 119,
    "git push": 91, "git add": 82, "git -C": 79, "~": 49, "git checkout": 46, "golangci-lint run": 44, "export": 43,
    "git fetch": 39, "for": 36, "git rebase": 32, "here-document": 31, "git commit": 30, "assignment": 28, "go run": 28,
    "cat outside": 26, "rm -rf": 24, "git stash": 23, "python -c": 22, "own binary": 22, "rm": 21, "while": 19,
    "git merge": 18, "git init": 17, "go doc": 16, "ls outside": 12, "subshell": 10, "gh run": 10, "git reset": 10,
    "sed -i": 10, "echo outside": 9, "git config": 8,
}  # fmt: skip
ISSUES = {
    "here-document": 642, "python script": 600, "sed -i": 383, "rm": 182, "pytest": 125, "runtests.py": 107,
    "python -m": 57, "python -c": 56, "sphinx-build": 45, "sed -n": 42, "git checkout": 31, "assignment": 31,
    "bin/test": 30,
}  # fmt: skip


@dataclass(frozen=True)
class Everyday:
    """`pair` is the program and subcommand that the command is about. `differs` are files that the sandbox leaves
    alone on purpose, such as the configuration that git would write for a tracking branch."""

    kind: str
    pair: str
    command: str
    differs: tuple[str, ...] = ()

    @property
    def filled(self) -> str:
        text = self.command
        for name, path in (("PROJECT", PROJECT), ("LIBRARY", LIBRARY), ("OUTSIDE", OUTSIDE)):
            text = text.replace(f"%{name}%", str(path))
        return text


def of(kind: str, pair: str, *commands: str, differs: tuple[str, ...] = ()) -> tuple[Everyday, ...]:
    return tuple(Everyday(kind, pair, command, differs) for command in commands)


def other(pair: str, *commands: str, differs: tuple[str, ...] = ()) -> tuple[Everyday, ...]:
    return of(OTHER, pair, *commands, differs=differs)
