"""Text heuristics: how similar two texts are, what a task asks for, and whether a model repeats itself.

They use tables of English words; a task without a known action verb counts as a question.
"""

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
    """Return the text in lower case with single spaces, without back-quotes and surrounding punctuation."""
    return " ".join(text.replace("`", "").lower().split()).strip(" .;:,!?")


def words(text: str) -> list[str]:
    """Return all words in lower case; file names and paths stay whole."""
    return [found.rstrip("./-") for found in _WORD.findall(text.lower())]


def meaningful(text: str) -> frozenset[str]:
    return frozenset(word for word in words(text) if len(word) > 2 and word not in _STOP)


CONTAINED = 1_000


def likeness(one: str, other: str) -> int:
    """Score the match of two texts: `CONTAINED` if one contains the other, else the number of shared meaningful words,
    or 0 if they share fewer than two."""
    left, right = normalised(one), normalised(other)
    if not left or not right:
        return 0
    if f" {left} " in f" {right} " or f" {right} " in f" {left} ":
        return CONTAINED
    shared = len(meaningful(left) & meaningful(right))
    return shared if shared >= 2 else 0


def best_match(text: str, candidates: Sequence[str]) -> int | None:
    """Return the position of the candidate most similar to `text`, the first on a tie; None if none matches."""
    scores = [likeness(text, candidate) for candidate in candidates]
    best = max(scores, default=0)
    return scores.index(best) if best else None


# --- task wording ----------------------------------------------------------------------------------------------------


LONGEST = 8_000
"""Number of characters examined: the beginning of a task, the end of an answer."""

_VERBS = (
    "add adjust apply build bump change clean commit configure convert copy correct create debug delete deploy drop "
    "edit execute extend extract fix format generate implement improve initialize init insert install integrate "
    "make merge migrate modify move optimize optimise patch port prepare refactor remove rename reorganize replace "
    "resolve restore revert rewrite run save scaffold set setup simplify split test translate tweak uninstall "
    "update upgrade verify write"
)
ACTION_VERBS = frozenset(_VERBS.split())
_OPENERS = (
    "what why how who whose when where which is are was were does did has have should explain describe summarize "
    "summarise tell show list compare outline review discuss define clarify teach give suggest recommend think "
    "brainstorm evaluate analyze analyse assess estimate count find look read search inspect investigate"
)
QUESTION_OPENERS = frozenset(_OPENERS.split())
_POLITE = re.compile(
    r"^(?:(?:please|now|then|also|next|first|finally|and|so|ok|okay|hi|hello|hey|just|go ahead and|let'?s"
    r"|i (?:want|need|would like|'d like) you to|(?:can|could|would|will) you(?: please)?|you should"
    r"|help me(?: to)?|try to)[\s,:]+)+",
    re.IGNORECASE,
)
_SENTENCES = re.compile(r"(?<=[.!?;])\s+|\n+|,?\s+(?:and\s+)?then\s+", re.IGNORECASE)
_PROSE = re.compile(
    r"^(?:write|draft|compose|make|create|generate|prepare)\b[^.`/]{0,80}"
    r"\b(?:summary|explanation|paragraph|poem|haiku|story|joke"
    r"|email|letter|answer|overview|description|essay|list|outline|comparison|tagline|sentence|reply|limerick)\b",
    re.IGNORECASE,
)
_NAMES_A_FILE = re.compile(
    r"[`/\\]|\b[\w-]+\.[A-Za-z]\w{0,7}\b(?!\s*$)|\b(files?|folder|directory|repo(sitory)?)\b", re.IGNORECASE
)
_LETTERS = re.compile(r"[a-z]+")
_ASKED = frozenset({"you", "we", "i", "they", "these", "those", "any"})


def actions(task: str) -> list[str]:
    """Return the action verbs of the task, in order; empty if the task only asks for information."""
    found: list[str] = []
    for sentence in _SENTENCES.split(task.strip()[:LONGEST]):
        plain = _POLITE.sub("", sentence.strip())
        said = _LETTERS.findall(plain.lower())
        if not said or said[0] in QUESTION_OPENERS or (_PROSE.match(plain) and not _NAMES_A_FILE.search(plain)):
            continue
        if said[0] == "do" and not _ASKED.intersection(said[1:2]):  # "do the dishes", but not "do you like them"
            found.append("do")
        found += [word for word in said if word in ACTION_VERBS]
    return list(dict.fromkeys(found))


def is_informational(task: str) -> bool:
    """Whether the task only asks for information, so that any non-empty answer is sufficient."""
    return not actions(task)


_INSTALL = re.compile(r"\b(install|set up (the )?dependenc|add (the )?(dependency|package))", re.IGNORECASE)
_RUN = re.compile(r"\b(tests?|run|execute|pytest)\b", re.IGNORECASE)
_CHECK = re.compile(
    r"\b(verify|make sure|ensure|check (that|it|if|whether)|prove|passes|passing)\b",
    re.IGNORECASE,
)
_BROAD = re.compile(
    r"\b(whole|entire|complete) (project|code ?base|repo(sitory)?|app(lication)?|package)\b"
    r"|\b(every|all) (the )?(files?|modules?|tests?|packages?)\b"
    r"|\bacross the (project|code ?base|repo(sitory)?)\b|\beverywhere\b",
    re.IGNORECASE,
)


def wants_an_install(task: str) -> bool:
    return _INSTALL.search(task) is not None


def wants_a_run(task: str) -> bool:
    """Whether only a command that ran can show that the task is done."""
    return _RUN.search(task) is not None


def wants_a_check(task: str) -> bool:
    return _CHECK.search(task) is not None


def is_broad(task: str) -> bool:
    return _BROAD.search(task) is not None


_HANDS_BACK = re.compile(
    r"\b(you('ll| will)? (need|have) to|you (should|must|can|could) (now |then |just )?"
    r"(run|create|add|edit|install|execute|copy|paste|save|update|change|replace)"
    r"|please (run|create|add|edit|install|execute|copy|paste|save|update)"
    r"|run the following|use the following command|i('ll| will) leave (it|that|the) )",
    re.IGNORECASE,
)
_STOPS_SHORT = re.compile(
    r"\b(would you like me to|do you want me to|shall i|should i) "
    r"(continue|proceed|go ahead|start|begin|apply|do (it|that|this))\b"
    r"|\blet me know (if|when) (you('d| would) like me to|i should) (continue|proceed|go ahead|start)\b"
    r"|\b(next|now),? i('ll| will) (create|write|edit|add|run|fix|update|implement|start)\b[^.\n]*[.:…]*\s*$",
    re.IGNORECASE,
)


def hands_back(answer: str, *, worked: bool) -> bool:
    """Whether the answer hands the work back to the user. After work, advice on next steps does not count."""
    answer = answer[-LONGEST:]
    return _STOPS_SHORT.search(answer) is not None or (not worked and _HANDS_BACK.search(answer) is not None)


# --- repetition ------------------------------------------------------------------------------------------------------


SAME_ANSWERS = 3
SAME_LINES = 8
SAME_TAILS = 6
LONGEST_PERIOD = 200
LONGEST_ANSWER = 16 * 1024


def is_loop(answer: str, earlier: Sequence[str] = ()) -> bool:
    """Whether the model repeats itself. `earlier` are its previous answers in this turn, oldest first."""
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
    """Whether the answer has the same line eight times in a row, or ends with the same passage six times."""
    run, last = 0, None
    for line in (normalised(line) for line in answer[-LONGEST_ANSWER:].splitlines()):
        if len(line) < 4:  # brackets, rules and blank lines repeat in normal texts
            continue
        run = run + 1 if line == last else 1
        last = line
        if run >= SAME_LINES:
            return True
    return _has_period(" ".join(answer[-LONGEST_ANSWER:].split()))


def _has_period(text: str) -> bool:
    """Whether `text` ends with a passage of 12 to 200 characters repeated six times. Linear in each period length."""
    for period in range(12, min(LONGEST_PERIOD, len(text) // SAME_TAILS) + 1):
        tail = text[-period:]
        if len(set(tail)) > 3 and text.endswith(tail * SAME_TAILS):
            return True
    return False
