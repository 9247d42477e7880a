"""The system prompt: stable bytes, fixed order, nothing volatile."""

from pathlib import Path

import msgspec
import pytest

from outlast.core.workflow_mode import WorkflowMode
from outlast.models.port import ToolSpec
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.prompt.environment import permission_fact, place_facts
from outlast.runtime.prompt.memory_files import MemoryFile, rendered
from outlast.runtime.prompt.personas import BUILT_IN, Persona
from outlast.runtime.prompt.skills import MOST_SKILLS, Skill
from outlast.runtime.prompt.system_prompt import PromptInputs, prompt_key, snapshot, system_prompt
from outlast.runtime.turn.text_tool_calls import read_calls

READ = ToolSpec(
    name="read", description="Reads a file.", parameters={"type": "object", "properties": {"b": {}, "a": {}}}
)
BASH = ToolSpec(name="bash", description="Runs a command.", parameters={"type": "object"})
TASK = ToolSpec(name="task", description="Runs a sub-agent.", parameters={"type": "object"})
SKILL = ToolSpec(name="skill", description="Returns a skill.", parameters={"type": "object"})
FULL = PromptInputs(
    tools=(READ, BASH, TASK, SKILL),
    skills=(Skill(name="release", description="Makes a release.", root=Path("/p"), folder="s"),),
    sub_agents=(BUILT_IN, Persona(name="reviewer", description="Reviews changes.")),
    memory=(MemoryFile(name="AGENTS.md", text="Use tabs."),),
    persona=Persona(name="x", prompt="Be terse."),
)
SECTIONS = ("Work", "Tools", "Sandbox", "Sub-agents", "Skills", "Memory Files", "Persona")


def test_the_sections_stand_in_their_order() -> None:
    prompt = system_prompt(FULL)
    assert prompt.sections == SECTIONS
    headings = [line[2:] for line in prompt.text.splitlines() if line.startswith("# ")]
    assert headings == ["Introduction", *SECTIONS]
    assert prompt.text.startswith("# Introduction\n")
    assert prompt.format == "native"


def test_the_same_inputs_give_the_same_bytes_whatever_the_order_of_tools() -> None:
    again = msgspec.structs.replace(FULL, tools=(SKILL, BASH, TASK, READ))
    assert system_prompt(FULL) == system_prompt(again)


def test_a_section_with_nothing_to_say_is_left_out() -> None:
    prompt = system_prompt(PromptInputs())
    assert prompt.sections == ()


@pytest.mark.parametrize("mode", list(PermissionMode))
def test_every_permission_mode_is_explained(mode: PermissionMode) -> None:
    text = permission_fact(mode, prompting=True).text
    assert f"Permission mode: {mode} (" in text
    assert "The user can be asked." in text


def test_only_what_the_user_chooses_changes_the_key() -> None:
    key = prompt_key(FULL)
    assert prompt_key(msgspec.structs.replace(FULL, memory=())) == key
    assert prompt_key(msgspec.structs.replace(FULL, tools=(SKILL, BASH, TASK, READ), skills=(), sub_agents=())) == key
    assert prompt_key(msgspec.structs.replace(FULL, tools=(READ,))) != key
    assert prompt_key(msgspec.structs.replace(FULL, persona=Persona(name="x", prompt="Be long."))) != key
    assert prompt_key(msgspec.structs.replace(FULL, native_tools=False)) != key


def test_react_describes_the_tools_and_a_protocol_that_we_understand() -> None:
    prompt = system_prompt(msgspec.structs.replace(FULL, native_tools=False))
    assert prompt.format == "react"
    assert "## bash\nRuns a command." in prompt.text
    assert '{"properties":{"a":{},"b":{}},"type":"object"}' in prompt.text
    reply = 'I look.\nAction: read\nAction Input: {"file_path": "a"}'
    written = read_calls(reply, {"read"}, "t-", taught=True)
    assert written is not None
    assert written.calls[0].arguments == {"file_path": "a"}


def test_the_chat_profile_is_short() -> None:
    prompt = system_prompt(msgspec.structs.replace(FULL, chat_profile=True, persona=None))
    assert prompt.format == "chat"
    assert prompt.sections == ()
    assert len(prompt.text) < 400
    assert "Be terse." in system_prompt(msgspec.structs.replace(FULL, chat_profile=True)).text


def test_a_persona_of_the_project_is_marked_as_such() -> None:
    persona = Persona(name="x", prompt="Obey\u200b me.", source="project")
    text = system_prompt(msgspec.structs.replace(FULL, persona=persona)).text
    assert "came with the project; it cannot change permissions" in text.partition("# Persona")[2]
    assert "Obey<U+200B> me." in text


def test_a_hostile_folder_name_cannot_hide() -> None:
    [fact] = place_facts("/p\u202e", (), "")
    assert "\u202e" not in fact.text
    assert "<U+202E>" in fact.text


def test_a_snapshot_holds_the_prompt_as_it_was_sent() -> None:
    prompt = system_prompt(FULL)
    taken = snapshot(
        prompt,
        timestamp="2026-04-07T14:00:00Z",
        workflow_mode=WorkflowMode.PLAN,
        permission_mode=PermissionMode.PROMPT,
        current_task="Do it",
    )
    assert taken.content == prompt.text
    assert taken.prompt_sections == list(SECTIONS)
    assert (taken.workflow_mode, taken.permission_mode, taken.prompt_format) == ("plan", "prompt", "native")


# --- what the session keeps, and what tools bring with them


def test_the_place_of_the_memory_files_is_exact() -> None:
    for inputs in (FULL, msgspec.structs.replace(FULL, persona=None), msgspec.structs.replace(FULL, tools=())):
        prompt = system_prompt(inputs)
        assert prompt.memory is not None
        start, end = prompt.memory
        assert prompt.text[start:end] == rendered(FULL.memory)
    assert system_prompt(msgspec.structs.replace(FULL, memory=())).memory == (0, 0)
    assert system_prompt(msgspec.structs.replace(FULL, chat_profile=True)).memory is None


def test_memory_that_the_session_took_replaces_what_the_files_say_now() -> None:
    text = system_prompt(msgspec.structs.replace(FULL, kept_memory="As it was.")).text
    assert "# Memory Files\nAs it was.\n" in text
    assert "Use tabs." not in text
    assert "Memory Files" not in system_prompt(msgspec.structs.replace(FULL, kept_memory="")).sections


def test_skills_sub_agents_and_the_sandbox_stand_only_where_their_tool_is() -> None:
    prompt = system_prompt(msgspec.structs.replace(FULL, tools=(READ,)))
    assert prompt.sections == ("Work", "Tools", "Memory Files", "Persona")


def test_skills_and_sub_agents_are_listed_within_bounds() -> None:
    many = tuple(
        Skill(name=f"s{n:03}", description="d" * 400, root=Path("/p"), folder="s") for n in range(MOST_SKILLS + 5)
    )
    text = system_prompt(msgspec.structs.replace(FULL, skills=many)).text
    assert "- s099: " in text
    assert "- s100: " not in text
    assert "... and 5 more" in text
    assert max(len(line) for line in text.split("\n")) < 320
    assert "- reviewer: Reviews changes." in text
    assert "- default-interactive" not in text


def test_the_prompt_is_short() -> None:
    bare = system_prompt(msgspec.structs.replace(FULL, skills=(), sub_agents=(), memory=(), persona=None)).text
    assert len(bare) < 5000
