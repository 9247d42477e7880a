"""The first line of a session names the instruction files that it takes; a skill that is left out is named too."""

from __future__ import annotations

from pathlib import Path

import pytest

from outlast.app.settings import load_settings
from outlast.app.turn_setup import instruction_files
from outlast.runtime.agent_config import AgentConfig
from tests.unit.doors.repl.test_print_mode import Place, reply


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Place:
    monkeypatch.setenv("HOME", str(tmp_path))
    return Place(tmp_path, monkeypatch, capfdbinary)


def test_a_one_shot_answer_names_the_files_once_on_stderr(place: Place) -> None:
    place.home.mkdir()
    (place.home / "AGENTS.md").write_text("Mine.")
    (place.project / "AGENTS.md").write_text("Theirs.")
    place.says(reply("One."), reply("Two."))
    done = place.run("-p", "go", "--model", place.model)
    assert done.stdout == "One.\n"
    assert done.stderr.split("\n")[0] == "outlast: instructions from ~/home/AGENTS.md, AGENTS.md"
    again = place.run("-p", "go on", "-c", "--model", place.model)
    assert (again.stdout, again.stderr) == ("Two.\n", "")


def test_without_such_files_nothing_is_said(place: Place) -> None:
    place.says(reply("One."))
    assert place.run("-p", "go", "--model", place.model).stderr == ""


def test_a_malformed_skill_is_one_sentence_and_the_turn_goes_on(place: Place) -> None:
    (place.project / ".claude" / "skills" / "bad").mkdir(parents=True)
    (place.project / ".claude" / "skills" / "bad" / "SKILL.md").write_text("no front matter")
    place.says(reply("One."))
    done = place.run("-p", "go", "--model", place.model)
    assert (done.returncode, done.stdout) == (0, "One.\n")
    [line] = done.stderr.strip().split("\n")
    assert "is left out: it has no description" in line


def test_the_terminal_shows_files_and_the_count_of_skills(place: Place) -> None:
    (place.project / "AGENTS.md").write_text("Theirs. @more.md")
    (place.project / "more.md").write_text("More.")
    (place.project / ".claude" / "skills" / "x").mkdir(parents=True)
    (place.project / ".claude" / "skills" / "x" / "SKILL.md").write_text("---\ndescription: d\n---\n")
    settings = load_settings(home=place.home, project_root=place.project)
    told = instruction_files(settings, AgentConfig(), place.project)
    assert told.text == "instructions from AGENTS.md, more.md; 1 skill"
    assert instruction_files(settings, AgentConfig(auto_context=False), place.project).text == ""
