"""todo, ask_user and task: what they hand on."""

from outlast.core.events import RuntimeStateChanged
from tests.unit.runtime.tools.setting import Setting


async def test_todo_keeps_its_list_in_the_session_state(setting: Setting) -> None:
    items = [
        {"content": "look", "status": "completed"},
        {"content": "write", "status": "in_progress"},
        {"content": "x"},
    ]
    outcome = await setting.run("todo", items=items)
    kept = [*items[:2], {"content": "x", "status": "pending"}]
    assert outcome.events == (RuntimeStateChanged(changes={"todos": kept}),)
    assert outcome.text == "[x] look\n[~] write\n[ ] x"
    assert outcome.facts == {"items": 3, "open": 2}


async def test_empty_todo_list_clears_it(setting: Setting) -> None:
    outcome = await setting.run("todo", items=[])
    assert outcome.events == (RuntimeStateChanged(changes={"todos": []}),)


async def test_ask_user_hands_back_the_answer(setting: Setting) -> None:
    assert (await setting.run("ask_user", question="Which?", choices=["a", "b"])).text == "Which? ['a', 'b'] yes"
    assert (await setting.run("ask_user", question="Why?")).text == "Why? [] yes"


async def test_task_hands_back_what_the_sub_agent_says(setting: Setting) -> None:
    assert (await setting.run("task", prompt="count", persona="tester")).text == "tester: count"
    assert (await setting.run("task", prompt="count")).text == "None: count"


async def test_only_writes_have_a_target(setting: Setting) -> None:
    for name in ("todo", "ask_user", "task", "bash", "read"):
        assert await setting.tool(name).target({}, setting.context()) is None
