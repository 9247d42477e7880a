"""`outlast worker`: what is wrong with its flags is one sentence, told before anything is opened."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from outlast.doors.cli import main
from tests.support.logging_fixture import kept_logging

__all__ = ["kept_logging"]  # a fixture
pytestmark = pytest.mark.usefixtures("kept_logging")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--model", "none"), "would never answer"),
        (("--model", "local", "--place", "shop=/no/such/folder"), "is not a folder"),
        (("--model", "nobody:x"), "nobody"),
    ],
)
def test_a_worker_that_could_not_work_says_why_and_opens_nothing(
    words: tuple[str, ...], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "x.db"
    assert main(["worker", "--store", f"sqlite:///{store}", *words]) == 1
    printed = capsys.readouterr()
    assert told in printed.err
    assert len(printed.err.splitlines()) == 1
    assert not store.exists()


@pytest.mark.parametrize("command", ["worker", "serve"])
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--concurrency", "0"), "--concurrency"),
        (("--lease-seconds", "0.1"), "--lease-seconds"),
        (("--lease-seconds", "601"), "--lease-seconds"),
        (("--place", "shop"), "write LABEL=PATH"),
        (("--place", "a b=/"), "a label has letters"),
        (("--place", "shop=/", "--place", "shop=/tmp"), "shop is / already"),
    ],
)
def test_a_flag_that_nothing_can_be_is_wrong_usage(
    command: str, words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, *words]) == 2
    printed = capsys.readouterr()
    assert told in printed.err
    assert len(printed.err.splitlines()) == 1


def test_a_port_that_is_taken_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = ["--model", "local", "--metrics-port", str(port), "--store", f"sqlite:///{tmp_path / 'x.db'}"]
        assert main(["worker", *words]) == 1
    assert f"--metrics-port {port} cannot be used" in capsys.readouterr().err
