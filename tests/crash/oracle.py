"""What is asked, and the only right answer to it: jobs, and a model that knows what to say from the conversation alone.

A job is the text of one message. It names itself and its steps, so that whoever reads a conversation can tell what the
model says next, which command it wants to run, and what that command leaves behind. The model server of the laboratory
answers by this, and the checker, who never sees the server, computes the same.

Steps come in groups, one reply of the model each: N appends the call's name to the witness file, V writes a file of the
job, R reads it back, A asks the user. This module knows nothing of Outlast.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

WITNESS = "witness.txt"
TOOLS = {"N": "bash", "V": "write", "R": "read", "A": "ask_user"}
_JOB = re.compile(r"\[job ([a-z0-9]+) ([NVRA]*(?:-[NVRA]+)*)\]")
_WORDS = ("anchor", "cable", "deck", "ebb", "fathom", "gale", "jetty", "keel", "lee", "mast", "oar", "quay", "reef")


class Call(NamedTuple):
    """One tool call of a job. `name` is the id that the model gives it; no other call has it."""

    name: str
    step: str
    tool: str
    arguments: dict[str, Any]


class Job(NamedTuple):
    """`groups` are the steps of each reply before the last one, like ("N", "VN", "R")."""

    name: str
    groups: tuple[str, ...]

    @property
    def text(self) -> str:
        return f"[job {self.name} {'-'.join(self.groups)}] Carry out its steps in their order, then report."

    @property
    def answer(self) -> str:
        """What the model says at the end."""
        dice = random.Random(self.name)
        words = " ".join(dice.choice(_WORDS) for _ in range(dice.randrange(8, 120)))
        return f"Report of {self.name}: {words}."

    def calls(self, group: int) -> list[Call]:
        """The calls of its n-th reply, counted from 0."""
        before = sum(len(steps) for steps in self.groups[:group])
        return [self._call(before + n, step) for n, step in enumerate(self.groups[group])]

    def all_calls(self) -> Iterator[Call]:
        for group in range(len(self.groups)):
            yield from self.calls(group)

    def _call(self, number: int, step: str) -> Call:
        name = f"{self.name}_{number}"
        file = f"{self.name}.txt"
        match step:
            case "N":
                dice = random.Random(name)
                before, after = dice.random() * 0.1, dice.random() * 0.3
                command = f"sleep {before:.2f}; echo {name} >> {WITNESS}; sleep {after:.2f}; echo ran {name}"
                arguments = {"command": command}
            case "V":
                arguments = {"file_path": file, "content": self.content(number)}
            case "A":
                arguments = {"question": f"May {name} go on?"}
            case _:
                arguments = {"file_path": file}
        return Call(name, step, TOOLS[step], arguments)

    def content(self, number: int) -> str:
        """What step `number` writes."""
        return f"{self.name} step {number}\n"


def job_in(text: str) -> Job | None:
    """The job that a message names."""
    found = _JOB.search(text)
    return Job(found[1], tuple(group for group in found[2].split("-") if group)) if found else None


def told_to(call: str) -> str:
    """What the user says when that call asks."""
    return f"yes, {call} may"


def made_job(name: str, dice: random.Random, *, asks: bool = True) -> Job:
    """A job of no to four groups, of one or two steps each. What it reads was written before."""
    groups: list[str] = []
    written = False
    kinds = ("N", "N", "N", "V", "NN", "VN", "NV", "R", "RN", "NR", *(("A", "AN") if asks else ()))
    for _ in range(dice.choice((0, 0, 1, 1, 2, 2, 3, 4))):
        steps = dice.choice(kinds)
        groups.append(steps if written else steps.replace("R", "V"))
        written = written or "V" in groups[-1]
    return Job(name, tuple(groups))


# ---- the model ------------------------------------------------------------------------------------------------------


class Saying(NamedTuple):
    """What the model says: a text, calls, or both."""

    text: str
    calls: tuple[Call, ...] = ()


NOTHING_ASKED = Saying("Nothing was asked of me that I know.")


def saying(messages: Sequence[Mapping[str, Any]]) -> Saying:
    """The reply to a conversation in OpenAI's words. A pure function: asked twice, it says the same twice.

    It goes by the newest message that names a job, and by how many results of calls stand behind it.
    """
    place, job = _newest(messages)
    if job is None:
        return NOTHING_ASKED
    results = sum(message.get("role") == "tool" for message in messages[place:])
    for group, steps in enumerate(job.groups):
        if results < len(steps):
            return Saying(f"Step {group + 1} of {job.name}.", tuple(job.calls(group)))
        results -= len(steps)
    return Saying(job.answer)


def _newest(messages: Sequence[Mapping[str, Any]]) -> tuple[int, Job | None]:
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        job = job_in(text_of(message.get("content"))) if message.get("role") == "user" else None
        if job is not None:
            return place, job
    return 0, None


def text_of(content: object) -> str:
    """The text of a message, which may come as a list of parts."""
    if isinstance(content, str):
        return content
    return json.dumps(content)
