"""Recorded runs in a small format of our own, generated from a seed: each step is what a model said and what it called.

A step is `{"say": text, "calls": [{"tool": name, "arguments": {...}}]}`; the last one only says something. The kinds of
steps and their shares follow what coding agents do: shell, edit, read, search, several calls at once, and errors.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from outlast.core.messages import ToolCall
from outlast.models.port import CompletionResponse

Step = dict[str, Any]


class _Run:
    """Generates the steps of one run and keeps the files as the run's edits leave them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.files = {f"src/m{n}.py": f"VALUE = {n}\nNAME = 'm{n}'\n" for n in range(8)}

    def steps(self, count: int) -> Iterator[Step]:
        kinds = (self.read, self.search, self.edit, self.bash, self.several, self.fault)
        for _ in range(count - 1):
            [kind] = self.random.choices(kinds, weights=(30, 15, 25, 12, 12, 6))
            yield {"say": self.random.choice(("", "I look.", "Next.", "ぼくは続ける。")), "calls": kind()}
        yield {"say": "All of it is done.", "calls": []}

    def path(self) -> str:
        return self.random.choice(sorted(self.files))

    def read(self) -> list[Step]:
        return [{"tool": "read", "arguments": {"file_path": self.path()}}]

    def search(self) -> list[Step]:
        pattern = self.random.choice(("VALUE", "NAME = '", "nothing here"))
        return [{"tool": "search", "arguments": {"pattern": pattern, "path": "src"}}]

    def edit(self) -> list[Step]:
        path = self.path()
        [line, rest] = self.files[path].split("\n", 1)
        new = f"VALUE = {self.random.randrange(10**6)}"
        self.files[path] = f"{new}\n{rest}"
        return [{"tool": "edit", "arguments": {"file_path": path, "old_string": line, "new_string": new}}]

    def bash(self) -> list[Step]:
        command = self.random.choice(("echo hello", "cat src/m1.py | head -1", "ls src", "false", "printf 'a\\nb\\n'"))
        return [{"tool": "bash", "arguments": {"command": command}}]

    def several(self) -> list[Step]:
        return [*self.read(), *self.search(), *self.read()]

    def fault(self) -> list[Step]:
        wrong: tuple[Step, ...] = (
            {"tool": "read", "arguments": {"file_path": "src/missing.py"}},
            {"tool": "edit", "arguments": {"file_path": self.path(), "old_string": "absent", "new_string": "x"}},
            {"tool": "unknown_tool", "arguments": {}},
            {"tool": "read", "arguments": {"path_of_file": 7}},
        )
        return [self.random.choice(wrong)]


def recorded_run(seed: int, steps: int) -> tuple[dict[str, str], list[Step]]:
    """Return the project's files and the steps of a run."""
    run = _Run(seed)
    return dict(run.files), list(run.steps(steps))


def replies(steps: list[Step]) -> list[CompletionResponse]:
    """Return the model's replies in a run."""
    found: list[CompletionResponse] = []
    for number, step in enumerate(steps):
        calls = [
            ToolCall(id=f"s{number}-{place}", name=call["tool"], arguments=call["arguments"])
            for place, call in enumerate(step["calls"])
        ]
        found.append(CompletionResponse(content=step["say"], tool_calls=calls))
    return found
