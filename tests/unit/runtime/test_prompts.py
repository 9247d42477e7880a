"""The system prompt: stable bytes, fixed order, nothing volatile."""

import msgspec
import pytest

from outlast.core.workflow_mode import WorkflowMode
from outlast.models.port import ToolSpec
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.prompt.environment import permission_fact, place_facts
from outlast.runtime.prompt.memory_files import MemoryFile
from outlast.runtime.prompt.personas import Persona
from outlast.runtime.prompt.system_prompt import PromptInputs, prompt_key, snapshot, system_prompt
from outlast.runtime.turn.text_tool_calls import calls_in

READ = ToolSpec(
    name="read", description="Reads a file.", parameters={"type": "object", "properties": {"b": {}, "a": {}}}
)
BASH = ToolSpec(name="bash", description="Runs a command.", parameters={"type": "object"})
FULL = PromptInputs(
    tools=(READ, BASH),
    memory=(MemoryFile(name="AGENTS.md", text="Use tabs."),),
    persona=Persona(name="x", prompt="Be terse."),
)
SECTIONS = ("Tools", "Memory Files", "Persona")


def test_the_sections_stand_in_their_order() -> None:
    prompt = system_prompt(FULL)
    assert prompt.sections == SECTIONS
    headings = [line[2:] for line in prompt.text.splitlines() if line.startswith("# ")]
    assert headings == ["Introduction", *SECTIONS]
    assert prompt.text.startswith("# Introduction\n")
    assert prompt.format == "native"


def test_the_same_inputs_give_the_same_bytes_whatever_the_order_of_tools() -> None:
    again = msgspec.structs.replace(FULL, tools=(BASH, READ))
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
    assert prompt_key(msgspec.structs.replace(FULL, tools=(BASH, READ))) == key
    assert prompt_key(msgspec.structs.replace(FULL, tools=(READ,))) != key
    assert prompt_key(msgspec.structs.replace(FULL, persona=Persona(name="x", prompt="Be long."))) != key
    assert prompt_key(msgspec.structs.replace(FULL, native_tools=False)) != key


def test_react_describes_the_tools_and_a_protocol_that_we_understand() -> None:
    prompt = system_prompt(msgspec.structs.replace(FULL, native_tools=False))
    assert prompt.format == "react"
    assert "## bash\nRuns a command." in prompt.text
    assert '{"properties":{"a":{},"b":{}},"type":"object"}' in prompt.text
    reply = 'I look.\nAction: read\nAction Input: {"file_path": "a"}'
    assert calls_in(reply, {"read"}, "t-")[0].arguments == {"file_path": "a"}


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
