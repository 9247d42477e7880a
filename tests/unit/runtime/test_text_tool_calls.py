"""Tool calls written as text: found where a model ends on one, and nowhere else."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core.messages import Message, ReasoningPart, Role, TextPart, ToolCall, ToolResult
from outlast.runtime.turn.text_tool_calls import EXPLICIT, messages_as_text, read_calls, with_calls

TOOLS = ("read", "bash", "write")
BASH = '{"name": "bash", "arguments": {"command": "ls"}}'


def calls_in(text: str, *, taught: bool = False) -> tuple[ToolCall, ...]:
    found = read_calls(text, TOOLS, "t-", taught=taught)
    return found.calls if found is not None else ()


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
    "function tag with JSON": '<function=bash>{"command": "ls"}</function>',
    "function tag with parameters": "<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>",
    "function tag in tool_call": (
        "Now.\n<tool_call>\n<function=bash><parameter=command>ls</parameter></function>\n</tool_call>"
    ),
    "invoke tag": '<invoke name="bash">\n<parameter name="command">ls</parameter>\n</invoke>',
    "invoke tag in function_calls": (
        '<function_calls>\n<invoke name="bash"><parameter name="command">ls</parameter></invoke>\n</function_calls>'
    ),
    "phi tags": f"<|tool_call|>[{BASH}]<|/tool_call|>",
    "react in bold": '**Action:** `bash`\n**Action Input:** {"command": "ls"}',
    "react with a block": 'Action: bash\nAction Input:\n```json\n{"command": "ls"}\n```',
    "action keys": '```json\n{"action": "bash", "action_input": {"command": "ls"}}\n```',
}


@pytest.mark.parametrize("text", FOUND.values(), ids=FOUND.keys())
def test_a_call_at_the_end_is_found(text: str) -> None:
    calls = calls_in(text)
    assert [(call.id, call.name, call.arguments) for call in calls] == [("t-1", "bash", {"command": "ls"})]
    assert calls[0].raw is None


NOT_FOUND = {
    "quoted in the middle": f"The file says:\n```json\n{BASH}\n```\nThat is all it says.",
    "tags in the middle": f"It contains <tool_call>{BASH}</tool_call> as an example.",
    "tags in a quotation": f"It says:\n> <tool_call>{BASH}</tool_call>",
    "tags after a line number": f"It says:\n    12\t<tool_call>{BASH}</tool_call>",
    "tags in a diff": f"It adds:\n+<tool_call>{BASH}</tool_call>",
    "tags after words": f"Its last line is <tool_call>{BASH}</tool_call>",
    "tags in an open block with a title": f"It says:\n```text title=a.md\n<tool_call>{BASH}</tool_call>",
    "tags in an open block of a list": f"- it says:\n     ```\n     <tool_call>{BASH}</tool_call>",
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
    assert calls_in(text) == ()


def test_several_calls_are_found_and_bounded() -> None:
    two = f"<tool_call>{BASH}</tool_call>\n<tool_call>{BASH}</tool_call>"
    assert [call.id for call in calls_in(two)] == ["t-1", "t-2"]
    assert len(calls_in(f"```json\n[{', '.join([BASH] * 30)}]\n```")) == 8
    assert calls_in(f"<tool_call>{BASH}</tool_call>" * 9) == ()


def test_braces_and_quotes_in_arguments_are_understood() -> None:
    text = 'Action: write\nAction Input: {"file_path": "a", "content": "} \\" {\\n"}'
    assert calls_in(text)[0].arguments == {"file_path": "a", "content": '} " {\n'}


@pytest.mark.parametrize("kind", ["json block", "tags", "react", "function tag in tool_call"])
def test_what_was_said_before_the_call_is_kept(kind: str) -> None:
    found = read_calls(FOUND[kind], TOOLS, "t-")
    assert found is not None
    assert found.before in ("I look.", "Let me look.", "Thought: look", "Now.")
    said = (ReasoningPart(text="hm", signature="s", provider="p"), TextPart(FOUND[kind]))
    assert with_calls(said, found) == (ReasoningPart(text="hm"), TextPart(found.before), *found.calls)


def test_neighbouring_actions_are_all_calls_and_prose_between_them_is_not() -> None:
    one, two = (f'Action: bash\nAction Input: {{"command": "{name}"}}' for name in "ab")
    assert [call.arguments["command"] for call in calls_in(f"{one}\n{two}")] == ["a", "b"]
    assert [call.arguments["command"] for call in calls_in(f"{one}\nThen the other.\n{two}")] == ["b"]


def test_only_tags_and_actions_count_where_JSON_is_an_answer() -> None:
    for name, text in FOUND.items():
        found = read_calls(text, TOOLS, "t-", forms=EXPLICIT)
        assert (found is not None) is ("tag" in name or "react" in name), name


def test_parameters_get_the_types_of_their_schema() -> None:
    text = "<function=read><parameter=file_path>1</parameter><parameter=limit>5</parameter></function>"
    schema = {"read": {"properties": {"file_path": {"type": "string"}, "limit": {"type": "integer"}}}}
    found = read_calls(text, schema, "t-")
    assert found is not None
    assert found.calls[0].arguments == {"file_path": "1", "limit": 5}


def test_a_value_may_quote_its_own_closing_tag() -> None:
    text = "<function=write><parameter=content>a</parameter> b</parameter><parameter=file_path>x</parameter></function>"
    assert calls_in(text)[0].arguments == {"content": "a</parameter> b", "file_path": "x"}


def test_line_breaks_in_strings_are_accepted() -> None:
    text = 'Action: write\nAction Input: {"file_path": "a", "content": "one\ntwo\n"}'
    assert calls_in(text)[0].arguments["content"] == "one\ntwo\n"


TAUGHT = {
    "invented result": 'Action: bash\nAction Input: {"command": "ls"}\nObservation: a b\nFinal Answer: done',
    "invented chain": (
        'Action: bash\nAction Input: {"command": "ls"}\nObservation: a\nAction: bash\nAction Input: {"command": "rm"}'
    ),
    "whole block": '```\nAction: bash\nAction Input: {"command": "ls"}\n```',
}


@pytest.mark.parametrize("text", TAUGHT.values(), ids=TAUGHT.keys())
def test_a_model_that_was_taught_to_write_calls_is_read_more_kindly(text: str) -> None:
    assert [(call.name, call.arguments) for call in calls_in(text, taught=True)] == [("bash", {"command": "ls"})]


def test_a_malformed_or_unknown_call_of_a_taught_model_is_a_call_to_be_answered_with_its_error() -> None:
    [broken] = calls_in('Action: bash\nAction Input: {"command": "ls"', taught=True)
    assert (broken.name, broken.raw) == ("bash", '{"command": "ls"')
    [unknown] = calls_in("Action: format_disk\nAction Input: {}", taught=True)
    assert (unknown.name, unknown.arguments, unknown.raw) == ("format_disk", {}, None)
    [tag] = calls_in("<tool_call>{oops</tool_call>", taught=True)
    assert tag.raw == "{oops"
    assert calls_in("The file says so.", taught=True) == ()
    assert calls_in('Action: bash\nAction Input: {"command": "ls"}\nThat is how to list files.', taught=True) == ()


def test_calls_and_results_are_written_as_text_and_read_back_the_same() -> None:
    calls = (ToolCall(id="1", name="bash", arguments={"command": "ls"}), ToolCall(id="2", name="read", raw="{oops"))
    window = [
        Message(role=Role.USER, content="Look."),
        Message(role=Role.ASSISTANT, parts=(TextPart("I look. "), *calls)),
        Message(role=Role.TOOL, parts=(ToolResult(call_id="1", content="a\nb"),)),
        Message(role=Role.TOOL, parts=(ToolResult(call_id="2", content="bad", is_error=True),)),
    ]
    sent = messages_as_text(window)
    assert [message.role for message in sent] == [Role.USER, Role.ASSISTANT, Role.USER, Role.USER]
    assert not any(message.tool_calls or message.tool_results for message in sent)
    assert sent[1].content == (
        'I look.\nAction: bash\nAction Input: {"command":"ls"}\nAction: read\nAction Input: {oops'
    )
    assert [message.content for message in sent[2:]] == [
        "Observation of bash:\na\nb",
        "Observation of read (error):\nbad",
    ]
    again = read_calls(sent[1].content, TOOLS, "t-", taught=True)
    assert again is not None
    assert [(call.name, call.arguments, call.raw) for call in again.calls] == [
        (call.name, call.arguments, call.raw) for call in calls
    ]


@given(st.text(max_size=400))
def test_no_text_makes_it_raise(text: str) -> None:
    calls_in(text)
    calls_in(f"```json\n{text}\n```")
    calls_in(f"Action: bash\nAction Input: {{{text}")
    calls_in(f"<function=bash><parameter=command>{text}</parameter></function>", taught=True)


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>" * 20_000,
        "<tool_call></tool_call>" * 10_000,
        "```\n" * 50_000,
        "Action: bash\nAction Input: {" * 8_000,
        'Action: bash\nAction Input: {"' * 16 + "a" * 200_000,
        "<function=nothing>" * 12_000 + "</function>",
        "<invoke name=" * 10_000 + "</invoke>",
        "<function=bash>" + "</parameter>      " * 12_000 + "</function>",
        '{"a":' * 40_000,
        "[" * 200_000,
    ],
    ids=[
        "open tags",
        "tags",
        "fences",
        "actions",
        "open strings",
        "functions",
        "invokes",
        "parameters",
        "objects",
        "lists",
    ],
)
def test_hostile_texts_are_read_in_no_time(text: str) -> None:
    began = time.process_time()
    assert calls_in(text) == ()
    calls_in(text, taught=True)
    assert time.process_time() - began < 2
