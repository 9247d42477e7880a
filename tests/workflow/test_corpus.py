"""The corpus of prompts: a plain turn makes exactly the requests that the model's replies need, a guided turn at most
one more, with the same decision in every language."""

from pathlib import Path

import pytest

from outlast.core import events as e
from outlast.models.scripted import ScriptedBackend
from outlast.runtime.turn.plain_policy import PlainPolicy
from outlast.runtime.turn.policy import CONTINUE, PolicyVerdict
from outlast.store import open_store
from outlast.store.log_store import LogStore
from tests.support.agents import only
from tests.workflow.prompts import GROUPS, LANGUAGES, PromptGroup
from tests.workflow.provider import Uncaused, agent_at, check_plain, requests_of

EVERY = pytest.mark.parametrize("group", GROUPS, ids=[group.name for group in GROUPS])


@pytest.fixture
def store() -> LogStore:
    return open_store("memory://")


def test_the_corpus_is_large_and_in_six_languages() -> None:
    assert sum(len(group.prompts) + len(group.others) for group in GROUPS) >= 120
    assert all(len(group.prompts) == len(group.answers) == len(LANGUAGES) for group in GROUPS)


@EVERY
async def test_plain_makes_the_requests_of_the_script_and_runs_nothing_of_its_own(
    group: PromptGroup, store: LogStore, tmp_path: Path
) -> None:
    for number, (prompt, script) in enumerate(group.scripts()):
        agent = agent_at(store, tmp_path / str(number), script, "plain", allow=not group.denied)
        answer = await agent.run(prompt)
        check_plain(agent, prompt, script, answer)
        refused = [done.status for done in only(agent, e.ToolCallFinished) if done.status in {"blocked", "declined"}]
        assert len(refused) == group.denied
        assert not (tmp_path / str(number) / "witness.txt").exists()
        assert not list((tmp_path / str(number)).rglob("__pycache__"))


@EVERY
async def test_guided_makes_at_most_one_more_request_and_decides_alike_in_every_language(
    group: PromptGroup, store: LogStore, tmp_path: Path
) -> None:
    decisions: set[tuple[object, ...]] = set()
    for number, (prompt, script) in enumerate(group.scripts()):
        agent = agent_at(store, tmp_path / str(number), script, "guided", allow=not group.denied)
        answer = await agent.run(prompt)
        extra = requests_of(agent) - len(script)
        assert extra <= 1, prompt
        assert answer == script[-1].content
        planned = {call.id for reply in script for call in reply.tool_calls or ()}
        assert {one.call_id for one in only(agent, e.ToolCallStarted)} <= planned
        [ended] = only(agent, e.TurnEnded)
        assert ended.outcome == "completed", prompt
        if number < len(LANGUAGES):
            codes = tuple(one.code for one in only(agent, e.CompletionDecided))
            modes = tuple(one.mode for one in only(agent, e.TurnStarted))
            decisions.add((extra, ended.reason, codes, modes))
        assert not (tmp_path / str(number) / "witness.txt").exists()
        assert not list((tmp_path / str(number)).rglob("__pycache__"))
    assert len(decisions) == 1


async def test_one_nudge_put_back_is_found(store: LogStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = PlainPolicy.judge_reply

    def nagging(self: PlainPolicy, parts: object, record: object) -> PolicyVerdict:
        if isinstance(self.context.model, ScriptedBackend) and len(self.context.model.requests) == 1:
            return PolicyVerdict(
                outcome=CONTINUE, code="premature_completion_nudge", summary="not finished", nudge="Do what is left."
            )
        return judge(self, parts, record)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(PlainPolicy, "judge_reply", nagging)
    prompt, script = GROUPS[0].scripts()[0]
    agent = agent_at(store, tmp_path, script, "plain", allow=True)
    answer = await agent.run(prompt)
    with pytest.raises(Uncaused, match="2 requests for 1 replies"):
        check_plain(agent, prompt, script, answer)
