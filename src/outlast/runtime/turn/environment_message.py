"""The environment message: tells the model the facts that it has not been told yet, in the request that follows.

What the model was told is read from the `EnvironmentDescribed` events that its window still shows. So after a
compaction, a clear or a rewind it is told again, and a resumed session tells only what differs here.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence

from outlast.core.events import EnvironmentDescribed
from outlast.core.fold import Row
from outlast.core.state import SessionState
from outlast.core.text import show_invisible
from outlast.runtime.clock import timestamp
from outlast.runtime.driver import Driver
from outlast.runtime.prompt.environment import EnvironmentFact, date_fact, described, permission_fact, place_facts
from outlast.runtime.turn.context import TurnContext


def told_facts(rows: Iterable[Row], state: SessionState) -> dict[str, str]:
    """Return the digests of the facts that the window shows, by name."""
    view, told = state.view, dict[str, str]()
    for stored, event in rows:
        if isinstance(event, EnvironmentDescribed) and stored.seq >= view.window_from and not view.hides(stored.seq):
            told |= event.facts
    return told


def turn_facts(driver: Driver, context: TurnContext, of_policy: Sequence[EnvironmentFact]) -> list[EnvironmentFact]:
    """Return every fact of the current environment. A demo model that only chats gets none."""
    assert context.model is not None
    if context.model.abilities.chat_profile:
        return []
    return [
        *place_facts(str(context.project), [str(root) for root in context.roots[1:]], context.platform),
        date_fact(timestamp(driver.clock)[:10]),
        permission_fact(context.gate.mode, prompting=context.prompting),
        *_shell_facts(driver.state, context),
        *context.facts,
        *of_policy,
    ]


def _shell_facts(state: SessionState, context: TurnContext) -> list[EnvironmentFact]:
    """Tell the folder of shell commands once the window no longer shows the command that changed into it."""
    seq, folder = state.shell_folder_since
    if folder is None or seq >= state.window_from or folder == os.path.realpath(context.project):
        return []
    return [EnvironmentFact(name="shell_folder", text=f"Shell commands start in {show_invisible(folder)}", once=True)]


def environment_event(facts: Sequence[EnvironmentFact], told: dict[str, str]) -> EnvironmentDescribed | None:
    """Return the event that tells the facts which are news; None if there are none."""
    news = [fact for fact in facts if _is_news(fact, told.get(fact.name))]
    if not news:
        return None
    return EnvironmentDescribed(text=described(news), facts={fact.name: _digest(fact.text) for fact in news})


def _is_news(fact: EnvironmentFact, told: str | None) -> bool:
    if told is None:
        return not fact.change_only
    return not fact.once and told != _digest(fact.text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
