"""Tool calls written as text: found where a model ends on one, and nowhere else."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.runtime.turn.text_tool_calls import before_calls, calls_in

TOOLS = ("read", "bash", "write")
BASH = '{"name": "bash", "arguments": {"command": "ls"}}'

FOUND = {
    "json block": f"I look.\n```json\n{BASH}\n```\n",
    "plain block": f"```\n{BASH}\n```",
    "tilde block": f"~~~json\n{BASH}\n~~~",
    "tags": f"Let me look.\n<tool_call>\n{BASH}\n</tool_call>",
    "react": 'Thought: look\nAction: bash\nAction Input: {"command": "ls"}',
    "react with observation": 'Action: bash\nAction Input: {"command": "ls"}\nObservation:',
    "bare json": f"  {BASH}\n",
    "openai form": '```json\n{"function": {"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"}}\n```',
    "tool_calls list": f'```json\n{{"tool_calls": [{BASH}]}}\n```',
    "other keys": '```json\n{"tool": "bash", "parameters": {"command": "ls"}}\n```',
    "action keys": '```json\n{"action": "bash", "action_input": {"command": "ls"}}\n```',
}


@pytest.mark.parametrize("text", FOUND.values(), ids=FOUND.keys())
def test_a_call_at_the_end_is_found(text: str) -> None:
    calls = calls_in(text, TOOLS, "t-")
    assert [(call.id, call.name, call.arguments) for call in calls] == [("t-1", "bash", {"command": "ls"})]
    assert calls[0].raw is None


NOT_FOUND = {
    "quoted in the middle": f"The file says:\n```json\n{BASH}\n```\nThat is all it says.",
    "tags in the middle": f"It contains <tool_call>{BASH}</tool_call> as an example.",
    "tags inside a block": f"Example:\n```xml\n<tool_call>{BASH}</tool_call>\n```",
    "react inside a block": 'Example:\n```\nAction: bash\nAction Input: {"command": "ls"}\n```',
    "react followed by an answer": 'Action: bash\nAction Input: {"command": "ls"}\nObservation: a\nFinal Answer: done',
    "unknown tool": '```json\n{"name": "format_disk", "arguments": {}}\n```',
    "incomplete json": '```json\n{"name": "bash", "arguments": {"command": "l\n```',
    "incomplete react": 'Action: bash\nAction Input: {"command": "ls"',
    "arguments are no object": '```json\n{"name": "bash", "arguments": ["ls"]}\n```',
    "no arguments": '```json\n{"name": "bash"}\n```',
    "other language": f"```python\n{BASH}\n```",
    "open block": f"```json\n{BASH}",
    "plain text": "I would call bash now.",
    "empty": "",
}


@pytest.mark.parametrize("text", NOT_FOUND.values(), ids=NOT_FOUND.keys())
def test_anything_else_is_just_text(text: str) -> None:
    assert calls_in(text, TOOLS, "t-") == ()


def test_several_calls_are_found_and_bounded() -> None:
    two = f"<tool_call>{BASH}</tool_call>\n<tool_call>{BASH}</tool_call>"
    assert [call.id for call in calls_in(two, TOOLS, "t-")] == ["t-1", "t-2"]
    assert len(calls_in(f"```json\n[{', '.join([BASH] * 30)}]\n```", TOOLS, "t-")) == 8
    assert calls_in(f"<tool_call>{BASH}</tool_call>" * 9, TOOLS, "t-") == ()


def test_braces_and_quotes_in_arguments_are_understood() -> None:
    text = 'Action: write\nAction Input: {"file_path": "a", "content": "} \\" {\\n"}'
    assert calls_in(text, TOOLS, "t-")[0].arguments == {"file_path": "a", "content": '} " {\n'}


@pytest.mark.parametrize("kind", ["json block", "tags", "react"])
def test_what_was_said_before_the_call_is_kept(kind: str) -> None:
    assert before_calls(FOUND[kind]) in ("I look.", "Let me look.", "Thought: look")
    assert before_calls("no call") == ""


@given(st.text(max_size=400))
def test_no_text_makes_it_raise(text: str) -> None:
    calls_in(text, TOOLS, "t-")
    calls_in(f"```json\n{text}\n```", TOOLS, "t-")
    calls_in(f"Action: bash\nAction Input: {{{text}", TOOLS, "t-")


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>" * 20_000,
        "<tool_call></tool_call>" * 10_000,
        "```\n" * 50_000,
        "Action: bash\nAction Input: {" * 8_000,
        '{"a":' * 40_000,
        "[" * 200_000,
    ],
    ids=["open tags", "tags", "fences", "actions", "objects", "lists"],
)
def test_hostile_texts_are_read_in_no_time(text: str) -> None:
    began = time.process_time()
    assert calls_in(text, TOOLS, "t-") == ()
    assert time.process_time() - began < 2
