"""Changes to files that other programs obey are named, and asked about if they come from no commit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outlast import Agent, open_store
from outlast.core import events as e
from outlast.core.messages import text_of
from outlast.runtime.changes.obeyed_files import is_obeyed
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.permissions.session_policy import SessionPolicy
from outlast.runtime.turn.approvals import Question
from outlast.runtime.turn.context import TurnContext
from outlast.store.log_store import LogStore
from tests.support.agents import agent_with, call, only
from tests.unit.runtime.changes.projects import git, repository


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as opened:
        yield opened


@pytest.mark.parametrize(
    "path",
    [
        ".github/workflows/ci.yml",
        ".mcp.json",
        "sub/AGENTS.md",
        "CLAUDE.md",
        ".claude/settings.json",
        ".vscode/tasks.json",
        ".husky/pre-commit",
        ".cargo/config.toml",
        "lefthook.yml",
        ".gitlab-ci.yml",
        "Jenkinsfile",
        ".envrc",
    ],
)
def test_a_file_that_programs_obey_is_known(path: str) -> None:
    assert is_obeyed(path)


@pytest.mark.parametrize("path", ["src/main.py", "Cargo.toml", ".venv/bin/activate", "ci.yml"])
def test_an_ordinary_file_is_not_obeyed(path: str) -> None:
    assert not is_obeyed(path)


class Person:
    """Answers every question; `asked` are the reasons."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def __call__(self, question: Question) -> str:
        self.asked.append(question.reason or "")
        return self.answer


def shell(store: LogStore, project: Path, *commands: str, **config: Any) -> Agent:
    calls = [call("bash", f"c{n}", command=command) for n, command in enumerate(commands)]
    return agent_with(store, project, *calls, "Done.", allow=("bash",), **config)


def results(agent: Agent) -> list[str]:
    return [text_of(event.parts) for event in only(agent, e.ToolCallFinished)]


async def test_without_a_person_a_change_is_put_back_and_said(store: LogStore, tmp_path: Path) -> None:
    project = repository(tmp_path / "project", AGENTS_dot_md="be good\n")
    agent = shell(store, project, "echo be evil > AGENTS.md; echo '{}' > .mcp.json; echo x > plain.txt")
    await agent.run("go")
    [text] = results(agent)
    assert "this command changed .mcp.json, AGENTS.md, which other programs obey" in text
    assert "was put back: nobody can be asked" in text
    assert (project / "AGENTS.md").read_text() == "be good\n"
    assert not (project / ".mcp.json").exists()
    [finished] = only(agent, e.ToolCallFinished)
    assert finished.facts["touched_files"] == ["plain.txt"]


@pytest.mark.parametrize(("answer", "stays"), [("once", True), ("deny", False)])
async def test_a_person_decides_whether_a_change_stays(
    store: LogStore, tmp_path: Path, answer: str, stays: bool
) -> None:
    project = repository(tmp_path / "project", AGENTS_dot_md="be good\n")
    person = Person(answer)
    agent = shell(store, project, "echo be evil > AGENTS.md", answerer=person)
    await agent.run("go")
    [reason] = person.asked
    assert "AGENTS.md" in reason
    assert "comes from no commit" in reason
    assert ((project / "AGENTS.md").read_text() == "be evil\n") is stays
    assert ("the user declined the change" in results(agent)[0]) is not stays


async def test_what_comes_from_a_commit_is_named_and_not_asked_about(store: LogStore, tmp_path: Path) -> None:
    project = repository(tmp_path / "project", AGENTS_dot_md="be good\n", _dot_husky__pre="hook")
    git(project, "switch", "-q", "-c", "other")
    (project / "AGENTS.md").write_text("be better\n")
    (project / ".husky/pre").unlink()
    git(project, "commit", "-qam", "two")
    (project / "AGENTS.md").write_text("be best\n")
    git(project, "commit", "-qam", "three")
    git(project, "switch", "-q", "main")
    git(project, "pack-refs", "--all")
    person = Person("deny")
    commands = [
        "git switch -q other",
        "git checkout -q other~1",
        "git switch -q main",
        "git checkout -q other AGENTS.md",
    ]
    agent = shell(store, project, *commands, answerer=person)
    await agent.run("go")
    assert person.asked == []
    assert all("which other programs obey" in text for text in results(agent))
    assert (project / "AGENTS.md").read_text() == "be best\n"


async def test_worktree_of_this_repository_is_not_asked_about_but_a_file_changed_in_it_is(
    store: LogStore, tmp_path: Path
) -> None:
    project = repository(tmp_path / "project", AGENTS_dot_md="be good\n")
    git(project, "branch", "other")
    person = Person("deny")
    commands = ["git worktree add -q tree other", "git worktree add -q -b new trees/new", "echo evil > tree/AGENTS.md"]
    agent = shell(store, project, *commands, answerer=person)
    await agent.run("go")
    assert "tree/AGENTS.md" in results(agent)[0]
    [reason] = person.asked
    assert "tree/AGENTS.md" in reason
    assert (project / "tree/AGENTS.md").read_text() == "be good\n"
    assert (project / "trees/new/.git").exists()


async def test_pointer_and_files_of_another_repository_are_asked_about(store: LogStore, tmp_path: Path) -> None:
    project = repository(tmp_path / "project", AGENTS_dot_md="be good\n")
    repository(project / "other", AGENTS_dot_md="be evil\n")
    person = Person("deny")
    agent = shell(store, project, "git -C other worktree add -q ../tree -b tree", answerer=person)
    await agent.run("go")
    [reason] = person.asked
    assert "tree/AGENTS.md" in reason


async def test_a_commit_that_the_command_makes_itself_does_not_count(store: LogStore, tmp_path: Path) -> None:
    project = repository(tmp_path / "project", AGENTS_dot_md="be good\n")
    person = Person("deny")
    command = "echo be evil > AGENTS.md; git -c user.name=A -c user.email=a@b.org commit -qam evil"
    agent = shell(store, project, command, answerer=person)
    await agent.run("go")
    assert len(person.asked) == 1
    assert (project / "AGENTS.md").read_text() == "be good\n"


async def test_with_full_access_a_change_is_named_and_stays(store: LogStore, tmp_path: Path) -> None:
    project = repository(tmp_path / "project", AGENTS_dot_md="be good\n")
    mode = PermissionMode.DANGER_FULL_ACCESS

    def unwalled(context: TurnContext) -> TurnContext:
        return replace(context, gate=SessionPolicy(project=context.project, roots=context.roots, ceiling=mode))

    agent = shell(store, project, "echo be evil > AGENTS.md", context=unwalled)
    await agent.run("go")
    assert "which other programs obey" in results(agent)[0]
    assert (project / "AGENTS.md").read_text() == "be evil\n"


async def test_a_secret_of_the_project_is_hidden_in_result_and_whole_output(store: LogStore, tmp_path: Path) -> None:
    project = repository(tmp_path / "project", _dot_gitignore=".env\n")
    (project / ".env").write_text("API_KEY=sk-abcdef123456\n")
    agent = shell(store, project, "cat .env", "for n in $(seq 5000); do echo $n sk-abcdef123456; done")
    await agent.run("go")
    first, second = only(agent, e.ToolCallFinished)
    assert "API_KEY=[value of API_KEY in .env, hidden]" in text_of(first.parts)
    assert b"sk-abcdef123456" not in second.facts["whole"]
    assert b"[value of API_KEY in .env, hidden]" in second.facts["whole"]
    assert "sk-abcdef123456" not in text_of(second.parts)


async def test_folders_made_for_a_file_that_is_put_back_go_too(store: LogStore, tmp_path: Path) -> None:
    project = repository(tmp_path / "project", a="1")
    agent = shell(store, project, "mkdir -p .github/workflows keep; echo x > .github/workflows/ci.yml")
    await agent.run("go")
    assert not (project / ".github").exists()
    assert (project / "keep").is_dir()
    [finished] = only(agent, e.ToolCallFinished)
    assert finished.facts["put_back"] == [".github/workflows/ci.yml"]


async def test_change_by_a_background_job_is_asked_about(store: LogStore, tmp_path: Path) -> None:
    project = repository(tmp_path / "project", AGENTS_dot_md="be good\n")
    job = call("bash", "c0", command="echo be evil > AGENTS.md; touch done; sleep 30", background=True)
    wait = call("bash", "c1", command="until test -e done; do sleep 0.05; done; sleep 0.1; touch x")
    agent = agent_with(store, project, job, wait, call("bash", "c2", command="touch y"), "Done.", allow=("bash",))
    await agent.run("go")
    assert (project / "AGENTS.md").read_text() == "be good\n"
    texts = results(agent)
    assert any("changed AGENTS.md, which other programs obey" in text for text in texts)
    assert any("AGENTS.md was put back" in text for text in texts)


async def test_file_that_a_tool_wrote_while_a_job_ran_is_not_put_back(store: LogStore, tmp_path: Path) -> None:
    project = repository(tmp_path / "project", a="1")
    job = call("bash", "c0", command="sleep 30", background=True)
    write = call("write", "c1", file_path="AGENTS.md", content="allowed\n")
    agent = agent_with(
        store, project, job, write, call("bash", "c2", command="touch y"), "Done.", allow=("bash", "write")
    )
    await agent.run("go")
    assert (project / "AGENTS.md").read_text() == "allowed\n"


@pytest.mark.parametrize(
    ("setting", "value", "path"),
    [
        ("core.hooksPath", "scripts/hooks", "scripts/hooks/pre-commit"),
        ("include.path", "../.shared", ".shared"),
        ("include.path", "../my settings/git", "my settings/git"),
        ("core.fsmonitor", "./tools/watch", "tools/watch"),
    ],
)
async def test_file_that_the_configuration_of_git_names_is_obeyed(
    store: LogStore, tmp_path: Path, setting: str, value: str, path: str
) -> None:
    project = repository(tmp_path / "project", a="1")
    git(project, "config", setting, value)
    agent = shell(store, project, f"mkdir -p \"$(dirname '{path}')\"; echo evil > '{path}'; echo x > plain")
    await agent.run("go")
    assert not (project / path).exists()
    assert (project / "plain").exists()


async def test_worktree_inside_the_project_is_not_asked_about(store: LogStore, tmp_path: Path) -> None:
    project = repository(tmp_path / "project", a="1")
    agent = shell(store, project, "git worktree add -q side")
    await agent.run("go")
    assert (project / "side" / ".git").is_file()
    assert "obey" not in results(agent)[0]
