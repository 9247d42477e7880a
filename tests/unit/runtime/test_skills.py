"""Skills: listed by name and description, read inside their folder, left out with one sentence if malformed."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from outlast.core.messages import ToolCall
from outlast.runtime.permissions.decision import Policy, Verdict
from outlast.runtime.permissions.evaluate import decide
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.prompt.skills import SkillCatalog, load_skills
from outlast.runtime.tools.port import ToolFault
from tests.unit.runtime.tools.setting import Setting

RELEASE = "---\nname: release\ndescription: >\n  Makes a release\n  of the package.\nlicense: MIT\n---\nTag it.\n"


def put(folder: Path, text: str = RELEASE) -> Path:
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(text)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "p").mkdir()
    return tmp_path / "p"


def catalog(project: Path) -> SkillCatalog:
    return load_skills(project, project.parent / "home", project.parent / "user")


@pytest.mark.parametrize(
    "place",
    [
        "p/.outlast/skills",
        "p/.agents/skills",
        "p/.claude/skills",
        "home/skills",
        "user/.agents/skills",
        "user/.claude/skills",
    ],
)
def test_skills_are_found_in_every_place(project: Path, place: str) -> None:
    put(project.parent / place / "x")
    [skill] = catalog(project).skills
    assert (skill.name, skill.description) == ("release", "Makes a release of the package.")
    assert skill.text() == "Tag it.\n\n"


def test_the_users_skill_wins_over_the_projects(project: Path) -> None:
    put(project / ".claude" / "skills" / "x")
    put(project.parent / "home" / "skills" / "y", "---\nname: release\ndescription: mine\n---\n")
    [skill] = catalog(project).skills
    assert (skill.description, skill.source) == ("mine", "home")


MALFORMED = {
    "no description": ("---\nname: x\n---\nBody", "no description"),
    "not closed": ("---\nname: x\n", "not closed"),
    "bad name": ("---\nname: a/b\ndescription: d\n---\n", "not a valid skill name"),
    "not understood": ("---\n{a}\n---\n", "line 2 is not understood"),
    "list": ("---\ndescription: [a, b]\n---\n", "description must be text"),
    "too large": ("---\ndescription: d\n---\n" + "x" * 70_000, "larger than 64 KiB"),
}


@pytest.mark.parametrize(("text", "words"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_skill_is_left_out_with_one_sentence(project: Path, text: str, words: str) -> None:
    put(project / ".agents" / "skills" / "bad", text)
    put(project / ".agents" / "skills" / "good")
    found = catalog(project)
    assert [skill.name for skill in found.skills] == ["release"]
    [warning] = found.warnings
    assert words in warning
    assert "bad" in warning
    assert "\n" not in warning


def test_a_link_out_of_the_project_counts_as_absent(project: Path) -> None:
    outside = put(project.parent / "outside" / "x")
    (project / ".claude").mkdir()
    (project / ".claude" / "skills").symlink_to(outside.parent)
    (project / ".agents" / "skills").mkdir(parents=True)
    (project / ".agents" / "skills" / "x").symlink_to(outside)
    put(project / ".outlast" / "skills" / "y", "x")
    (project / ".outlast" / "skills" / "y" / "SKILL.md").unlink()
    (project / ".outlast" / "skills" / "y" / "SKILL.md").symlink_to(outside / "SKILL.md")
    assert catalog(project) == SkillCatalog()


def test_folders_without_a_skill_and_no_folders_are_nothing(project: Path) -> None:
    (project / ".claude" / "skills" / "empty").mkdir(parents=True)
    (project / ".claude" / "skills" / "SKILL.md").write_text("x")
    assert catalog(project) == SkillCatalog()


# --- the tool


@pytest.fixture
def used(project: Path) -> Callable[[str], Awaitable[str]]:
    """Call the tool with the skills of a user, and return its text."""
    folder = put(project.parent / "user" / ".claude" / "skills" / "release")
    (folder / "scripts").mkdir()
    (folder / "scripts" / "tag.sh").write_text("git tag")
    (folder / "notes.md").write_text("Notes.")
    (folder / "picture.png").write_bytes(b"\0\1")
    (folder / ".env").write_text("secret")
    (folder / "out.md").symlink_to(project.parent / "secret.md")
    (project.parent / "secret.md").write_text("secret")
    setting = Setting(project)
    context = setting.context(skills=catalog(project))

    async def run(name: str) -> str:
        return (await setting.run("skill", context, name=name)).text

    return run


async def test_the_tool_returns_the_text_and_the_names_of_the_files(used: Callable[[str], Awaitable[str]]) -> None:
    text = await used("release")
    assert text.startswith("Tag it.")
    assert "- notes.md" in text
    assert "- scripts/tag.sh" in text


async def test_the_tool_returns_a_file_of_the_skill(used: Callable[[str], Awaitable[str]]) -> None:
    assert await used("release/scripts/tag.sh") == "git tag"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("other", "there is no skill 'other'; there are: release"),
        ("release/missing.md", "no readable file"),
        ("release/../../../../p/x", "no readable file"),
        ("release//etc/hostname", "no readable file"),
        ("release/out.md", "no readable file"),
        ("release/.env", "no readable file"),
        ("release/scripts", "no readable file"),
        ("release/picture.png", "is not text"),
    ],
)
async def test_what_is_no_file_of_a_skill_is_refused_in_one_sentence(
    used: Callable[[str], Awaitable[str]], name: str, words: str
) -> None:
    with pytest.raises(ToolFault) as fault:
        await used(name)
    assert words in str(fault.value)


def test_a_skill_is_read_without_a_question_in_every_mode_but_prompt(tmp_path: Path) -> None:
    call = ToolCall(id="c", name="skill", arguments={"name": "x"})
    for mode in PermissionMode:
        policy = Policy(mode=mode, project=tmp_path, roots=(tmp_path,), prompting=True)
        wanted = Verdict.ASK if mode is PermissionMode.PROMPT else Verdict.ALLOW
        assert decide(call, policy).verdict is wanted


def test_a_pipe_as_a_skill_does_not_hang(project: Path) -> None:
    folder = put(project / ".claude" / "skills" / "x")
    (folder / "SKILL.md").unlink()
    os.mkfifo(folder / "SKILL.md")
    assert catalog(project).skills == ()


def test_a_skill_that_became_a_link_out_of_the_project_is_not_followed(project: Path) -> None:
    folder = put(project / ".agents" / "skills" / "release")
    skill = catalog(project).get("release")
    assert skill is not None
    folder.rename(project.parent / "away")
    (project.parent / "away" / "notes").write_text("private")
    folder.symlink_to(project.parent / "away")
    assert (skill.text(), skill.file("notes", 100), skill.files()) == (None, None, [])
