"""apply_patch: several files by one patch, all of them or none."""

import os
from pathlib import Path
from typing import Any

import pytest

from outlast.core.codec import decode, encode
from outlast.core.events import ToolCallStarted
from outlast.runtime.tools.builtin import apply_patch
from outlast.runtime.tools.builtin.apply_patch import patch_preview, prefers_patch
from outlast.runtime.tools.files.atomic_write import ABSENT
from outlast.runtime.tools.files.patch import PatchSection, applied, parsed_patch
from outlast.runtime.tools.files.write_targets import digest_now, partial_outcome, recorded_targets, target_facts
from outlast.runtime.tools.port import Target, ToolFault
from outlast.runtime.tools.registry import BuiltinRegistry
from tests.unit.runtime.tools.setting import Setting

APP = 'import sys\n\n\ndef greet():\n    print("Hi")\n\n\ndef leave():\n    print("Bye")\n'
WHOLE = """*** Begin Patch
*** Add File: docs/new.md
+# New
+
+words
*** Update File: src/app.py
*** Move to: src/main.py
@@ def greet():
-    print("Hi")
+    print("Hello")
*** Update File: a.txt
@@
 one
-two
+2
 three
*** Delete File: old.txt
*** End Patch
"""


@pytest.fixture
def tree(setting: Setting) -> Setting:
    (setting.project / "src").mkdir()
    (setting.project / "src/app.py").write_text(APP)
    (setting.project / "src/app.py").chmod(0o755)
    (setting.project / "a.txt").write_text("one\ntwo\nthree\n")
    (setting.project / "old.txt").write_text("old\n")
    return setting


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


AFTER = {
    "a.txt": "one\n2\nthree\n",
    "docs/new.md": "# New\n\nwords\n",
    "src/main.py": APP.replace("Hi", "Hello"),
}


async def test_patch_changes_adds_moves_and_deletes(tree: Setting) -> None:
    outcome = await tree.run("apply_patch", patch=WHOLE)
    assert contents(tree.project) == AFTER
    assert outcome.text == (
        "Applied the patch: added docs/new.md; moved src/app.py to src/main.py; changed a.txt; deleted old.txt."
    )
    assert set(outcome.facts["paths"]) == {"docs/new.md", "src/main.py", "a.txt", "src/app.py", "old.txt"}
    assert (outcome.facts["added"], outcome.facts["removed"]) == (13, 11)
    assert (tree.project / "src/main.py").stat().st_mode & 0o777 == 0o755


def hunked(text: str, *lines: str) -> str:
    [section] = parsed_patch("\n".join(["*** Begin Patch", "*** Update File: f", *lines, "*** End Patch"]))
    return applied(text, section).text


@pytest.mark.parametrize(
    ("before", "lines", "after"),
    [
        ("a\nb\nc\n", ["@@", " a", "-b", "+x", "+y", " c"], "a\nx\ny\nc\n"),
        ("a\nb\nc\n", [" a", "-b", "+x"], "a\nx\nc\n"),  # the first @@ may be missing
        ("a\nb\n", ["@@", "-a", "-b"], ""),
        ("a\n\nb\n", ["@@", " a", "", "-b", "+c"], "a\n\nc\n"),  # an empty line is a context line
        ("a\nb\n", ["@@", "+c"], "a\nb\nc\n"),
        ("", ["@@", "+c"], "c\n"),
        ("a\nb", ["@@", "-b", "+c"], "a\nc"),
        ("x\na\nx\na\n", ["@@", "-a", "+b", "*** End of File"], "x\na\nx\nb\n"),
        (
            "class A:\n  def f():\n    return 1\nclass B:\n  def f():\n    return 1\n",
            ["@@ class B:", "@@   def f():", "-    return 1", "+    return 2"],
            "class A:\n  def f():\n    return 1\nclass B:\n  def f():\n    return 2\n",
        ),
        ("def f(a):\n  x\n  x\n", ["@@ def f", "-  x", "+  y"], "def f(a):\n  y\n  x\n"),
        ("def f():\n  x\n", ["@@ def f():", "+  first"], "def f():\n  first\n  x\n"),
        ("a\nb\nc\nd\n", ["@@", "-a", "+1", "@@", "-c", "+3"], "1\nb\n3\nd\n"),
        ("a\nb\n", ["@@ -1,2 +1,2 @@", " a", "-b", "+c"], "a\nc\n"),
        ("a\r\nb\r\nc\r\n", ["@@", " a", "-b", "+x"], "a\r\nx\r\nc\r\n"),
        ("a  \nb\n", ["@@", " a", "-b", "+x"], "a  \nx\n"),  # what is kept stays as it is
        ("  def f():\n    return 1\n", ["@@", " def f():", "-  return 1", "+  return 2"], "  def f():\n    return 2\n"),
        ("a\nb\n", ["@@", "-a", "+x", ""], "x\nb\n"),  # a blank line before the end of the patch
        ("+a\n-b\n", ["@@", " +a", "--b", "++c"], "+a\n+c\n"),
    ],
)
def test_hunks(before: str, lines: list[str], after: str) -> None:
    assert hunked(before, *lines) == after


def test_lenient_hunk_is_told(tree: Setting) -> None:
    sections = parsed_patch("*** Begin Patch\n*** Update File: f\n@@\n-b\n+c\n*** End Patch")
    assert applied("a\nb  \n", sections[0]).notes == [
        "f: hunk 1 matched at line 2 only because trailing spaces were ignored"
    ]


@pytest.mark.parametrize(
    ("before", "lines", "said"),
    [
        ("a\nb\na\nb\n", ["@@", "-a", "+x"], "hunk 1 matches 2 places (lines 1, 3)"),
        ("a\n b\na\n  b\n", ["@@", "-b", "+x"], "2 places differ only in white space"),
        ("a\n", ["@@", "-z", "+x"], "hunk 1 does not match: 'z' is not in the file"),
        ("a\nb\n", ["@@", "-a", "-c", "+x"], "its first line is line 1, but then it differs"),
        ("a\nb\n", ["@@", "-b", "+y", "@@", "-a", "+x"], "hunk 2 does not match after line 2"),
        ("a\n", ["@@ class Z:", "-a", "+x"], "has the line '@@ class Z:', which is not in the file"),
        ("a\nb\n", ["@@", "-a", "+x", "*** End of File"], "hunk 1 does not match"),
    ],
)
async def test_hunk_that_does_not_fit_one_place_is_refused(
    setting: Setting, before: str, lines: list[str], said: str
) -> None:
    (setting.project / "f").write_text(before)
    patch = "\n".join(["*** Begin Patch", "*** Update File: f", *lines, "*** End Patch"])
    assert said in await setting.fault("apply_patch", patch=patch)
    assert (setting.project / "f").read_text() == before


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ("", "a patch begins with the line '*** Begin Patch'"),
        ("*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+1", "ends with the line '*** End Patch'"),
        ("*** Begin Patch\n*** End Patch", "the patch names no file"),
        ("*** Begin Patch\nhello\n*** End Patch", "line 2 of the patch: a line outside a section"),
        ("*** Begin Patch\n*** Add File: n\nhello\n*** End Patch", "line 3 of the patch: every line of a new file"),
        ("*** Begin Patch\n*** Add File:\n+x\n*** End Patch", "line 2 of the patch: the header names no file"),
        ("*** Begin Patch\n*** Update File: a.txt\n*** End Patch", "the section of a.txt changes nothing"),
        ("*** Begin Patch\n*** Update File: a.txt\n@@\n*** End Patch", "a hunk of a.txt has no lines"),
        ("*** Begin Patch\n*** Update File: a.txt\n@@\none\n*** End Patch", "every line of a hunk begins with"),
        ("*** Begin Patch\n*** Delete File: a.txt\n-one\n*** End Patch", "nothing follows a Delete File header"),
        ("*** Begin Patch\n*** Add File: n\n*** Move to: m\n*** End Patch", "'*** Move to: PATH' belongs right after"),
        ("*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch", "a.txt exists already; change it with Update File"),
        (
            "*** Begin Patch\n*** Update File: none\n@@\n-a\n+b\n*** End Patch",
            "none does not exist; look for it with glob, or create it with Add File",
        ),
        ("*** Begin Patch\n*** Delete File: none\n*** End Patch", "none does not exist"),
        ("*** Begin Patch\n*** Update File: a.txt\n*** Move to: old.txt\n*** End Patch", "old.txt exists already"),
        ("*** Begin Patch\n*** Add File: ../out\n+x\n*** End Patch", "../out is outside the project"),
        ("*** Begin Patch\n*** Update File: a.txt\n@@\n one\n*** End Patch", "the patch changes nothing"),
        ("*** Begin Patch\n*** Delete File: link\n*** End Patch", "link is a link"),
        ("*** Begin Patch\n*** Add File: n\n+\udc80\n*** End Patch", "half of a character"),
    ],
)
async def test_patch_that_cannot_be_applied_is_refused_and_changes_nothing(
    tree: Setting, patch: str, said: str
) -> None:
    (tree.project / "link").symlink_to("a.txt")
    before = contents(tree.project)
    assert said in await tree.fault("apply_patch", patch=patch)
    assert contents(tree.project) == before


async def test_sections_see_what_those_before_them_did(tree: Setting) -> None:
    patch = (
        "*** Begin Patch\n*** Delete File: old.txt\n*** Add File: old.txt\n+new\n*** Update File: a.txt\n@@\n-one\n+1\n"
        "*** Update File: a.txt\n*** Move to: b.txt\n@@\n-two\n+2\n*** End Patch"
    )
    await tree.run("apply_patch", patch=patch)
    assert contents(tree.project) == {"b.txt": "1\n2\nthree\n", "old.txt": "new\n", "src/app.py": APP}


async def test_failure_in_the_middle_puts_everything_back(tree: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(tree.project)
    real = apply_patch.remove
    calls: list[str] = []

    def failing(place: Any, *rest: Any) -> None:
        calls.append(place.asked)
        if place.asked == "old.txt":
            raise ToolFault("the disk is full")
        real(place, *rest)

    monkeypatch.setattr(apply_patch, "remove", failing)
    said = await tree.fault("apply_patch", patch=WHOLE)
    assert said == "the patch failed, and no file was changed: the disk is full"
    assert calls[:2] == ["src/app.py", "old.txt"]
    assert contents(tree.project) == before


async def test_file_that_cannot_be_put_back_is_named(tree: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(place: Any, *_: Any) -> None:
        (tree.project / "a.txt").write_text("somebody else's\n")
        raise ToolFault("the disk is full")

    monkeypatch.setattr(apply_patch, "remove", failing)
    said = await tree.fault("apply_patch", patch=WHOLE)
    assert "a.txt" in said.partition("stayed changed")[0]
    assert (tree.project / "a.txt").read_text() == "somebody else's\n"


async def target_of(setting: Setting, patch: str = WHOLE) -> Target:
    target = await setting.tool("apply_patch").target({"patch": patch}, setting.context())
    assert target is not None
    return target


def started(target: Target) -> ToolCallStarted:
    """The event as it comes back from a store."""
    event = ToolCallStarted(
        call_id="c",
        name="apply_patch",
        target_digest_before=target.digest_before,
        target_digest_after=target.digest_after,
        facts=target_facts(target),
    )
    encoded = encode(event)
    again = decode(encoded.kind, encoded.v, encoded.body, encoded.blobs.__getitem__)
    assert isinstance(again, ToolCallStarted)
    return again


async def test_target_names_every_file_before_and_after(tree: Setting) -> None:
    target = await target_of(tree)
    event, context = started(target), tree.context()
    assert recorded_targets(event) == list(target.files)
    assert {file.path: file.before for file in target.files}["old.txt"] == b"old\n"
    assert {file.path: file.digest_before for file in target.files}["src/main.py"] == ABSENT
    assert digest_now(event, context) == target.digest_before
    await tree.run("apply_patch", tree.context(expected=target.digest_before), patch=WHOLE)
    assert digest_now(event, context) == target.digest_after


async def test_target_that_changed_meanwhile_is_left_alone(tree: Setting) -> None:
    target = await target_of(tree)
    (tree.project / "a.txt").write_text("zero\none\ntwo\nthree\n")
    before = contents(tree.project)
    context = tree.context(expected=target.digest_before)
    assert "changed meanwhile, and nothing was done" in await tree.fault("apply_patch", context, patch=WHOLE)
    assert contents(tree.project) == before


async def test_patch_that_was_carried_out_in_part_is_told_file_by_file(tree: Setting) -> None:
    target = await target_of(tree)
    event = started(target)
    (tree.project / "a.txt").write_text("one\n2\nthree\n")
    (tree.project / "old.txt").write_text("another\n")
    assert digest_now(event, tree.context()) not in (target.digest_before, target.digest_after)
    said = partial_outcome(event, tree.context())
    assert said is not None
    assert "Changed as asked: a.txt" in said
    assert "Not changed: docs/new.md, src/main.py, src/app.py" in said
    assert "Neither as before nor as asked: old.txt" in said


async def test_read_only_file_is_neither_changed_nor_deleted(tree: Setting) -> None:
    (tree.project / "old.txt").chmod(0o444)
    said = await tree.fault("apply_patch", patch=WHOLE)
    assert said.startswith("the patch failed, and no file was changed: old.txt is read-only; make it writable first")
    assert (tree.project / "src/app.py").stat().st_mode & 0o777 == 0o755


async def test_preview_is_the_diff_and_changes_nothing(tree: Setting) -> None:
    before = contents(tree.project)
    diff = await patch_preview({"patch": WHOLE}, tree.context())
    assert "-two\n+2" in diff
    assert "--- a/old.txt" in diff
    assert contents(tree.project) == before


@pytest.mark.parametrize(
    ("model", "knows"),
    [
        ("openai:gpt-5", True),
        ("openai:gpt-5.2-codex", True),
        ("gpt-5-mini", True),
        ("openrouter:openai/gpt-4.1", True),
        ("codex-mini-latest", True),
        ("openai:gpt-4o", False),
        ("anthropic:claude-sonnet-4-5", False),
        ("local:qwen", False),
        (None, False),
    ],
)
def test_tool_is_offered_to_models_that_know_it(model: str | None, knows: bool) -> None:
    assert prefers_patch(model) is knows
    registry = BuiltinRegistry()
    assert ("apply_patch" in registry.for_model(model).names()) is knows
    assert "apply_patch" in registry.for_model(model, True).names()
    assert "apply_patch" not in registry.for_model(model, False).names()
    assert registry.for_model(model).jobs is registry.jobs


def test_sections_are_parsed_with_their_paths() -> None:
    sections = parsed_patch(WHOLE)
    assert [(one.kind, one.path, one.move_to) for one in sections] == [
        ("Add File", "docs/new.md", None),
        ("Update File", "src/app.py", "src/main.py"),
        ("Update File", "a.txt", None),
        ("Delete File", "old.txt", None),
    ]
    assert sections[3] == PatchSection(kind="Delete File", path="old.txt")


async def test_deleting_what_has_another_name_leaves_the_other(tree: Setting) -> None:
    os.link(tree.project / "old.txt", tree.base / "other")
    await tree.run("apply_patch", patch="*** Begin Patch\n*** Delete File: old.txt\n*** End Patch")
    assert (tree.base / "other").read_text() == "old\n"
