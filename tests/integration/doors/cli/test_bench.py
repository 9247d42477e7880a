"""`outlast bench`: what is printed, what is written, what is refused."""

import json
from pathlib import Path

import pytest

from bench import command
from outlast.doors import cli
from outlast.doors.cli import bench


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "QUICK", 0.002)


def run(*argv: str) -> int:
    try:
        return cli.main(["bench", *argv])
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 1


def test_table_on_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--quick", "--only", "append-sqlite", "--dir", str(tmp_path)) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("workload")
    assert out[1].startswith("one durable append, SQLite, sync")


def test_json_and_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    saved = tmp_path / "figures.json"
    words = ("--json", "--report", str(page), "--save", str(saved))
    assert run("--quick", "--only", "wal-bytes", "--dir", str(tmp_path), *words) == 0
    told = json.loads(capsys.readouterr().out)
    assert json.loads(saved.read_text()) == told
    assert told["figures"][0]["name"] == "wal-bytes"
    assert "not for quoting" in page.read_text()


def test_check_fails_when_a_goal_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.figures.workloads.append.SYNC", {"sqlite": 0.0})
    assert run("--quick", "--check", "--only", "append-sqlite", "--dir", str(tmp_path)) == 1


@pytest.mark.parametrize("words", [("--store", "redis"), ("--only", "nonsense")])
def test_unknown_names_are_one_line(words: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--quick", *words) == 1
    assert words[1] in capsys.readouterr().err


def test_without_a_checkout_it_says_in_one_sentence_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "app", bench.command(tmp_path))
    assert run("--quick", "--only", "append-sqlite") == 1
    assert capsys.readouterr() == (
        "",
        "outlast: benchmarks need a checkout of Outlast's source; run `make bench` there\n",
    )
