"""Git through an agent in its default mode: everyday work in every layout of a repository, without a question."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast import open_store
from outlast.app.sandbox import command_sandbox, sandbox_report
from outlast.app.settings import load_settings
from outlast.core import events as e
from outlast.core.messages import text_of
from outlast.runtime.sandbox.port import SandboxTier
from outlast.runtime.turn.approvals import Question
from outlast.store.log_store import LogStore
from tests.conftest import everything_is_required
from tests.sandbox.sandboxed import git
from tests.sandbox.test_git_protection import LAYOUTS, protected_state
from tests.support.agents import agent_with, call, only

WORK = {
    "commit": "echo two >> file.txt && git add file.txt && git commit -qm two",
    "commit all": "echo three >> file.txt && git commit -qam three && git commit -q --amend -m third",
    "switch": "git switch -qc topic && echo a > a.txt && git add a.txt && git commit -qm a",
    "cherry-pick": "git switch -q - && git cherry-pick topic",
    "rebase": "echo b > b.txt && git add . && git commit -qm b && git switch -q topic && git rebase -q -",
    "new file": "echo c > c.txt && git add . && git commit -qm c",
    "interactive rebase": "GIT_SEQUENCE_EDITOR='sed -i 1s/pick/reword/' GIT_EDITOR=true git rebase -q -i HEAD~1",
    "stash": "echo dirty >> file.txt && git stash -q && git stash pop -q && git checkout -q file.txt",
    "stash of untracked files": "echo new > new.txt && git stash push -q -u && git stash pop -q && rm new.txt",
    "clean": "echo new > new.txt && git clean -qfd && test ! -e new.txt",
    "merge": "git switch -q - && git merge -q --no-ff topic -m merged && git revert --no-edit -m 1 HEAD",
    "tag and branch": "git tag v1 && git branch other && git branch -q -D other",
    "reset": "git reset -q --soft HEAD~1 && git commit -qm again && git reset -q --hard",
    "gc": "git gc -q --prune=1.week.ago && git fsck && test -z \"$(git status --short)\"",
}  # fmt: skip


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LogStore]:
    for name, value in (("NAME", "Tester"), ("EMAIL", "tester@example.org")):
        monkeypatch.setenv(f"GIT_AUTHOR_{name}", value)
        monkeypatch.setenv(f"GIT_COMMITTER_{name}", value)
    monkeypatch.setenv("OUTLAST_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OUTLAST_SANDBOX", raising=False)
    settings = load_settings()
    report = sandbox_report(settings)
    if report.tier is not SandboxTier.BUBBLEWRAP:
        (pytest.fail if everything_is_required() else pytest.skip)(report.reason)
    yield open_store(f"sqlite:///{tmp_path}/x.db")
    sandbox = command_sandbox(settings)
    assert sandbox is not None
    sandbox.close()


async def unwanted(question: Question) -> str:
    raise AssertionError(f"asked: {question.reason}")


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_everyday_work_is_done_unasked_in_every_layout(store: LogStore, tmp_path: Path, layout: str) -> None:
    root, common = LAYOUTS[layout](tmp_path.resolve())
    before = protected_state(common)
    calls = [call("bash", name, command=command) for name, command in WORK.items()]
    agent = agent_with(store, root, *calls, "Done.", answerer=unwanted, prompting=True)
    assert await agent.run("Work.") == "Done."
    results = {found.call_id: found for found in only(agent, e.ToolCallFinished)}
    failed = {name: text_of(found.parts) for name, found in results.items() if found.facts.get("exit_code") != 0}
    assert results.keys() == WORK.keys()
    assert failed == {}
    assert only(agent, e.ApprovalRequested) == []
    assert protected_state(common) == before
    assert git(root, "status", "--short") == ""
    subjects = git(root, "log", "--all", "--format=%s").split("\n")
    assert {"two", "third", "a", "b", "again"} <= set(subjects)
    assert not (root / ".outlast").exists()


async def test_configuration_is_written_by_git_itself_once_the_user_says_yes(store: LogStore, tmp_path: Path) -> None:
    """Git replaces the file by a rename, which no mount on the file may stop."""
    root, common = LAYOUTS["plain"](tmp_path.resolve())
    asked: list[str] = []

    async def answer(question: Question) -> str:
        asked.append(question.reason or "")
        return "session"

    need = ["write:.git/config"]
    calls = [
        call("bash", "c1", command="git config a.b c"),
        call("bash", "c2", command="git config a.b c", needs=need),
        call("bash", "c3", command="git remote add origin ../x && git branch -m main trunk", needs=need),
        call("bash", "c4", command="git config a.b d; echo '#!/bin/sh' > .git/hooks/post-commit"),
    ]
    agent = agent_with(store, root, *calls, "Done.", answerer=answer, prompting=True)
    await agent.run("Configure it.")
    texts = [text_of(found.parts) for found in only(agent, e.ToolCallFinished)]
    assert f'needs=["write:{common}/config"]' in texts[0]
    assert texts[1:3] == ["(no output)", "(no output)"]
    assert len(asked) == 1
    assert git(root, "config", "a.b").strip() == "c"
    assert git(root, "branch", "--show-current").strip() == "trunk"
    assert not (common / "hooks" / "post-commit").exists()
