"""What `import outlast` costs a program that only might use it: whole processes, start to end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from bench.figures.figure import Figure, ratio
from bench.figures.lab import Lab
from bench.figures.turns import Work, in_turns


def importing(lab: Lab, kind: str) -> Iterator[Figure]:
    rounds = in_turns(
        lab.rounds, lab.count(20, 1), _process("import msgspec"), _process("import outlast"), per=1e3, piece=1
    )
    title = '`python -c "import outlast"`, whole process'
    yield ratio("import", title, '`python -c "import msgspec"`', rounds, measured_in="ms", goal=2.0)


def _process(statement: str) -> Work:
    def some(count: int) -> None:
        for _ in range(count):
            subprocess.run([sys.executable, "-c", statement], check=True)

    return some
