"""Runs a short-lived helper process: feeds it, reads a limited output, and kills it on timeout or cancellation."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import msgspec

PACKAGES = str(Path(__file__).parents[4])
_SCAN = "import sys; sys.path += sys.argv[1:]; from outlast.runtime.tools.files.scan_process import main; main()"
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


class HelperOutput(msgspec.Struct, frozen=True):
    """Output of the helper. `whole` is False if it was stopped before its end; the last line may then be incomplete."""

    output: bytes
    errors: bytes
    code: int
    whole: bool


def scanner() -> list[str]:
    """Return the command line of `outlast.runtime.tools.files.scan_process`. It can import the standard library, this
    package and the folder with pathspec, which this process locates but does not import."""
    found = find_spec("pathspec")
    assert found is not None
    assert found.origin is not None
    return [sys.executable, "-I", "-S", "-c", _SCAN, PACKAGES, str(Path(found.origin).parents[1])]


async def gather(
    argv: Sequence[str],
    *,
    given: bytes = b"",
    seconds: float,
    limit: int,
    descriptors: tuple[int, ...] = (),
    cwd: Path | None = None,
) -> HelperOutput:
    """Run until it ends, has written `limit` bytes or took `seconds`, whichever comes first. Cancelling kills it."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            pass_fds=descriptors,
            cwd=cwd,
            start_new_session=True,
            env=_ENVIRONMENT,
        )
        reading = asyncio.ensure_future(asyncio.to_thread(_read, process, given, seconds, limit, errors))
        try:
            return await asyncio.shield(reading)
        except asyncio.CancelledError:
            process.kill()
            await asyncio.wait([reading])
            raise


def _read(
    process: subprocess.Popen[bytes], given: bytes, seconds: float, limit: int, errors: IO[bytes]
) -> HelperOutput:
    assert process.stdin is not None
    assert process.stdout is not None
    late = threading.Timer(seconds, process.kill)
    late.start()
    output = bytearray()
    with process:
        with suppress(BrokenPipeError):
            process.stdin.write(given)
            process.stdin.close()
        while len(output) < limit and (data := os.read(process.stdout.fileno(), 64 * 1024)):
            output += data
        full = len(output) >= limit
        if full:
            process.kill()
        code = process.wait()
    late.cancel()
    late.join()
    errors.seek(0)
    return HelperOutput(bytes(output), errors.read(16 * 1024), code, code >= 0 and not full)
