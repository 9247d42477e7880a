"""A gigabyte of output: memory does not grow with it, the disk holds 64 MiB of it, head and tail are told."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from outlast.runtime.tools.process.shell_command import LOG_LIMIT
from tests.conftest import ROOT

GB = 1_000_000_000
MB = 1_000_000


def run(base: Path, command: str) -> dict[str, Any]:
    argv = [sys.executable, "-m", "tests.faults.tool_owner", str(base), command, "foreground"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, check=True, timeout=110)
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("what", "command"),
    [
        ("lines", f"yes 'a line of some words and numbers 12345' | head -c {GB - 9}; printf '\\nthe end\\n'"),
        ("one endless line", f"head -c {GB - 9} /dev/zero | tr '\\0' x; printf '\\nthe end\\n'"),
        ("bytes that are no text", f"head -c {GB - 9} /dev/zero; printf '\\nthe end\\n'"),
    ],
)
def test_gigabyte_of_output_does_not_grow_memory(tmp_path: Path, what: str, command: str) -> None:
    found = run(tmp_path, command)
    print(what, found)
    assert found["bytes"] == GB
    assert found["grown"] <= 64 * MB
    assert found["supervisor"] <= 64 * MB
    assert found["stored"] == LOG_LIMIT
    assert found["text"] < 40_000
    assert found["tail"].endswith("the end")
