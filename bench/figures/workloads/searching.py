"""Finding words among a million messages: warm, against SQLite's own full-text search on the same texts."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from contextlib import closing
from statistics import median

from bench.figures.bare.words import BareWords
from bench.figures.figure import Figure, ratio
from bench.figures.lab import Lab
from bench.figures.turns import in_turns
from outlast.app.sessions.search import Searcher
from outlast.core.messages import Message, Role
from outlast.session import ConversationSession
from outlast.store.log_store import LogStore

MESSAGES, IN_SESSION, WORDS, IN_MESSAGE, SHOWN = 1_000_000, 100, 20_000, 8, 20
SYLLABLES = tuple(re.findall("..", "kamoritesunalopevidushabetingofameze")) + tuple("東京大学語日")


def search(lab: Lab, kind: str) -> Iterator[Figure]:
    many = lab.count(MESSAGES, 200)
    dice = random.Random(1)
    words = ["".join(dice.choices(SYLLABLES, k=dice.randint(2, 4))) for _ in range(WORDS)]
    texts = [" ".join(dice.choices(words, k=IN_MESSAGE)) for _ in range(many)]
    asked = dice.sample([word for word in words if len(word) >= 3], 200)
    with lab.store(kind) as store, closing(BareWords(lab.folder() / "words.db")) as limit:
        _fill(store, texts)
        limit.fill(texts)
        with closing(Searcher(store)) as searcher:
            began = time.perf_counter()
            searcher.search(asked[0], wait=None)
            indexed = time.perf_counter() - began

            def bare(count: int) -> None:
                for number in range(count):
                    limit.newest(asked[number % len(asked)], SHOWN)

            def ours(count: int) -> None:
                for number in range(count):
                    searcher.search(asked[number % len(asked)], limit=SHOWN)

            rounds = in_turns(lab.rounds, lab.count(200, 4), bare, ours, per=1e3, piece=10)
    title = f"search {many:,} messages, warm"
    note = f"indexed {many / indexed:,.0f} messages a second"
    yield ratio("search", title, "a bare FTS5 query", rounds, measured_in="ms", goal=3.0, note=note)
    yield Figure(
        name="search-ms",
        title=title,
        against="",
        value=median(found.ours for found in rounds),
        goal=100.0,
        unit="ms",
    )


def _fill(store: LogStore, texts: list[str]) -> None:
    for at in range(0, len(texts), IN_SESSION):
        session = ConversationSession(store=store)
        session.extend([Message(role=Role.USER, content=text) for text in texts[at : at + IN_SESSION]])
