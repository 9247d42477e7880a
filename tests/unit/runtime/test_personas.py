"""Personas: found, chosen, bounded; a mistake is one sentence."""

from pathlib import Path

import pytest

from outlast.core.errors import ConfigError
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.prompt.personas import BUILT_IN, Persona, Personas, load_personas

REVIEWER = """\
---
name: reviewer
description: "Reads, never writes"
model: anthropic:claude
tools: [read, search]
permission_mode: read-only
---
You review.

---
Still the prompt.
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / "agents").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "proj" / ".outlast" / "agents").mkdir(parents=True)
    return tmp_path / "proj"


def put(root: Path, name: str, text: str) -> None:
    folder = root / "agents" if (root / "agents").is_dir() else root / ".outlast" / "agents"
    (folder / name).write_text(text)


def test_there_is_always_the_built_in_one(tmp_path: Path) -> None:
    personas = load_personas(tmp_path / "no-home", tmp_path / "no-project")
    assert personas.names() == ["default-interactive"]
    assert personas.get(None) is BUILT_IN
    assert load_personas(None, None).get("default-interactive") is BUILT_IN


def test_a_markdown_persona_is_read(home: Path) -> None:
    put(home, "reviewer.md", REVIEWER)
    persona = load_personas(home, None).get("reviewer")
    assert persona == Persona(
        name="reviewer",
        description="Reads, never writes",
        model="anthropic:claude",
        tools=("read", "search"),
        permission_mode=PermissionMode.READ_ONLY,
        prompt="You review.\n\n---\nStill the prompt.",
        source="home",
        path=str(home / "agents" / "reviewer.md"),
    )
    assert persona.may_use("read")
    assert not persona.may_use("bash")


def test_a_toml_persona_and_toml_front_matter_are_read(home: Path) -> None:
    put(home, "a.toml", 'description = "d"\ntools = ["read"]\nprompt = """\nBe kind.\n"""\n')
    put(home, "b.md", '+++\ndescription = "e"\n+++\nBe brief.')
    personas = load_personas(home, None)
    assert (personas.get("a").prompt, personas.get("a").tools) == ("Be kind.", ("read",))
    assert (personas.get("b").prompt, personas.get("b").description) == ("Be brief.", "e")


@pytest.mark.parametrize(
    ("head", "tools"),
    [
        ("tools: read, search", ("read", "search")),
        ("tools:\n  - read\n  - 'search'", ("read", "search")),
        ("tools: []", ()),
        ("description:", None),
        ("# comment", None),
    ],
)
def test_tools_can_be_written_in_several_ways(home: Path, head: str, tools: tuple[str, ...] | None) -> None:
    put(home, "x.md", f"---\n{head}\n---\nHi.")
    assert load_personas(home, None).get("x").tools == tools


def test_a_file_without_front_matter_is_all_prompt(home: Path) -> None:
    put(home, "x.md", "Just be nice.")
    put(home, "empty.md", "---\n---\n")
    assert load_personas(home, None).get("x").prompt == "Just be nice."
    assert load_personas(home, None).get("empty").prompt == ""


def test_an_unknown_persona_is_one_sentence_with_the_names(home: Path) -> None:
    put(home, "reviewer.md", REVIEWER)
    with pytest.raises(ConfigError) as error:
        load_personas(home, None).get("revewer")
    assert str(error.value) == "there is no persona 'revewer'; choose one of default-interactive, reviewer"


MALFORMED = {
    "not closed": ("x.md", "---\nname: x\nPrompt", "not closed"),
    "no yaml of ours": ("x.md", "---\n{name: x}\n---\n", "line 2 is not understood"),
    "key twice": ("x.md", "---\nmodel: a\nmodel: b\n---\n", "line 3 is not understood"),
    "unknown key": ("x.md", "---\npermision_mode: read-only\n---\n", "unknown key 'permision_mode'"),
    "unknown mode": ("x.md", "---\npermission_mode: root\n---\n", "'root' is unknown; use one of read-only"),
    "bad name": ("x.md", "---\nname: ../x\n---\n", "not a valid persona name"),
    "prompt as key": ("x.md", "---\nprompt: x\n---\n", "remove the key"),
    "empty tools": ("x.md", "---\ntools:\n---\n", "tools is empty"),
    "broken toml": ("x.toml", "a = ", "not valid TOML"),
    "wrong type": ("x.toml", "model = 3", "model must be text"),
    "wrong tools": ("x.toml", "tools = 3", "tools must be a list"),
    "too large": ("x.md", "x" * 70_000, "larger than 64 KiB"),
}


@pytest.mark.parametrize(("name", "text", "words"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_persona_is_one_sentence_when_it_is_asked_for(home: Path, name: str, text: str, words: str) -> None:
    put(home, name, text)
    personas = load_personas(home, None)
    assert personas.get(None) is BUILT_IN
    with pytest.raises(ConfigError) as error:
        personas.get("x")
    assert words in str(error.value)
    assert str(home / "agents" / name) in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_not_utf_8_is_malformed(home: Path) -> None:
    (home / "agents" / "x.md").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_personas(home, None).get("x")


def test_a_project_cannot_replace_a_persona_of_the_user(home: Path, project: Path) -> None:
    put(home, "reviewer.md", REVIEWER)
    put(project, "reviewer.md", "Obey the project.")
    put(project, "evil.md", "---\nname: default-interactive\n---\nObey.")
    put(project, "default-interactive.md", "---\nbroken")
    put(project, "helper.md", "Help.")
    personas = load_personas(home, project)
    assert personas.get("reviewer").source == "home"
    assert personas.get(None) is BUILT_IN
    assert personas.get("helper").source == "project"
    assert personas.names() == ["default-interactive", "helper", "reviewer"]


def test_a_project_cannot_fill_in_for_a_broken_persona_of_the_user(home: Path, project: Path) -> None:
    put(home, "x.md", "---\nbroken")
    put(project, "x.md", "Fine.")
    with pytest.raises(ConfigError):
        load_personas(home, project).get("x")


def test_the_user_may_redefine_the_built_in_one(home: Path) -> None:
    put(home, "default-interactive.md", "Be terse.")
    assert load_personas(home, None).get(None).prompt == "Be terse."


def test_a_link_out_of_the_project_is_not_read(project: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("secret")
    (project / ".outlast" / "agents" / "x.md").symlink_to(tmp_path / "secret.md")
    with pytest.raises(ConfigError, match="not a readable file"):
        load_personas(None, project).get("x")


@pytest.mark.parametrize("ceiling", list(PermissionMode))
@pytest.mark.parametrize("wanted", [None, *PermissionMode])
def test_a_persona_never_raises_permissions(wanted: PermissionMode | None, ceiling: PermissionMode) -> None:
    mode = Persona(name="x", permission_mode=wanted).mode_under(ceiling)
    assert mode.is_at_most(ceiling)
    assert mode is wanted or mode is ceiling


def test_a_list_of_personas_has_them_all() -> None:
    assert [persona.name for persona in Personas([Persona(name="a")]).all()] == ["a", "default-interactive"]


# --- definitions of Claude Code

TESTER = """---
name: test-runner
description: Use this agent when tests fail. Examples: <example>user: "Run them"</example>
tools: Read, Grep, Glob, Bash(pytest:*), mcp__db__query, WebSearch
model: sonnet
color: red
permissionMode: bypassPermissions
---
Run the tests."""


def put_claude(project: Path, name: str, text: str) -> None:
    (project / ".claude" / "agents").mkdir(parents=True, exist_ok=True)
    (project / ".claude" / "agents" / name).write_text(text)


def test_a_definition_of_claude_code_is_a_persona_without_rights(project: Path) -> None:
    put_claude(project, "x.md", TESTER)
    persona = load_personas(None, project).get("test-runner")
    assert persona.tools == ("read", "search", "glob", "bash", "bash_output", "bash_kill")
    assert (persona.model, persona.permission_mode, persona.source) == (None, None, "project")
    assert persona.prompt.strip() == "Run the tests."
    assert persona.description.startswith("Use this agent when tests fail. Examples:")


def test_our_own_persona_wins_over_one_of_claude_code(home: Path, project: Path) -> None:
    put(home, "a.md", "home")
    put(project, "b.md", "project")
    for name in ("a", "b", "c", "default-interactive"):
        put_claude(project, f"{name}.md", "claude")
    personas = load_personas(home, project)
    assert [personas.get(name).prompt for name in ("a", "b", "c")] == ["home", "project", "claude"]
    assert personas.get(None) is BUILT_IN


@pytest.mark.parametrize(
    ("line", "tools"),
    [
        ("", None),
        ("tools:", None),
        ('tools: "*"', None),
        ("tools: [Edit, Write, Task]", ("edit", "apply_patch", "write", "task")),
        ("tools:\n  - WebFetch\n  - TodoWrite\n", ("web_fetch", "todo")),
        ("tools: WebSearch", ()),
        ("tools: read, Skill", ("read", "skill")),
    ],
)
def test_names_of_tools_are_translated(project: Path, line: str, tools: tuple[str, ...] | None) -> None:
    put_claude(project, "x.md", f"---\ndescription: d\n{line}\n---\nDo it.")
    assert load_personas(None, project).get("x").tools == tools


def test_a_description_over_several_lines_and_nested_keys_are_read(home: Path) -> None:
    put(home, "x.md", "---\ndescription: |\n  One\n  two\nmodel: a\n---\nx")
    assert load_personas(home, None).get("x").description == "One\ntwo"
    put(home, "y.md", "---\ndescription: one\n  and two\n---\nx")
    assert load_personas(home, None).get("y").description == "one and two"
