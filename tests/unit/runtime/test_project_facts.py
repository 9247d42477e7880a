"""The context of a session, with a real store and a scripted model: memory files, git, skills, and what is pinned."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Agent, CompletionResponse, ToolCall, open_store
from outlast.core import events as e
from outlast.core.messages import text_of
from outlast.models.port import Abilities
from outlast.runtime.prompt import git_facts as git_module
from outlast.runtime.prompt.nested_memory import touched_paths
from outlast.runtime.turn import project_facts as facts_module
from outlast.store.log_store import LogStore
from outlast.testing import ScriptedBackend
from tests.conftest import needs
from tests.support.agents import Reply, agent_with, call, only


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as opened:
        yield opened


@pytest.fixture(autouse=True)
def user_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("OUTLAST_HOME", str(tmp_path / "user" / ".outlast"))
    (tmp_path / "user").mkdir()
    return tmp_path / "user"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "p"
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / "AGENTS.md").write_text("Root rules.")
    (folder / "sub" / "AGENTS.md").write_text("Sub rules.")
    (folder / "sub" / "deep" / "CLAUDE.md").write_text("Deep rules.")
    (folder / "sub" / "deep" / "a.txt").write_text("a\n")
    (folder / "b.txt").write_text("b\n")
    return folder


def agent_in(store: LogStore, project: Path, *replies: Reply, **config: Any) -> Agent:
    return agent_with(store, project, *replies, auto_context=True, **config)


def seen(agent: Agent, request: int = -1) -> str:
    """All messages of a request as one text."""
    backend = agent.backend
    assert isinstance(backend, ScriptedBackend)
    return "\n".join(text_of(message.parts) for message in backend.requests[request].messages)


def system(agent: Agent, request: int = -1) -> str:
    backend = agent.backend
    assert isinstance(backend, ScriptedBackend)
    return backend.requests[request].system


async def clear(agent: Agent) -> None:
    assert await agent.service.boundary(agent.session.session_id, "clear", {}, agent._turn_context()) == "done"


def read(path: str, call_id: str = "c1") -> CompletionResponse:
    return call("read", call_id, file_path=path)


# --- memory files


async def test_the_root_file_is_in_the_prompt_and_its_name_is_recorded(store: LogStore, project: Path) -> None:
    agent = agent_in(store, project, "Yes.")
    await agent.run("Hello?")
    assert "Root rules." in system(agent)
    assert "Sub rules." not in system(agent) + seen(agent)
    assert agent.session.state.runtime["memory_files"] == ["AGENTS.md"]


async def test_nested_files_are_told_once_after_their_folder_was_touched(store: LogStore, project: Path) -> None:
    agent = agent_in(store, project, read("b.txt"), read("sub/deep/a.txt"), read("sub/deep/a.txt"), "Done.", "Again.")
    await agent.run("Read them.")
    assert "Sub rules." not in seen(agent, 1)
    assert seen(agent, 2).index("Sub rules.") < seen(agent, 2).index("Deep rules.")
    assert "they cannot change permissions" in seen(agent, 2)
    await agent.run("And?")
    assert seen(agent).count("Sub rules.") == seen(agent).count("Deep rules.") == 1
    described = [event for event in only(agent, e.EnvironmentDescribed) if "memory:sub/AGENTS.md" in event.facts]
    assert len(described) == 1
    assert system(agent, 0) == system(agent)


async def test_a_search_in_a_folder_touches_it_and_a_refused_call_does_not(store: LogStore, project: Path) -> None:
    outside = read("/etc/shadow")
    agent = agent_in(store, project, outside, call("search", "c2", pattern="x", path="sub"), "Done.")
    await agent.run("Look.")
    assert "Sub rules." not in seen(agent, 1)
    assert "Sub rules." in seen(agent, 2)
    assert "Deep rules." not in seen(agent, 2)


async def test_a_file_that_the_session_wrote_counts_from_the_next_session(store: LogStore, project: Path) -> None:
    wrote = call("write", "c1", file_path="sub/AGENTS.md", content="My own rules.")
    agent = agent_in(store, project, wrote, read("sub/deep/a.txt", "c2"), "Done.", allow=("write",))
    await agent.run("Write it.")
    assert "Deep rules." in seen(agent)
    assert "memory:sub/AGENTS.md" not in str([event.facts for event in only(agent, e.EnvironmentDescribed)])
    again = agent_in(store, project, read("sub/deep/a.txt"), "Done.")
    await again.run("Read it.")
    assert "My own rules." in seen(again)


async def test_a_denied_write_leaves_the_file_an_instruction(store: LogStore, project: Path) -> None:
    wrote = call("write", "c1", file_path="sub/AGENTS.md", content="My own rules.")
    agent = agent_in(store, project, wrote, read("sub/AGENTS.md", "c2"), "Done.", permission_mode="read-only")
    await agent.run("Write it.")
    assert "memory:sub/AGENTS.md" in str([event.facts for event in only(agent, e.EnvironmentDescribed)])


async def test_a_changed_root_file_counts_from_the_next_session(store: LogStore, project: Path) -> None:
    wrote = call("write", "c1", file_path="AGENTS.md", content="My own rules.")
    agent = agent_in(store, project, wrote, "Done.", "Yes.", allow=("write",))
    await agent.run("Write it.")
    assert "My own rules." in (project / "AGENTS.md").read_text()
    await agent.run("Hello?")
    assert "Root rules." in system(agent)
    other = agent_in(store, project, "Yes.")
    await other.run("Hello?")
    assert "My own rules." in system(other)


async def test_another_persona_changes_the_prompt_and_keeps_the_memory(
    store: LogStore, project: Path, user_home: Path
) -> None:
    (user_home / ".outlast" / "agents").mkdir(parents=True)
    (user_home / ".outlast" / "agents" / "terse.md").write_text("Be terse.")
    agent = agent_in(store, project, "Yes.")
    await agent.run("Hello?")
    (project / "AGENTS.md").write_text("Other rules.")
    other = agent_in(store, project, "Yes.", persona="terse")
    assert other.resume_session(agent.session.session_id)
    await other.run("Hello again?")
    assert "Be terse." in system(other)
    assert "Root rules." in system(other)
    assert "Other rules." not in system(other)


async def test_after_a_clear_a_nested_file_is_told_again_when_touched(store: LogStore, project: Path) -> None:
    agent = agent_in(store, project, read("sub/deep/a.txt"), "Done.", "Yes.", read("sub/deep/a.txt"), "Done.")
    await agent.run("Read it.")
    await clear(agent)
    await agent.run("Hello?")
    assert "Sub rules." not in seen(agent)
    await agent.run("Read it again.")
    assert seen(agent).count("Sub rules.") == 1


async def test_after_a_compaction_a_nested_file_is_told_again_when_touched(store: LogStore, project: Path) -> None:
    replies = [read("sub/deep/a.txt"), "Done.", "Two.", "Three.", "Four.", read("sub/deep/a.txt"), "Done."]
    agent = agent_in(store, project, *replies, auto_compaction=False, compaction_keep_last_messages=2)
    for text in ("Read it.", "And two?", "And three?", "And four?"):
        await agent.run(text)
    assert seen(agent).count("Sub rules.") == 1
    context = agent._turn_context()
    assert await agent.service.boundary(agent.session.session_id, "compact", {}, context) == "done"
    await agent.run("Read it again.")
    assert "Sub rules." not in seen(agent, -2)
    assert seen(agent).count("Sub rules.") == 1
    assert "Root rules." in system(agent)


async def test_memory_of_all_files_together_is_bounded(store: LogStore, project: Path) -> None:
    (project / "AGENTS.md").write_text("r" * 30_000)
    (project / "sub" / "AGENTS.md").write_text("s" * 30_000)
    (project / "sub" / "deep" / "CLAUDE.md").write_text("d" * 30_000)
    agent = agent_in(store, project, read("sub/deep/a.txt"), "Done.")
    await agent.run("Read it.")
    told = seen(agent)
    assert told.count("s") > 30_000
    assert told.count("d") < 10_000


async def test_code_from_elsewhere_gives_no_instructions(store: LogStore, project: Path) -> None:
    (project / "node_modules" / "x").mkdir(parents=True)
    (project / "node_modules" / "x" / "AGENTS.md").write_text("Foreign rules.")
    (project / "node_modules" / "x" / "a.js").write_text("x")
    agent = agent_in(store, project, read("node_modules/x/a.js"), "Done.")
    await agent.run("Read it.")
    assert "Foreign rules." not in seen(agent)


async def test_a_nested_link_out_of_the_project_is_absent(store: LogStore, project: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret rules")
    (project / "sub" / "AGENTS.md").unlink()
    (project / "sub" / "AGENTS.md").symlink_to(tmp_path / "secret")
    agent = agent_in(store, project, read("sub/deep/a.txt"), "Done.")
    await agent.run("Read it.")
    assert "secret rules" not in seen(agent)


async def test_two_calls_of_one_reply_tell_each_file_once(store: LogStore, project: Path) -> None:
    both = CompletionResponse(
        tool_calls=[
            ToolCall(id="a", name="read", arguments={"file_path": "sub/deep/a.txt"}),
            ToolCall(id="b", name="glob", arguments={"pattern": "*", "path": "sub"}),
        ]
    )
    agent = agent_in(store, project, both, "Done.")
    await agent.run("Look.")
    assert seen(agent).count("Sub rules.") == 1


async def test_a_turn_with_nested_memory_costs_no_commit_more(store: LogStore, project: Path) -> None:
    counts: list[int] = []
    for path in ("b.txt", "sub/deep/a.txt"):
        agent = agent_in(store, project, read(path), "Done.")
        commits = 0
        commit = store.commit_async

        async def counted(*writes: object, commit: Any = commit) -> object:
            nonlocal commits
            commits += 1
            return await commit(*writes)

        store.commit_async = counted  # pyright: ignore[reportAttributeAccessIssue]
        await agent.run("Read it.")
        store.commit_async = commit
        counts.append(commits)
    assert counts[0] == counts[1]


def test_paths_of_a_patch_are_touched() -> None:
    patch = "*** Begin Patch\n*** Update File: sub/a.py\n*** Move to: other/a.py\n@@\n-x\n+y\n*** End Patch"
    assert touched_paths("apply_patch", {"patch": patch}) == ["sub/a.py", "other/a.py"]
    assert touched_paths("bash", {"command": "cat sub/a.py", "path": "sub"}) == []
    assert touched_paths("read", {"file_path": "a\0b"}) == []


# --- git


def repository(folder: Path) -> None:
    needs("git")
    for words in ("init -q -b main", "add .", "-c user.name=a -c user.email=a@b commit -q -m First"):
        subprocess.run(["git", *words.split()], cwd=folder, check=True)


async def test_git_is_told_in_the_first_request_and_never_again(
    store: LogStore, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(project)
    asked: list[Path] = []

    def counted(folder: Path, search_path: str) -> str | None:
        asked.append(folder)
        return git_module.git_facts(folder, search_path, 30)

    monkeypatch.setattr(facts_module, "git_facts", counted)
    agent = agent_in(store, project, read("b.txt"), "Done.", "Yes.", "Yes.")
    await agent.run("Read it.")
    (project / "new.txt").touch()
    await agent.run("Hello?")
    assert seen(agent).count("Branch: main") == 1
    assert "First" in seen(agent, 0)
    await clear(agent)
    await agent.run("Hello?")
    assert len(asked) == 1
    assert "Branch: main" not in system(agent)


async def test_without_context_nothing_is_read(store: LogStore, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(folder: Path, search_path: str) -> str | None:
        pytest.fail("git was asked")

    monkeypatch.setattr(facts_module, "git_facts", asked)
    agent = agent_with(store, project, read("sub/deep/a.txt"), "Done.")
    await agent.run("Read it.")
    told = seen(agent) + system(agent)
    assert not any(rules in told for rules in ("Root rules.", "Sub rules.", "Deep rules."))


# --- skills and sub-agents


async def test_skills_and_sub_agents_are_listed_and_can_be_used(
    store: LogStore, project: Path, user_home: Path
) -> None:
    folder = user_home / ".claude" / "skills" / "release"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: release\ndescription: Makes a release.\n---\nTag it.")
    (project / ".claude" / "agents").mkdir(parents=True)
    (project / ".claude" / "agents" / "checker.md").write_text("---\ndescription: Checks.\ntools: Read\n---\nCheck.")
    agent = agent_in(
        store,
        project,
        call("skill", "c1", name="release"),
        call("task", "c2", prompt="Check it.", persona="checker"),
        "Checked.",
        "Done.",
    )
    await agent.run("Release it.")
    assert "- release: Makes a release." in system(agent, 0)
    assert "- checker: Checks." in system(agent, 0)
    assert "Tag it." in seen(agent, 1)
    assert "Check." in system(agent, 2)
    assert "You have these tools: read." in system(agent, 2)
    assert seen(agent, 3).count("Checked.") == 1


async def test_a_demo_model_in_between_does_not_lose_the_memory_files(store: LogStore, project: Path) -> None:
    agent = agent_in(store, project, "One.")
    await agent.run("One?")
    chat = ScriptedBackend(["Two."], abilities=Abilities(tools=False, chat_profile=True))
    demo = agent_with(store, project, backend=chat, auto_context=True)
    assert demo.resume_session(agent.session.session_id)
    await demo.run("Two?")
    assert "Root rules." not in chat.requests[0].system
    (project / "AGENTS.md").write_text("Newer rules.")
    again = agent_in(store, project, "Three.")
    assert again.resume_session(agent.session.session_id)
    await again.run("Three?")
    assert isinstance(agent.backend, ScriptedBackend)
    assert isinstance(again.backend, ScriptedBackend)
    assert again.backend.requests[0].system == agent.backend.requests[0].system
