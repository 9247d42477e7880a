"""What every test may rely on: markers by directory, hypothesis profiles, `needs`."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.pg import pg_server, pg_url

__all__ = ["pg_server", "pg_url"]  # fixtures for every test

TESTS = Path(__file__).parent
ROOT = TESTS.parent
KINDS = ("unit", "contract", "integration", "acceptance", "golden", "architecture")

_patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("dev", _patient, derandomize=True, database=None, max_examples=50)
settings.register_profile("ci", _patient, derandomize=True, database=None, max_examples=60)
settings.register_profile("soak", _patient, max_examples=5000)


def everything_is_required() -> bool:
    """In CI a missing part is a failure: a skip there would be a hole nobody sees."""
    return os.environ.get("CI") == "true" or os.environ.get("OUTLAST_REQUIRE_ALL") == "1"


def needs(program: str) -> str:
    """The path of a program this test cannot do without; skips with its name where it is missing, fails in CI."""
    path = shutil.which(program)
    if path is None:
        return _missing(f"needs {program}, which is not installed")
    trial = _TRIALS.get(program)
    if trial is not None and subprocess.run([path, *trial], capture_output=True, timeout=30).returncode != 0:
        return _missing(f"needs {program}, which is installed but may not run here")
    return path


_TRIALS: dict[str, Sequence[str]] = {"strace": ("-f", "-o", os.devnull, "true")}  # ptrace is often forbidden


def _missing(reason: str) -> str:
    if everything_is_required():
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture
def asks_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """No sandbox: the text of a shell command decides, and unknown commands are asked about."""
    monkeypatch.setenv("OUTLAST_SANDBOX", "none")


def pytest_configure(config: pytest.Config) -> None:
    soak = os.environ.get("OUTLAST_SOAK") == "1"
    settings.load_profile("soak" if soak else "ci" if everything_is_required() else "dev")
    config.addinivalue_line("markers", "xdist_group(name): one worker for all of these; soak runs without xdist")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by its folder, and put slow ones first: both workers have short ones left for the end."""
    for item in items:
        kind = item.path.relative_to(TESTS).parts[0]
        if kind in KINDS:
            item.add_marker(kind)
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(autouse=True)
def _no_settings_of_this_user(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test may see or touch the sessions of whoever runs it."""
    for name in [name for name in os.environ if name.startswith("OUTLAST_") and name not in _OURS]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OUTLAST_HOME", str(tmp_path_factory.getbasetemp() / "outlast-home"))


_OURS = {"OUTLAST_SOAK", "OUTLAST_REQUIRE_ALL"}
