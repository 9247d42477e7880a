"""The tiers of this machine for tests: the bash tool behind the walls of one tier, and how root becomes another user.

A tier that is missing is a failure on CI."""

from __future__ import annotations

import importlib
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import pytest

from outlast.runtime.sandbox import landlock
from outlast.runtime.sandbox.command_sandbox import CommandSandbox
from outlast.runtime.sandbox.limits import ResourceLimits
from outlast.runtime.sandbox.port import Need, SandboxReport, SandboxTier
from outlast.runtime.sandbox.probe import probe_sandbox
from outlast.runtime.tools.port import ToolOutcome
from tests.conftest import ROOT, everything_is_required
from tests.unit.runtime.tools.setting import Setting

WALLED = (SandboxTier.BUBBLEWRAP, SandboxTier.LANDLOCK)
NOBODY = 65534


def missing(reason: str) -> NoReturn:
    (pytest.fail if everything_is_required() else pytest.skip)(reason)


def report_of(tier: SandboxTier, folder: Path) -> SandboxReport:
    """Return the report of a tier that works here; skips the test where it does not, fails it on CI."""
    if tier is SandboxTier.LANDLOCK:
        support = landlock.available()
        if not support.runs_unasked:
            missing(support.reason or f"Landlock has only version {support.abi} here")
        return SandboxReport(tier=tier, abi=support.abi)
    report = probe_sandbox(folder, os.environ.get("PATH"))
    if report.tier is not SandboxTier.BUBBLEWRAP:
        missing(report.reason)
    return report


class Walled:
    """The bash tool behind the walls of one tier. `close` ends its sandboxes."""

    def __init__(self, base: Path, tier: SandboxTier, limits: ResourceLimits | None = None) -> None:
        self.setting = Setting(base)
        self.sandbox = CommandSandbox(
            report_of(tier, base / "probe"),
            home=base / "home",
            user_home=base,
            hidden=lambda: (),
            limits=limits,
        )

    def context(self, session_id: str, **changes: Any) -> Any:
        call_id = secrets.token_hex(8)
        return self.setting.context(session_id=session_id, call_id=call_id, sandbox=self.sandbox, **changes)

    async def run(
        self,
        command: str,
        session_id: str = "session1",
        *,
        looking: bool = False,
        needs: tuple[Need, ...] = (),
        **more: Any,
    ) -> ToolOutcome:
        context = self.context(session_id, looking=looking, needs=needs)
        return await self.setting.run("bash", context, command=command, **more)

    async def tool(self, name: str, session_id: str = "session1", **arguments: Any) -> ToolOutcome:
        return await self.setting.run(name, self.context(session_id), **arguments)

    async def close(self) -> None:
        await self.setting.registry.close()
        self.sandbox.close()


@cache
def ordinary_python() -> tuple[str, ...] | None:
    """Return the start of a command line that runs Python with our packages as an ordinary user; None if this user
    cannot become one, or if no Python here can be run by one."""
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or setpriv is None:
        return None
    for program in dict.fromkeys((sys.executable, sys.base_prefix + "/bin/python3", "/usr/bin/python3")):
        argv = (setpriv, f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", program)
        trial = "import apsw, msgspec, outlast, pytest"
        again = f"import subprocess, sys; subprocess.run([sys.executable, '-c', '{trial}'], check=True)"
        if os.access(program, os.X_OK) and run_as_ordinary((*argv, "-c", again)).returncode == 0:
            return argv
    return None


def run_as_ordinary(
    argv: Sequence[str], folder: Path = Path("/"), **variables: str
) -> subprocess.CompletedProcess[str]:
    packages = Path(str(importlib.import_module("msgspec").__file__)).parents[1]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT), str(packages))),
        "PYTHONDONTWRITEBYTECODE": "1",
        **{name: os.environ[name] for name in ("CI", "OUTLAST_REQUIRE_ALL") if name in os.environ},
        **variables,
    }
    return subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
