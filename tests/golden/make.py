"""Writes the golden files of kinds that have none yet: `python -m tests.golden.make`.

It never overwrites one: a golden file is what a released version wrote, and events live for ever. A kind that changes
gets a new version, an upcaster and a file in the directory of that version.
"""

import sys
from pathlib import Path

from outlast.core import codec
from outlast.core import events as e
from tests.golden.examples import FULL, minimal

EVENTS = Path(__file__).parent / "events"


def golden(event: e.Event) -> tuple[Path, bytes]:
    """Where an example belongs, and its file: one JSON object with the exact bytes of both bodies inside."""
    kind, v, full, blobs = codec.encode(event)
    assert not blobs, f"the example of {kind} is too large"
    small = codec.encode(minimal(event)).body
    return EVENTS / f"v{v}" / f"{kind}.json", b'{"full":%b,\n"minimal":%b}\n' % (full, small)


def main() -> int:
    for event in FULL:
        path, data = golden(event)
        if path.exists():
            if path.read_bytes() != data:
                print(f"{path.name} exists and differs: give the kind a new version, do not touch the file")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(data)
        print(f"wrote {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
