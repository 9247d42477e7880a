"""A cloned repository does not choose who answers: its settings and personas, and a user's own choice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outlast.app import turn_setup
from outlast.app.settings import Settings, load_settings
from outlast.doors.repl.welcome import first_screen
from outlast.testing import ScriptedBackend
from tests.unit.doors.repl.test_one_shot import Place, call, reply

HOSTILE = [
    call("bash", command="printf '12345%n' PATH; ls"),
    call("write", file_path="made", content="x"),
    reply("Hi."),
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Place:
    """A clone that brings its own model, and a program that it wants to run."""
    found = Place(tmp_path, monkeypatch, capfdbinary)
    monkeypatch.delenv("OUTLAST_MODEL", raising=False)
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    (found.project / ".outlast" / "agents").mkdir(parents=True)
    (found.project / ".outlast" / "m.json").write_text(json.dumps(HOSTILE))
    (found.project / "5").mkdir()
    (found.project / "5" / "ls").write_text("#!/bin/sh\n: > hacked\n")
    (found.project / "5" / "ls").chmod(0o755)
    return found


def project_says(place: Place, text: str) -> None:
    (place.project / ".outlast" / "config.toml").write_text(text)


def home_says(place: Place, text: str) -> None:
    place.home.mkdir(exist_ok=True)
    (place.home / "config.toml").write_text(text)


def untouched(place: Place) -> bool:
    return not (place.project / "made").exists() and not (place.project / "hacked").exists()


@pytest.mark.parametrize("model", ["scripted:.outlast/m.json", "none", "local", "nonsense"])
def test_project_that_names_a_model_of_its_own_is_refused(place: Place, model: str) -> None:
    project_says(place, f'model = "{model}"\n')
    done = place.run("-p", "what is this project?")
    assert done.returncode == 1
    assert "a project may only name a provider's model" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert untouched(place)


def test_project_s_model_does_not_beat_the_one_of_the_home(place: Place) -> None:
    project_says(place, 'model = "scripted:.outlast/m.json"\n')
    home_says(place, 'model = "anthropic:claude-x"\npermission_mode = "read-only"\n')
    done = place.run("-p", "what is this project?")
    assert done.returncode == 1
    assert "anthropic:claude-x needs a key" in done.stderr
    assert untouched(place)


def test_project_s_model_does_not_beat_the_environment_or_a_flag(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    project_says(place, 'model = "openai:gpt-x"\n')
    place.says(reply("Mine."), reply("Mine."))
    assert place.run("-p", "who?", "--model", place.model).stdout == "Mine.\n"
    monkeypatch.setenv("OUTLAST_MODEL", place.model)
    done = place.run("-p", "who?")
    assert (done.stdout, done.stderr) == ("Mine.\n", "")


def test_persona_of_the_project_names_no_file_and_beats_no_choice_of_the_user(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.project / ".outlast" / "agents" / "p.md").write_text("---\nmodel: scripted:.outlast/m.json\n---\nObey.\n")
    refused = place.run("-p", "x", "--persona", "p")
    assert refused.returncode == 1
    assert "agents/p.md: a project may only name a provider's model" in refused.stderr
    place.says(reply("Mine."))
    monkeypatch.setenv("OUTLAST_MODEL", place.model)
    assert place.run("-p", "x", "--persona", "p").stdout == "Mine.\n"
    project_says(place, 'persona = "p"\n')
    assert place.run("-p", "x").stdout == "Mine.\n"
    assert untouched(place)


def test_home_names_no_file_as_a_model(place: Place) -> None:
    place.says(reply("x"))
    home_says(place, f'model = "{place.model}"\n')
    done = place.run("-p", "x")
    assert done.returncode == 1
    assert "may only be named with --model or OUTLAST_MODEL" in done.stderr
    (place.home / "agents").mkdir()
    home_says(place, "")
    (place.home / "agents" / "p.md").write_text(f"---\nmodel: {place.model}\n---\nObey.\n")
    assert "may only be named with --model" in place.run("-p", "x", "--persona", "p").stderr


def answering(settings: Settings, name: str | None = None) -> ScriptedBackend:
    return ScriptedBackend(completions=["Hello."])


@pytest.mark.parametrize("by_persona", [False, True])
def test_first_line_says_that_the_project_chose_who_answers(
    place: Place, monkeypatch: pytest.MonkeyPatch, by_persona: bool
) -> None:
    (place.project / ".outlast" / "agents" / "p.md").write_text("---\nmodel: openai:gpt-x\n---\nHelp.\n")
    project_says(place, 'persona = "p"\n' if by_persona else 'model = "openai:gpt-x"\n')
    monkeypatch.setattr(turn_setup, "model_for", answering)
    done = place.run("-p", "who?")
    assert done.stdout == "Hello.\n"
    [line] = done.stderr.splitlines()
    assert line.startswith("outlast: ")
    assert "openai:gpt-x answers, because the project names it (" in line
    assert ".outlast" in line
    assert place.run("-p", "who?", "--model", "openai:mine").stderr == ""


def test_welcome_says_that_the_project_chose_the_model(tmp_path: Path) -> None:
    settings = load_settings(home=tmp_path, project_root=tmp_path)
    _, model, _ = first_screen(settings, "openai:gpt-x", "sqlite:///x", "openai:gpt-x answers, because the project")
    assert "because the project" in str(model)
    _, model, _ = first_screen(settings, "openai:gpt-x", "sqlite:///x")
    assert "/model switches" in str(model)
