"""A cloned repository does not choose who answers: its settings and personas, and a user's own choice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outlast.app import turn_setup
from outlast.app.permissions import consent, pending_consents
from outlast.app.settings import Settings, in_project, load_settings
from outlast.app.turn_setup import build_turn_context
from outlast.core.state import SessionState
from outlast.doors.repl.welcome import first_screen
from outlast.runtime.agent_config import AgentConfig
from outlast.runtime.permissions.consent import Consents, content_digest
from outlast.runtime.prompt.personas import load_personas
from outlast.testing import ScriptedBackend
from tests.unit.doors.repl.test_print_mode import Place, call, reply

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


def consent_to_all(place: Place) -> None:
    settings = load_settings()
    for pending in pending_consents(settings):
        consent(settings, pending)


def test_c2_without_consent_to_these_bytes_the_project_chooses_neither_model_nor_persona(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_setup, "model_for", answering)
    (place.project / ".outlast" / "agents" / "p.md").write_text("---\nname: p\n---\nObey.\n")
    project_says(place, 'model = "openai:gpt-x"\npersona = "p"\n')
    settings = load_settings()
    assert (settings.model, settings.persona, settings.left_out) == (None, None, ("model", "persona"))
    [line] = place.run("-p", "who?").stderr.splitlines()
    assert "config.toml chooses the model and the persona, which has no effect until you consent" in line
    consent_to_all(place)
    settings = load_settings()
    assert (settings.model, settings.persona, settings.left_out) == ("openai:gpt-x", "p", ())
    project_says(place, 'model = "openai:gpt-y"\npersona = "p"\n')
    assert load_settings().model is None
    assert in_project(load_settings(project_root=place.home), place.project).model is None


@pytest.mark.parametrize("model", ["scripted:.outlast/m.json", "none", "local"])
def test_c2_not_even_with_consent_is_a_file_the_model(place: Place, model: str) -> None:
    project_says(place, f'model = "{model}"\n')
    path = place.project / ".outlast" / "config.toml"
    Consents(load_settings().home).give(path, content_digest(path.read_bytes()))
    done = place.run("-p", "what is this project?")
    assert (done.returncode, untouched(place)) == (1, True)
    assert "a project may only name a provider's model" in done.stderr


@pytest.mark.parametrize("key", ["base_url", "local_model", "token", "store", "verify_commands"])
def test_c2_not_even_with_consent_does_a_project_choose_an_endpoint(place: Place, key: str) -> None:
    project_says(place, f'{key} = "http://127.0.0.1:1/v1"\n')
    path = place.project / ".outlast" / "config.toml"
    Consents(place.home).give(path, content_digest(path.read_bytes()))
    done = place.run("-p", "x")
    assert done.returncode == 1
    assert f"a project file may not set '{key}'" in done.stderr


def test_c2_consent_to_a_project_s_choice_does_not_beat_the_home(place: Place) -> None:
    home_says(place, 'model = "anthropic:claude-x"\npersona = "mine"\n')
    project_says(place, 'model = "openai:gpt-x"\npersona = "p"\n')
    consent_to_all(place)
    assert (load_settings().model, load_settings().persona) == ("anthropic:claude-x", "mine")


def test_c2_a_persona_of_the_project_names_a_model_only_after_consent(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_setup, "model_for", answering)
    path = place.project / ".outlast" / "agents" / "p.md"
    path.write_text("---\nmodel: openai:gpt-x\n---\nHelp.\n")
    [line] = place.run("-p", "who?", "--persona", "p").stderr.splitlines()
    assert "p.md names the model openai:gpt-x, which has no effect until you consent" in line
    consent_to_all(place)
    assert "openai:gpt-x is used" in place.run("-p", "who?", "--persona", "p").stderr
    path.write_text("---\nmodel: openai:gpt-y\n---\nHelp.\n")
    assert "has no effect" in place.run("-p", "who?", "--persona", "p").stderr


def test_c2_definitions_of_claude_code_choose_no_model_and_no_mode(place: Place) -> None:
    folder = place.project / ".claude" / "agents"
    folder.mkdir(parents=True)
    head = "name: p\nmodel: scripted:.outlast/m.json\npermissionMode: bypassPermissions\ntools: Bash, Write"
    (folder / "p.md").write_text(f"---\n{head}\n---\nObey.\n")
    persona = load_personas(place.home, place.project).get("p")
    assert (persona.model, persona.permission_mode) == (None, None)
    place.says(reply("Mine."))
    done = place.run("-p", "x", "--persona", "p", "--model", place.model)
    assert (done.stdout, done.stderr) == ("Mine.\n", "")


def test_c2_a_project_s_persona_gives_a_sub_agent_no_tool_that_its_parent_lacks(place: Place) -> None:
    (place.project / ".outlast" / "agents" / "wide.md").write_text("---\ntools: [bash, write, read]\n---\nObey.\n")
    (place.home / "agents").mkdir(parents=True)
    (place.home / "agents" / "narrow.md").write_text("---\ntools: [read, task]\n---\nRead.\n")
    config = AgentConfig(persona="narrow")
    context = build_turn_context(load_settings(), config, place.project, SessionState(), backend=ScriptedBackend())
    assert context.sub_agent_context is not None
    below = context.sub_agent_context(context, "wide").tools
    assert [spec.name for spec in below.specs()] == ["read"]


def answering(settings: Settings, name: str | None = None) -> ScriptedBackend:
    return ScriptedBackend(completions=["Hello."])


@pytest.mark.parametrize("by_persona", [False, True])
def test_first_line_says_that_the_project_chose_who_answers(
    place: Place, monkeypatch: pytest.MonkeyPatch, by_persona: bool
) -> None:
    (place.project / ".outlast" / "agents" / "p.md").write_text("---\nmodel: openai:gpt-x\n---\nHelp.\n")
    project_says(place, 'persona = "p"\n' if by_persona else 'model = "openai:gpt-x"\n')
    consent_to_all(place)
    monkeypatch.setattr(turn_setup, "model_for", answering)
    done = place.run("-p", "who?")
    assert done.stdout == "Hello.\n"
    [line] = done.stderr.splitlines()
    assert line.startswith("outlast: ")
    assert "openai:gpt-x is used because the project names it (" in line
    assert ".outlast" in line
    assert place.run("-p", "who?", "--model", "openai:mine").stderr == ""


def test_welcome_says_that_the_project_chose_the_model(tmp_path: Path) -> None:
    settings = load_settings(home=tmp_path, project_root=tmp_path)
    _, model, _ = first_screen(settings, "openai:gpt-x", "sqlite:///x", "openai:gpt-x is used because the project")
    assert "because the project" in str(model)
    _, model, _ = first_screen(settings, "openai:gpt-x", "sqlite:///x")
    assert "/model switches" in str(model)
