"""edit: exact pieces, everything else untouched."""

import pytest

from outlast.runtime.tools.files.atomic_write import digest_of
from tests.unit.runtime.tools.setting import Setting


async def test_edit_replaces_the_only_occurrence(setting: Setting) -> None:
    (setting.project / "f").write_text("a = 1\nb = 2\n")
    outcome = await setting.run("edit", file_path="f", old_string="b = 2", new_string="b = 3")
    assert (setting.project / "f").read_text() == "a = 1\nb = 3\n"
    assert outcome.text == "Changed one place in f."
    assert (outcome.facts["added"], outcome.facts["removed"], outcome.facts["replaced"]) == (1, 1, 1)


async def test_target_is_what_the_edit_then_does(setting: Setting) -> None:
    (setting.project / "f").write_text("a = 1\n")
    arguments = {"file_path": "f", "old_string": "1", "new_string": "2"}
    target = await setting.tool("edit").target(arguments, setting.context())
    assert target is not None
    assert (target.before, target.digest_before) == (b"a = 1\n", digest_of(b"a = 1\n"))
    await setting.run("edit", setting.context(expected=target.digest_before), **arguments)
    assert digest_of((setting.project / "f").read_bytes()) == target.digest_after


async def test_several_occurrences_need_replace_all(setting: Setting) -> None:
    (setting.project / "f").write_text("x\ny\nx\n")
    fault = await setting.fault("edit", file_path="f", old_string="x", new_string="z")
    assert "is 2 times in f (lines 1, 3)" in fault
    outcome = await setting.run("edit", file_path="f", old_string="x", new_string="z", replace_all=True)
    assert outcome.text == "Changed 2 places in f."
    assert (setting.project / "f").read_text() == "z\ny\nz\n"


@pytest.mark.parametrize(
    ("old", "said"),
    [
        ("missing", "is not in f; read the file"),
        ("if a:\n  b", "only with other white space"),
        ("if a:\n        c", "its first line is (line 1)"),
    ],
)
async def test_text_that_is_not_there_is_refused_with_what_comes_near(setting: Setting, old: str, said: str) -> None:
    (setting.project / "f").write_text("if a:\n        b\n")
    assert said in await setting.fault("edit", file_path="f", old_string=old, new_string="x")


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\n", "a\nb", "a\nx\nb", b"a\r\nx\r\nb\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "c\nd", b"c\r\nd\r\n"),
        (b"a\r\nb\nc\n", "b\nc", "b\nx", b"a\r\nb\nx\n"),
        (b"a\r\nb\nc\n", "a\nb", "x\ny", b"x\r\ny\nc\n"),
        (b"a\nb\n", "b", "c\nd", b"a\nc\nd\n"),
        (b"a\nb", "b", "c", b"a\nc"),
        (b"\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbfb\n"),
        (b"caf\xe9\nx\n", "x", "y", b"caf\xe9\ny\n"),
    ],
)
async def test_newlines_and_other_bytes_stay_as_they_were(
    setting: Setting, before: bytes, old: str, new: str, after: bytes
) -> None:
    (setting.project / "f").write_bytes(before)
    await setting.run("edit", file_path="f", old_string=old, new_string=new)
    assert (setting.project / "f").read_bytes() == after


async def test_edit_keeps_the_mode(setting: Setting) -> None:
    (setting.project / "f").write_text("a")
    (setting.project / "f").chmod(0o711)
    await setting.run("edit", file_path="f", old_string="a", new_string="b")
    assert (setting.project / "f").stat().st_mode & 0o777 == 0o711


async def test_edit_of_what_cannot_be_edited_is_refused(setting: Setting) -> None:
    (setting.project / "bin").write_bytes(b"\0\1a")
    (setting.project / "f").write_text("a")
    assert "does not exist" in await setting.fault("edit", file_path="none", old_string="a", new_string="b")
    assert "is not text" in await setting.fault("edit", file_path="bin", old_string="a", new_string="b")
    assert "the same" in await setting.fault("edit", file_path="f", old_string="a", new_string="a")
    assert "half of a character" in await setting.fault("edit", file_path="f", old_string="a", new_string="\udc80")


# --- lenient matches


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        ("a  \nb\t\nc\n", "a\nb\n", "x\ny\n", "x\ny\nc\n"),
        ("a\nb\n", "a  \nb  ", "x\ny", "x\ny\n"),
        ("a  \nb\nc", "a\nb\n", "", "c"),
        ("a \nb", "a\nb", "x\n", "x\n"),
        ("a  \r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n"),
        (
            "class A:\n    def f(self):\n        return 1\n",
            "def f(self):\n    return 1\n",
            "def f(self):\n    if x:\n\n        return 2\n",
            "class A:\n    def f(self):\n        if x:\n\n            return 2\n",
        ),
        (
            "def f():\n    return 1\n",
            "        def f():\n            return 1",
            "        def f():\n            return 2",
            "def f():\n    return 2\n",
        ),
        ("\tif a:\n\t\tb()\n", "if a:\n\tb()", "if a:\n\tc()", "\tif a:\n\t\tc()\n"),
        ("  x = 1\n  y = 2", "    x = 1 \n    y = 2 ", "    x = 3\n    y = 4", "  x = 3\n  y = 4"),
    ],
)
async def test_text_that_differs_in_white_space_alone_is_found(
    setting: Setting, before: str, old: str, new: str, after: str
) -> None:
    (setting.project / "f").write_text(before, newline="")
    outcome = await setting.run("edit", file_path="f", old_string=old, new_string=new)
    assert (setting.project / "f").read_bytes().decode() == after
    assert outcome.facts["lenient"] is True


async def test_lenient_match_is_said_to_be_and_shows_the_changed_lines(setting: Setting) -> None:
    (setting.project / "f").write_text("# top\nclass A:\n    def f(self):\n        return 1\n")
    outcome = await setting.run(
        "edit", file_path="f", old_string="def f(self):\n    return 1\n", new_string="def f(self):\n    return 2\n"
    )
    assert outcome.text == (
        "Changed one place in f; old_string matched at line 3 only because trailing spaces and indentation were "
        "ignored. The lines are now:\n     3\t    def f(self):\n     4\t        return 2"
    )


@pytest.mark.parametrize(
    ("before", "old", "new", "said"),
    [
        ("a \nb\n\na \nb\n", "a\nb", "x", "2 places differ only in white space (lines 1, 4)"),
        ("  a\n  b\n    a\n    b\n", "a\nb", "x\ny", "2 places differ only in white space (lines 1, 3)"),
        ("    a\n    b\n", "  a\n  b", "  a\nc", "only with other white space"),  # less indented: its place is unknown
        ("if a:\n        b\n", "if a:\n  b", "x", "only with other white space"),
        ("x = 1 \n", "  \n", "y", "is not in f; read the file"),
        ("a \nb\n", "a\nb\n", "x", "only with other white space"),  # would be joined with the line after it
    ],
)
async def test_lenient_match_never_guesses(setting: Setting, before: str, old: str, new: str, said: str) -> None:
    (setting.project / "f").write_text(before)
    assert said in await setting.fault("edit", file_path="f", old_string=old, new_string=new)
    assert (setting.project / "f").read_text() == before


async def test_exact_text_is_taken_before_a_lenient_match(setting: Setting) -> None:
    (setting.project / "f").write_text("a \nb\n\n    a\n    b\n\na\nb\n")
    outcome = await setting.run("edit", file_path="f", old_string="\na\nb\n", new_string="\nx\n")
    assert (setting.project / "f").read_text() == "a \nb\n\n    a\n    b\n\nx\n"
    assert outcome.text == "Changed one place in f."


async def test_lenient_target_is_what_the_edit_then_does(setting: Setting) -> None:
    (setting.project / "f").write_text("    a = 1  \n    b = 2\n")
    arguments = {"file_path": "f", "old_string": "a = 1\nb = 2", "new_string": "a = 3\nb = 4"}
    target = await setting.tool("edit").target(arguments, setting.context())
    assert target is not None
    await setting.run("edit", setting.context(expected=target.digest_before), **arguments)
    assert digest_of((setting.project / "f").read_bytes()) == target.digest_after
