"""What a shell command changed is in its result, and a rewind takes it back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Agent, open_store
from outlast.core import events as e
from outlast.runtime.changes.change_set import groups_in
from outlast.store.log_store import LogStore
from tests.support.agents import agent_with, call, only
from tests.unit.runtime.changes.projects import git, repository


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LogStore]:
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as opened:
        yield opened


def shell(store: LogStore, project: Path, *commands: str, **config: Any) -> Agent:
    calls = [call("bash", f"c{n}", command=command) for n, command in enumerate(commands)]
    given: dict[str, Any] = {"allow": ("bash",), **config}
    return agent_with(store, project, *calls, "Done.", **given)


async def rewind(agent: Agent, said: str = "go") -> list[str]:
    [seq] = [one.seq for one in agent.session.history() if one.content == said]
    context = agent._turn_context()
    await agent.service.boundary(
        agent.session.session_id, "rewind", {"seq": seq, "keep": False, "files": True}, context
    )
    [rewound] = only(agent, e.Rewound)
    return [path for path, entry in rewound.files.get("entries", {}).items() if "problem" in entry]


async def unrewind(agent: Agent) -> None:
    await agent.service.boundary(agent.session.session_id, "unrewind", {}, agent._turn_context())


def tree(project: Path) -> dict[str, str]:
    """Return all files and links of a project, without those of git."""
    found: dict[str, str] = {}
    for path in sorted(project.rglob("*")):
        name = str(path.relative_to(project))
        if name.split("/")[0] in {".git", ".outlast"}:
            continue
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        elif path.is_file():
            found[name] = f"{path.stat().st_mode & 0o777:o} {path.read_bytes()!r}"
        else:
            found[name] = "folder"
    return found


CHANGES = (
    "printf changed > tracked.txt; rm gone.txt; printf 'mine too' > untracked.txt",
    "mkdir -p new/deep; printf x > new/deep/file; chmod 755 tracked.txt; ln -s tracked.txt link; rm old_link",
    "mv folder/a.txt folder/b.txt; rm -r swapped; printf file > swapped",
)


def fill(project: Path) -> Path:
    """Add what git does not track."""
    (project / "untracked.txt").write_text("mine")
    os.symlink("gone.txt", project / "old_link")
    return project


@pytest.mark.parametrize("has_git", [True, False])
async def test_rewind_takes_back_everything_that_commands_changed_and_its_undo_repeats_it(
    store: LogStore, tmp_path: Path, has_git: bool
) -> None:
    project = repository(
        tmp_path / "project",
        tracked_dot_txt="one",
        gone_dot_txt="two",
        folder__a_dot_txt="three",
        swapped__inner="four",
    )
    if not has_git:
        (project / ".git").rename(tmp_path / "git")
    before = tree(fill(project))
    agent = shell(store, project, *CHANGES)
    await agent.run("go")
    after = tree(project)
    assert after["swapped"].endswith("b'file'")
    assert await rewind(agent) == []
    assert tree(project) == before
    await unrewind(agent)
    assert tree(project) == after


async def test_a_file_that_the_user_changed_after_the_command_is_left_alone_and_named(
    store: LogStore, tmp_path: Path
) -> None:
    project = repository(tmp_path / "project", a_dot_txt="one", b_dot_txt="one")
    agent = shell(store, project, "echo two > a.txt; echo two > b.txt; echo new > c.txt")
    await agent.run("go")
    (project / "a.txt").write_text("mine")
    (project / "c.txt").write_text("mine")
    assert sorted(await rewind(agent)) == ["a.txt", "c.txt"]
    assert (project / "a.txt").read_text() == "mine"
    assert (project / "b.txt").read_text() == "one"
    assert (project / "c.txt").read_text() == "mine"


async def test_what_the_user_changed_between_two_commands_is_not_taken_for_the_commands(
    store: LogStore, tmp_path: Path
) -> None:
    project = repository(tmp_path / "project", a_dot_txt="one", b_dot_txt="one")
    agent = agent_with(
        store,
        project,
        call("bash", "c1", command="echo two > a.txt"),
        "First.",
        call("bash", "c2", command="echo three > a.txt"),
        "Second.",
        allow=("bash",),
    )
    await agent.run("one")
    (project / "b.txt").write_text("mine")
    await agent.run("two")
    assert await rewind(agent, "one") == []
    assert (project / "a.txt").read_text() == "one"
    assert (project / "b.txt").read_text() == "mine"


async def test_edits_and_commands_on_one_file_go_back_together(store: LogStore, tmp_path: Path) -> None:
    project = repository(tmp_path / "project", a_dot_txt="one\n")
    agent = agent_with(
        store,
        project,
        call("edit", "c1", file_path="a.txt", old_string="one", new_string="two"),
        call("bash", "c2", command="sed -i s/two/three/ a.txt"),
        call("edit", "c3", file_path="a.txt", old_string="three", new_string="four"),
        "Done.",
        allow=("bash",),
    )
    await agent.run("go")
    assert (project / "a.txt").read_text() == "four\n"
    assert await rewind(agent) == []
    assert (project / "a.txt").read_text() == "one\n"


async def test_the_result_has_paths_counts_and_a_diff(store: LogStore, tmp_path: Path) -> None:
    project = repository(tmp_path / "project", a_dot_txt="one\n", _dot_gitignore="*.log\n")
    agent = shell(store, project, "echo two > a.txt; echo x > b.log; rm -f none", "cat a.txt")
    await agent.run("go")
    changed, read = only(agent, e.ToolCallFinished)
    assert changed.facts["touched_files"] == ["a.txt"]
    assert (changed.facts["added"], changed.facts["removed"]) == (1, 1)
    assert "+two" in changed.facts["diff"]
    [group] = groups_in(changed.facts)
    assert [(file.path, file.kind, bool(file.before.blob)) for file in group.files] == [("a.txt", "modified", True)]
    assert "touched_files" not in read.facts


async def test_a_command_that_only_reads_pays_nothing(store: LogStore, tmp_path: Path) -> None:
    project = repository(tmp_path / "project", a_dot_txt="one\n")
    agent = shell(store, project, "cat a.txt", "git status", "ls -la")
    await agent.run("go")
    context = agent._turn_context()
    assert not (context.state_dir / "tools" / agent.session.session_id / "changes").exists()


async def test_the_switch_of_a_branch_goes_back_without_copies_in_the_log(store: LogStore, tmp_path: Path) -> None:
    project = repository(tmp_path / "project", a_dot_txt="one\n", b_dot_txt="same\n")
    git(project, "switch", "-q", "-c", "other")
    (project / "a.txt").write_text("two\n")
    git(project, "commit", "-qam", "two")
    git(project, "switch", "-q", "main")
    agent = shell(store, project, "git switch -q other")
    await agent.run("go")
    [finished] = only(agent, e.ToolCallFinished)
    assert finished.facts["shell_changes"]["contents"] == []
    assert (project / "a.txt").read_text() == "two\n"
    assert await rewind(agent) == []
    assert (project / "a.txt").read_text() == "one\n"


async def test_in_read_only_mode_no_look_is_taken(store: LogStore, tmp_path: Path) -> None:
    project = repository(tmp_path / "project", a_dot_txt="one\n")
    agent = shell(store, project, "ls", permission_mode="read-only")
    await agent.run("go")
    [finished] = only(agent, e.ToolCallFinished)
    assert "shell_changes" not in finished.facts


async def test_a_rewind_of_a_background_job_names_the_files_and_leaves_them(store: LogStore, tmp_path: Path) -> None:
    project = repository(tmp_path / "project", a_dot_txt="one\n")
    agent = agent_with(
        store,
        project,
        call("bash", "c1", command="sleep 0.2; echo two > a.txt", background=True),
        call("bash", "c2", command="while ! grep -q two a.txt; do sleep 0.05; done; sleep 0.3"),
        call("bash", "c3", command="touch done.txt"),
        "Done.",
        allow=("bash",),
    )
    await agent.run("go")
    results = only(agent, e.ToolCallFinished)
    assert "may have changed some of these files" in results[1].parts[0].text
    assert results[1].facts["touched_files"] == ["a.txt"]
