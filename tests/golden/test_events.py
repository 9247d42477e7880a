"""Events that version 1 wrote load for ever, and are written today as exactly the same bytes."""

from pathlib import Path

import msgspec
import pytest

from outlast.core import codec
from outlast.core import events as e
from tests.golden.examples import FULL, minimal
from tests.golden.make import EVENTS, golden, main

EXAMPLES = {e.KIND_OF[type(event)]: event for event in FULL}
KINDS = sorted(e.KINDS)


class Golden(msgspec.Struct, forbid_unknown_fields=True):
    """A golden file; the bodies are kept as the bytes they are."""

    full: msgspec.Raw
    minimal: msgspec.Raw


def golden_file(kind: str, v: int = 1) -> Golden:
    return msgspec.json.decode((EVENTS / f"v{v}" / f"{kind}.json").read_bytes(), type=Golden)


def as_version_1_had_it(event: e.Event) -> e.Event:
    """The example less what later versions added."""
    match event:
        case e.ToolCallStarted():
            return msgspec.structs.replace(event, facts={})
        case e.Compacted():
            return msgspec.structs.replace(event, pruned_upto=0, pruned_over=0, words=(), summarised=True)
        case e.ApprovalRequested():
            return msgspec.structs.replace(event, mode=None)
        case _:
            return event


def test_every_kind_has_a_golden_file_and_every_file_a_kind() -> None:
    assert sorted(path.stem for path in (EVENTS / "v1").iterdir()) == KINDS
    newer = {path.stem: int(path.parent.name[1:]) for path in EVENTS.glob("v*/*.json") if path.parent.name != "v1"}
    assert newer == {kind: v for kind, v in codec.VERSIONS.items() if v > 1}
    assert sorted(EXAMPLES) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_example_sets_every_field(kind: str) -> None:
    event = EXAMPLES[kind]
    optional = [field.name for field in msgspec.structs.fields(event) if not field.required]
    assert [name for name in optional if getattr(event, name) == getattr(minimal(event), name)] == []


@pytest.mark.parametrize("kind", KINDS)
def test_version_1_loads_as_the_event_it_was(kind: str) -> None:
    stored = golden_file(kind)
    assert codec.decode(kind, 1, bytes(stored.full)) == as_version_1_had_it(EXAMPLES[kind])
    assert codec.decode(kind, 1, bytes(stored.minimal)) == minimal(EXAMPLES[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_the_newest_version_is_written_again_as_the_same_bytes(kind: str) -> None:
    v = codec.VERSIONS[kind]
    stored = golden_file(kind, v)
    for body, example in ((bytes(stored.full), EXAMPLES[kind]), (bytes(stored.minimal), minimal(EXAMPLES[kind]))):
        event = codec.decode(kind, v, body)
        assert event == example
        assert codec.encode(example) == (kind, v, body, {})


def test_the_generator_never_overwrites_a_golden_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.golden.make.EVENTS", tmp_path)
    changed = golden(FULL[0])[0]
    changed.parent.mkdir(parents=True)
    changed.write_bytes(b"as it was released")
    assert main() == 0
    assert changed.read_bytes() == b"as it was released"
    assert len(list(tmp_path.glob("v*/*.json"))) == len(FULL)
