"""Texts compared: normalised, by their meaningful words, by containment."""

from __future__ import annotations

import re
from collections.abc import Sequence

_WORD = re.compile(r"[^\W_][\w./-]*", re.UNICODE)
_STOP_WORDS = (
    "a about after all also an and any are as at be been before but by can could do does for from had has have if in "
    "into is it its may more must no not now of on only or our out over per shall should so some such than that the "
    "their them then there these they this those to too up use used was we were what when where which will with would "
    "you your"
)
_STOP = frozenset(_STOP_WORDS.split())


def normalised(text: str) -> str:
    """Lower case, single spaces, without quotes of code and closing punctuation."""
    return " ".join(text.replace("`", "").lower().split()).strip(" .;:,!?")


def words(text: str) -> list[str]:
    """Every word, lower case; file names and paths stay whole."""
    return [found.rstrip("./-") for found in _WORD.findall(text.lower())]


def meaningful(text: str) -> frozenset[str]:
    return frozenset(word for word in words(text) if len(word) > 2 and word not in _STOP)


CONTAINED = 1_000


def likeness(one: str, other: str) -> int:
    """How well two texts match: `CONTAINED` when one holds the other, else their shared meaningful words, 2 or more."""
    left, right = normalised(one), normalised(other)
    if not left or not right:
        return 0
    if f" {left} " in f" {right} " or f" {right} " in f" {left} ":
        return CONTAINED
    shared = len(meaningful(left) & meaningful(right))
    return shared if shared >= 2 else 0


def best_match(text: str, candidates: Sequence[str]) -> int | None:
    """The position of the candidate that is most like `text`, the first of equals; None when none is."""
    scores = [likeness(text, candidate) for candidate in candidates]
    best = max(scores, default=0)
    return scores.index(best) if best else None
