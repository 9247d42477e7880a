"""`outlast models`."""

import json

import pytest

from outlast.app import models as app_models
from outlast.app.models import key_variables
from outlast.doors.cli import main


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in key_variables():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(app_models, "ollama_models", lambda url: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]


def run(*arguments: str) -> int:
    try:
        return main(["models", *arguments])
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 1


def test_models_names_the_one_that_is_used_and_why(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "very-secret")
    assert run() == 0
    shown = capsys.readouterr().out
    assert "* ready  openai" in shown
    assert "no key: set ANTHROPIC_API_KEY" in shown
    assert shown.rstrip().splitlines()[-1].startswith("openai:")
    assert "very-secret" not in shown


def test_models_as_json(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run("--json") == 0
    found = json.loads(capsysbinary.readouterr().out)
    assert found["used"] == "local"
    assert {row["name"] for row in found["rows"]} == {"anthropic", "openai", "google", "ollama", "local"}


def test_models_says_where_the_size_of_the_window_comes_from(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_MODEL", "openai:my-own")
    monkeypatch.setenv("OUTLAST_BASE_URL", "http://127.0.0.1:1/v1")
    assert run() == 0
    assert "context window of 32,768 tokens (source: assumed 32,768: set context_window)" in capsys.readouterr().out
    monkeypatch.setenv("OUTLAST_CONTEXT_WINDOW", "90000")
    assert run() == 0
    assert "context window of 90,000 tokens (source: setting)" in capsys.readouterr().out
