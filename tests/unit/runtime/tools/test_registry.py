"""The registry: names and arguments as the contract fixes them, and calls that do not fit are named and refused."""

from typing import Any

import pytest

from outlast.core.events import EffectClass
from outlast.runtime.tools.port import ToolFault
from outlast.runtime.tools.registry import BuiltinRegistry
from tests.unit.runtime.tools.setting import Setting

CONTRACT: dict[str, tuple[str, list[str], list[str]]] = {
    "read": ("R", ["file_path"], ["offset", "limit", "pages"]),
    "write": ("V", ["file_path", "content"], []),
    "edit": ("V", ["file_path", "old_string", "new_string"], ["replace_all"]),
    "apply_patch": ("V", ["patch"], []),
    "glob": ("R", ["pattern"], ["path"]),
    "search": (
        "R",
        ["pattern"],
        ["path", "glob", "output", "before", "after", "ignore_case", "type", "limit"],
    ),
    "bash": ("N", ["command"], ["timeout", "background", "needs", "why"]),
    "bash_output": ("R", ["job_id"], []),
    "bash_kill": ("N", ["job_id"], []),
    "todo": ("R", ["items"], []),
    "ask_user": ("R", ["question"], ["choices"]),
    "web_fetch": ("N", ["url"], []),
    "task": ("N", ["prompt"], ["persona"]),
    "recall": ("R", [], ["query", "seq", "offset"]),
    "skill": ("R", ["name"], []),
    "enter_plan": ("R", [], ["reason"]),
    "exit_plan": ("R", ["plan"], []),
}


@pytest.mark.parametrize("name", CONTRACT)
def test_tool_has_the_arguments_and_the_effect_of_the_contract(name: str) -> None:
    tool = BuiltinRegistry().get(name)
    assert tool is not None
    effect, required, optional = CONTRACT[name]
    assert tool.effect is EffectClass(effect)
    assert tool.parameters.get("required", []) == required
    assert list(tool.parameters["properties"]) == [*required, *optional]
    assert tool.parameters["additionalProperties"] is False


def test_model_is_told_of_every_tool_in_a_fixed_order() -> None:
    specs = BuiltinRegistry().specs()
    assert [spec.name for spec in specs] == list(CONTRACT)
    assert all(spec.description and spec.parameters["type"] == "object" for spec in specs)
    assert specs == BuiltinRegistry().specs()


def test_schemas_hold_no_references() -> None:
    assert all("$ref" not in str(spec.parameters) for spec in BuiltinRegistry().specs())


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("read", {}, "read: argument 'file_path' is missing"),
        ("read", {"file_path": 3}, "read: argument 'file_path' must be of type string, not integer"),
        ("read", {"file_path": ""}, "read: argument 'file_path' must not be empty"),
        ("read", {"file_path": "x", "lines": 1}, "there is no argument 'lines'; there are file_path, offset, limit"),
        ("read", {"file_path": "x", "limit": "5"}, "argument 'limit' must be of type integer, not string"),
        ("read", {"file_path": "x", "offset": 0}, "argument 'offset' must be at least 1"),
        ("bash", {"command": "x", "timeout": 601}, "argument 'timeout' must be at most 600"),
        ("bash", {"command": "x", "timeout": True}, "argument 'timeout' must be of type integer, not boolean"),
        ("bash", {"command": "x", "background": "yes"}, "'background' must be of type boolean, not string"),
        ("todo", {"items": "x"}, "argument 'items' must be of type array, not string"),
        ("todo", {"items": [{"content": "x", "status": "soon"}]}, "'items[0].status' must be one of"),
        ("todo", {"items": [{"status": "pending"}]}, "argument 'items[0].content' is missing"),
        ("todo", {"items": [{"content": "x", "state": 1}]}, "no argument 'items[0].state'; there are content, status"),
        ("todo", {"items": [3]}, "argument 'items[0]' must be of type object, not integer"),
        ("todo", {"items": {}}, "argument 'items' must be of type array, not object"),
        ("todo", {"items": None}, "argument 'items' must be of type array, not null"),
        ("todo", {"items": [{"content": "x", "status": 1}]}, "argument 'items[0].status' must be"),
        ("ask_user", {"question": "?", "choices": ["a", 1]}, "'choices[1]' must be of type string, not integer"),
        ("ask_user", {"question": "?", "choices": "a"}, "'choices' must be of type array, not string"),
        ("read", {"file_path": "x", "limit": 5.0}, "argument 'limit' must be of type integer, not number"),
        ("read", {"file_path": "x", "limit": "many"}, "argument 'limit' must be of type integer, not string"),
        ("read", {"file_path": "x", "limit": []}, "argument 'limit' must be of type integer, not array"),
        ("read", {"file_path": ["x"]}, "argument 'file_path' must be of type string, not array"),
        ("read", {"file_path": None}, "argument 'file_path' must be of type string, not null"),
        ("bash", {"command": "x", "background": 1}, "argument 'background' must be of type boolean, not integer"),
        ("bash", {"command": "x", "background": None}, "argument 'background' must be of type boolean, not null"),
        ("bash", {"command": "x", "timeout": "60"}, "argument 'timeout' must be of type integer, not string"),
        ("read", {"file_path": "x", "limit": "\ud800"}, "half of a character"),
        ("search", {"pattern": "x", "output": "all"}, "argument 'output' must be one of count, files, lines"),
        ("search", {"pattern": "x", "before": 51}, "argument 'before' must be at most 50"),
        ("no_such", {}, "there is no tool 'no_such'; there are read, write,"),
    ],
)
def test_call_that_does_not_fit_is_named_in_one_sentence(name: str, arguments: dict[str, Any], said: str) -> None:
    fault = BuiltinRegistry().fault(name, arguments)
    assert fault is not None
    assert said in fault
    assert "\n" not in fault


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read", {"file_path": "x"}),
        ("read", {"file_path": "x", "offset": None, "limit": 3}),
        ("bash", {"command": "ls", "timeout": 600, "background": False}),
        ("todo", {"items": []}),
        ("ask_user", {"question": "?", "choices": ["a", "b"]}),
    ],
)
def test_call_that_fits_has_no_fault(name: str, arguments: dict[str, Any]) -> None:
    assert BuiltinRegistry().fault(name, arguments) is None


def test_only_keeps_the_named_tools_and_the_jobs() -> None:
    registry = BuiltinRegistry()
    some = registry.only(["read", "bash"])
    assert some.names() == ("read", "bash")
    assert some.jobs is registry.jobs


async def test_arguments_that_were_not_checked_are_refused_all_the_same(setting: Setting) -> None:
    with pytest.raises(ToolFault, match="read was not run: there is no argument 'other'; there are file_path"):
        await setting.tool("read").run({"file_path": "x", "other": 1}, setting.context())
