"""Whether a model repeats itself: the same answer again and again, or one line over and over within an answer."""

from __future__ import annotations

from collections.abc import Sequence

from outlast.runtime.workflow.words import normalised

SAME_ANSWERS = 3
SAME_LINES = 8
SAME_TAILS = 6
LONGEST_PERIOD = 200
MAX_TEXT = 16 * 1024


def is_loop(answer: str, earlier: Sequence[str] = ()) -> bool:
    """`earlier` are the texts that the model gave in this turn before, oldest first."""
    text = normalised(answer)
    if not text:
        return False
    run = 1
    for before in reversed(earlier):
        if normalised(before) != text:
            break
        run += 1
    return run >= SAME_ANSWERS or repeats_within(answer)


def repeats_within(answer: str) -> bool:
    """The same line eight times in a row, or the same passage six times at the end."""
    run, last = 0, None
    for line in (normalised(line) for line in answer[-MAX_TEXT:].splitlines()):
        if len(line) < 4:  # brackets, rules and blank lines repeat in honest texts
            continue
        run = run + 1 if line == last else 1
        last = line
        if run >= SAME_LINES:
            return True
    return _has_period(" ".join(answer[-MAX_TEXT:].split()))


def _has_period(text: str) -> bool:
    """Whether the end of `text` is one passage of 12 to 200 characters, six times. Linear in each length."""
    for period in range(12, min(LONGEST_PERIOD, len(text) // SAME_TAILS) + 1):
        tail = text[-period:]
        if len(set(tail)) > 3 and text.endswith(tail * SAME_TAILS):
            return True
    return False
