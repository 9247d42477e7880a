"""glob and search: what is found, what is left out, and that nothing takes for ever."""

import asyncio
import contextlib
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from outlast.runtime.tools.builtin import glob, search
from outlast.runtime.tools.files.gitignore import IgnoreFile, is_ignored
from outlast.runtime.tools.files.glob_pattern import anywhere, matcher
from tests.conftest import needs
from tests.unit.runtime.tools.setting import PATH, Setting

FILES = {
    "a.py": "import os\nvalue = 1\n",
    "src/b.py": "value = 2\n",
    "src/deep/c.py": "nothing\n",
    "src/deep/c.ts": "value\n",
    "docs/read me.md": "value of things\n",
    ".hidden/h.py": "value = 3\n",
    ".git/config": "value\n",
    ".outlast/log.py": "value\n",
    "node_modules/x/i.py": "value\n",
    "build/out.py": "value\n",
    "keep.log": "value\n",
    "other.log": "value\n",
    ".gitignore": "build/\n*.log\n!keep.log\n",
}


@pytest.fixture
def tree(setting: Setting) -> Setting:
    for n, (name, text) in enumerate(FILES.items()):
        path = setting.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (n, n))
    (setting.project / "binary").write_bytes(b"value\0\0")
    (setting.project / "link.py").symlink_to(setting.secret)
    (setting.project / "linked").symlink_to(setting.base)
    return setting


@pytest.fixture(params=["scan", "ripgrep"])
def searching(request: pytest.FixtureRequest, tree: Setting, monkeypatch: pytest.MonkeyPatch) -> Setting:
    if request.param == "ripgrep":
        needs("rg")
    monkeypatch.setattr(search, "ripgrep", lambda _: shutil.which("rg") if request.param == "ripgrep" else None)  # pyright: ignore
    return tree


# --- glob


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("**/*.py", {"a.py", "src/b.py", "src/deep/c.py", ".hidden/h.py", "link.py"}),
        ("*.py", {"a.py", "link.py"}),
        ("./src/*.py", {"src/b.py"}),
        ("src/**", {"src/b.py", "src/deep/c.py", "src/deep/c.ts"}),
        ("src/**/c.{py,ts}", {"src/deep/c.py", "src/deep/c.ts"}),
        ("**/[ab].py", {"a.py", "src/b.py"}),
        ("docs/read*", {"docs/read me.md"}),
        ("*.log", {"keep.log"}),
    ],
)
async def test_glob_finds_what_the_pattern_means(tree: Setting, pattern: str, found: set[str]) -> None:
    assert set((await tree.run("glob", pattern=pattern)).text.splitlines()) == found


async def test_glob_shows_the_newest_first(tree: Setting) -> None:
    assert (await tree.run("glob", pattern="src/**/*.py")).text.splitlines() == ["src/deep/c.py", "src/b.py"]


async def test_glob_in_a_folder_shows_paths_that_can_be_read(tree: Setting) -> None:
    outcome = await tree.run("glob", pattern="*.py", path="src")
    assert outcome.text == "src/b.py"
    assert "value" in (await tree.run("read", file_path=outcome.text)).text


async def test_ignored_folder_is_shown_when_it_is_named(tree: Setting) -> None:
    assert (await tree.run("glob", pattern="**/*.py", path="node_modules")).text == "node_modules/x/i.py"


async def test_glob_of_nothing_says_so(tree: Setting) -> None:
    assert (await tree.run("glob", pattern="*.rs")).text == "No file matches *.rs."


@pytest.mark.parametrize("pattern", ["../*", "/etc/*", "a/../../*"])
async def test_pattern_that_leads_outside_is_refused(tree: Setting, pattern: str) -> None:
    assert "relative" in await tree.fault("glob", pattern=pattern)


async def test_folder_outside_is_refused(tree: Setting) -> None:
    assert "outside" in await tree.fault("glob", pattern="*", path="..")
    assert "outside" in await tree.fault("search", pattern="x", path="linked")


async def test_glob_shows_only_so_many(tree: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glob, "SHOWN", 2)
    outcome = await tree.run("glob", pattern="**/*.py")
    assert outcome.text.endswith("[... 3 more; narrow the pattern]")
    monkeypatch.setattr(glob, "LOOKED_AT", 3)
    assert "not all folders" in (await tree.run("glob", pattern="**/*")).text


async def test_malformed_pattern_is_refused(tree: Setting) -> None:
    assert "no valid pattern" in await tree.fault("glob", pattern="[z-a]")
    assert "no valid pattern" in await tree.fault("search", pattern="x", glob="[z-a]")


# --- search


async def test_search_finds_lines_with_their_place(searching: Setting) -> None:
    outcome = await searching.run("search", pattern=r"^value = \d$")
    assert set(outcome.text.splitlines()) == {"a.py:2:value = 1", "src/b.py:1:value = 2", ".hidden/h.py:1:value = 3"}
    assert outcome.facts["matches"] == 3


async def test_search_leaves_out_ignored_binary_and_our_own_files(searching: Setting) -> None:
    outcome = await searching.run("search", pattern="value")
    files = {line.split(":")[0] for line in outcome.text.splitlines()}
    assert files == {"a.py", "src/b.py", "src/deep/c.ts", "docs/read me.md", ".hidden/h.py", "keep.log"}


async def test_search_follows_no_link_outside(searching: Setting) -> None:
    assert (await searching.run("search", pattern="secret")).text == "Nothing matches secret."


async def test_search_of_some_files_only(searching: Setting) -> None:
    assert (await searching.run("search", pattern="value", glob="*.ts")).text == "src/deep/c.ts:1:value"
    assert (await searching.run("search", pattern="value", path="src/b.py")).text == "src/b.py:1:value = 2"
    assert (await searching.run("search", pattern="value", path="docs")).text == "docs/read me.md:1:value of things"


async def test_malformed_expression_is_refused(searching: Setting) -> None:
    assert "(unclosed" in await searching.fault("search", pattern="(unclosed")


async def test_missing_path_is_told(searching: Setting) -> None:
    assert "does not exist" in await searching.fault("search", pattern="x", path="none")


async def test_many_matches_are_bounded_and_said_to_be(searching: Setting) -> None:
    for n in range(20):
        (searching.project / f"many{n}.txt").write_text("value\n" * 1000)
    outcome = await searching.run("search", pattern="value")
    assert len(outcome.text.splitlines()) == search.MOST + 1
    assert outcome.text.endswith("[... 19706 more matching lines; raise limit, or narrow pattern, path, glob or type]")
    assert outcome.facts["matches"] == 20_006


async def test_limit_says_how_many_files_there_are_more(searching: Setting) -> None:
    for output in ("files", "count"):
        outcome = await searching.run("search", pattern="value", output=output, limit=2)
        assert outcome.text.splitlines()[0].startswith(".hidden/h.py")
        assert "[... 4 more files; raise limit" in outcome.text


async def test_output_files_shows_each_path_once_and_count_shows_matching_lines(searching: Setting) -> None:
    (searching.project / "a.py").write_text("value value\nvalue\nx\n")
    files = await searching.run("search", pattern="value", glob="*.py", output="files")
    assert files.text == ".hidden/h.py\na.py\nsrc/b.py"
    count = await searching.run("search", pattern="value", glob="*.py", output="count")
    assert count.text == ".hidden/h.py:1\na.py:2\nsrc/b.py:1\n4 matching lines in 3 files"


async def test_context_lines_are_shown_as_grep_does(searching: Setting) -> None:
    (searching.project / "many.txt").write_text("".join(f"line {n}\n" for n in range(1, 31)))
    outcome = await searching.run("search", pattern="line (3|5|20)$|things", before=1, after=1)
    assert outcome.text.splitlines() == [
        "docs/read me.md:1:value of things",
        "--",
        "many.txt-2-line 2",
        "many.txt:3:line 3",
        "many.txt-4-line 4",
        "many.txt:5:line 5",
        "many.txt-6-line 6",
        "--",
        "many.txt-19-line 19",
        "many.txt:20:line 20",
        "many.txt-21-line 21",
    ]


async def test_case_is_ignored_when_asked(searching: Setting) -> None:
    assert (await searching.run("search", pattern="VALUE OF")).text == "Nothing matches VALUE OF."
    assert "docs/read me.md:1:" in (await searching.run("search", pattern="VALUE OF", ignore_case=True)).text


async def test_type_means_a_language(searching: Setting) -> None:
    files = {"ts": "src/deep/c.ts", "md": "docs/read me.md", "markdown": "docs/read me.md", "log": "keep.log"}
    for language, path in files.items():
        assert (await searching.run("search", pattern="value", type=language, output="files")).text == path
    both = await searching.run("search", pattern="value", type="py", glob="src/**", output="files")
    assert both.text == "src/b.py"


async def test_unknown_type_is_refused_with_the_known_ones(searching: Setting) -> None:
    said = await searching.fault("search", pattern="x", type="brainfuck")
    assert said.startswith("there is no type 'brainfuck'; there are asm, bat, c, ")
    assert "use glob" in said


async def test_glob_can_exclude_and_never_shows_ignored_files(searching: Setting) -> None:
    files = (await searching.run("search", pattern="value", glob="!*.py", output="files")).text.splitlines()
    assert files == ["docs/read me.md", "keep.log", "src/deep/c.ts"]
    ignored = await searching.run("search", pattern="value", glob="build/**", output="files")
    assert ignored.text == "Nothing matches value."


async def test_expression_that_only_python_knows_is_searched_for(searching: Setting) -> None:
    outcome = await searching.run("search", pattern=r"value(?! = [13])", type="py")
    assert outcome.text == "src/b.py:1:value = 2"
    assert outcome.facts["by"] == "scan"


async def test_named_file_is_searched_though_it_is_ignored_large_or_of_another_type(searching: Setting) -> None:
    (searching.project / "other.log").write_text("x\n" * 5_000_000 + "value here\n")
    outcome = await searching.run("search", pattern="value", path="other.log", type="py")
    assert outcome.text == "other.log:5000001:value here"
    assert "is not text" in await searching.fault("search", pattern="value", path="binary")


async def test_windows_line_ends_and_byte_order_marks_do_not_hide_matches(searching: Setting) -> None:
    (searching.project / "w.txt").write_bytes(b"\xef\xbb\xbfalpha one\r\nalpha two\r\n")
    (searching.project / "x.txt").write_bytes("alpha three\n".encode("utf-16"))
    outcome = await searching.run("search", pattern="^alpha .*[eo]$", before=1)
    assert outcome.text.splitlines() == ["w.txt:1:alpha one", "w.txt:2:alpha two", "--", "x.txt:1:alpha three"]


async def test_long_result_is_cut_and_can_be_read_whole(searching: Setting) -> None:
    (searching.project / "wide.txt").write_text(f"needle {'x' * 280}\n" * 200)
    outcome = await searching.run("search", pattern="needle")
    assert "characters left out; read output:call1 shows them]" in outcome.text
    assert outcome.whole is not None
    assert outcome.whole.decode().count("needle") == 200


WORDS = ["alpha", "Beta", "gamma 12", "delta(x)", "", "  epsilon", "été", "zeta\t"]
ASKED: list[dict[str, Any]] = [
    {"pattern": "a"},
    {"pattern": "ALPHA|beta", "ignore_case": True, "before": 1, "after": 2},
    {"pattern": r"^\s*e", "output": "files"},
    {"pattern": "t", "output": "count", "glob": "*.{py,js}"},
    {"pattern": r"\d+$", "type": "py", "after": 1},
    {"pattern": "gamma", "glob": "d1/**", "limit": 3},
    {"pattern": r"\(x\)", "glob": "!*.txt", "limit": 2, "output": "files"},
    {"pattern": "été", "before": 50},
    {"pattern": "alpha", "path": "d0", "limit": 1, "before": 3, "after": 3},
]


@pytest.mark.parametrize("seed", range(4))
async def test_scan_and_ripgrep_say_the_same_of_generated_trees(
    setting: Setting, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    needs("rg")
    dice = random.Random(seed)
    for _ in range(60):
        folder = setting.project / "/".join(f"d{dice.randrange(3)}" for _ in range(dice.randrange(1, 4)))
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{dice.choice('aBc.')}{dice.randrange(9)}.{dice.choice(['py', 'js', 'txt', 'md'])}"
        end = dice.choice(["\n", "\r\n"])
        text = end.join(dice.choice(WORDS) * dice.choice([1, 1, 1, 90]) for _ in range(dice.randrange(40)))
        (folder / name).write_text(text + dice.choice(["", end]), newline="")
    (setting.project / ".gitignore").write_text("*.md\n/d2/d0\n")
    for asked in ASKED:
        monkeypatch.setattr(search, "ripgrep", lambda _: shutil.which("rg"))  # pyright: ignore
        by_ripgrep = await setting.run("search", **asked)
        monkeypatch.setattr(search, "ripgrep", lambda _: None)  # pyright: ignore
        by_scan = await setting.run("search", **asked)
        assert by_ripgrep.text == by_scan.text, asked
        assert {**by_ripgrep.facts, "by": ""} == {**by_scan.facts, "by": ""}, asked


async def test_long_line_is_cut_around_its_match(searching: Setting) -> None:
    (searching.project / "long.txt").write_text("x" * 5000 + "needle" + "y" * 5000)
    outcome = await searching.run("search", pattern="needle")
    assert len(outcome.text) < 500
    assert outcome.facts["matches"] == 1


async def test_pathological_expression_does_not_hang(tree: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "ripgrep", lambda _: None)  # pyright: ignore
    monkeypatch.setattr(search, "SECONDS", 1)
    (tree.project / "zz.txt").write_text("a" * 60 + "b\n")
    began = time.monotonic()
    outcome = await tree.run("search", pattern="^(a+)+$|value = 1")
    assert time.monotonic() - began < 6
    assert "time was up" in outcome.text
    assert "a.py:2:value = 1" in outcome.text  # what was found before is not lost


async def test_cancelled_search_leaves_no_process(tree: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "ripgrep", lambda _: None)  # pyright: ignore
    (tree.project / "zz.txt").write_text("a" * 60 + "b\n")
    before = _children()
    running = asyncio.create_task(tree.run("search", pattern="^(a+)+$"))
    while not (children := _children() - before):
        await asyncio.sleep(0.01)
    began = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert time.monotonic() - began < 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in children)


def _children() -> set[str]:
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that has ended since it was listed
            found.update((task / "children").read_text().split())
    return found


def test_ripgrep_of_the_project_itself_is_not_used(setting: Setting) -> None:
    program = setting.project / "rg"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    environment = {"PATH": f"{setting.project}:{PATH}"}
    assert search.ripgrep(setting.context(environment=environment)) in (None, shutil.which("rg", path=PATH))


# --- patterns


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("**", "a/b", True),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/*/b", "a/x/y/b", False),
        ("*", "a/b", False),
        ("?.c", "a.c", True),
        ("[!a].c", "a.c", False),
        ("a[/]b", "a/b", False),
        ("*.{a,b*}", "x.bc", True),
        ("a.b", "aXb", False),
        ("\\*", "*", True),
        ("a\n*", "a\nb", True),
    ],
)
def test_wildcards(pattern: str, path: str, fits: bool) -> None:
    assert (matcher(pattern).match(path) is not None) is fits


def test_pattern_of_one_name_may_match_anywhere() -> None:
    assert anywhere("*.py").match("a/b/c.py")
    assert not anywhere("a/*.py").match("b/a/c.py")


@pytest.mark.parametrize(
    ("text", "path", "is_folder", "ignored"),
    [
        ("*.log", "a/b.log", False, True),
        ("/build", "build", True, True),
        ("/build", "a/build", True, False),
        ("build/", "build", False, False),
        ("*.log\n!keep.log", "keep.log", False, False),
        ("# comment\n\n  ", "x", False, False),
        ("a/b", "a/b", False, True),
        ("a/b", "c/a/b", False, False),
        ("doc/**/x", "doc/1/2/x", False, True),
        ("[", "[", False, False),  # git and ripgrep take an open bracket for a mistake, too
        ("[z-a]\nx", "x", False, True),
        ("a\\ ", "a ", False, True),
        ("a ", "a", False, True),
        ("x\r\ny\r\n", "x", False, True),
    ],
)
def test_ignore_rules(text: str, path: str, is_folder: bool, ignored: bool) -> None:
    assert is_ignored(path, is_folder, [IgnoreFile(text, "")]) is ignored


def test_rules_hold_below_their_own_folder_only() -> None:
    known = [IgnoreFile("*.txt", "sub/")]
    assert is_ignored("sub/a.txt", False, known)
    assert not is_ignored("a.txt", False, known)


IGNORING = {
    ".gitignore": "space\\ \n[a-c]x\n[!0-9]1\n*.tmp\n!keep.tmp\n/top\nout/*\n!out/stay/\n\\#hash\n\\!bang\n"
    "**/deep/gone\nhalf/\nopen[\n*.o\\\n",
    "sub/.gitignore": "!*.tmp\n/top\nonly-here\n*.md\n!read.md\n",
    "repo/.gitignore": "mine\n",
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/info/exclude": "excluded\n*.md\n",
    "repo/.git/HEAD": "ref: refs/heads/main\n",
}
JUDGED = [
    "space ", "space", "ax", "dx", "a1", "11", "x.tmp", "keep.tmp", "top", "sub/top", "sub/x.tmp", "sub/only-here",
    "only-here", "out/a", "out/stay/a", "out/leave/a", "#hash", "!bang", "p/deep/gone", "p/deep/q/gone", "half",
    "sub/half/a", "open[", "x.o", "excluded", "sub/excluded", "read.md", "sub/read.md", "sub/other.md", "repo/x.tmp",
    "repo/mine", "p/mine",
]  # fmt: skip
SEEN = {
    "space", "dx", "11", "keep.tmp", "sub/x.tmp", "only-here", "out/stay/a", "p/deep/q/gone", "half", "open[", "x.o",
    "sub/read.md", "repo/x.tmp", "p/mine",
}  # fmt: skip


@pytest.fixture
def ignoring(searching: Setting) -> Setting:
    for name in ("a.py", "src", "docs", ".hidden", "build", "keep.log", "node_modules", ".git"):
        path = searching.project / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name in [*IGNORING, *JUDGED]:
        path = searching.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(IGNORING.get(name, "judged\n"))
    return searching


async def files_with(setting: Setting, **asked: Any) -> set[str]:
    text = (await setting.run("search", pattern="^judged$", **asked)).text
    return {line.rpartition(":1:")[0] for line in text.splitlines() if line.endswith(":1:judged")}


async def test_scan_and_ripgrep_ignore_the_same_files(ignoring: Setting) -> None:
    assert await files_with(ignoring) == SEEN
    assert await files_with(ignoring, path="sub") == {"sub/x.tmp", "sub/read.md"}
    assert await files_with(ignoring, path="out/leave") == {"out/leave/a"}  # named, so shown
    assert await files_with(ignoring, path="sub/half") == {"sub/half/a"}
    assert await files_with(ignoring, glob="*.{tmp,md}") == {"keep.tmp", "sub/x.tmp", "sub/read.md", "repo/x.tmp"}


async def test_a_file_that_only_ripgrep_knows_ignores_nothing(searching: Setting) -> None:
    (searching.project / ".ignore").write_text("*.py\n")
    outcome = await searching.run("search", pattern=r"^value")
    files = {line.split(":")[0] for line in outcome.text.splitlines()}
    assert files == {"a.py", "src/b.py", "src/deep/c.ts", "docs/read me.md", ".hidden/h.py", "keep.log"}


def test_pathspec_is_not_loaded_in_our_own_process() -> None:
    code = (
        "import sys; from outlast.runtime.tools.builtin import glob, search;"
        "from outlast.runtime.tools.process.helper_process import scanner; scanner()"
    )
    subprocess.run([sys.executable, "-c", f"{code}; assert 'pathspec' not in sys.modules"], check=True)


async def test_a_name_that_is_no_utf_8_does_not_end_the_turn(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(os.fsdecode(os.fsencode(setting.project) + b"/bad\xff.txt")).write_text("needle\n")
    assert "bad?.txt" in (await setting.run("read", file_path=".")).text
    assert "bad?.txt" in (await setting.run("glob", pattern="**/*.txt")).text
    monkeypatch.setattr(search, "ripgrep", lambda _: None)  # pyright: ignore
    assert (await setting.run("search", pattern="needle")).facts["matches"] == 1
    for output in ("files", "count"):
        assert "bad?.txt" in (await setting.run("search", pattern="needle", output=output)).text


async def test_half_a_character_in_a_pattern_is_refused_in_one_sentence(setting: Setting) -> None:
    half = "\ud800"
    assert "half of a character" in await setting.fault("glob", pattern=f"{half}*")
    assert "half of a character" in await setting.fault("search", pattern=half)
    assert "half of a character" in await setting.fault("search", pattern="a", glob=half)


def _without_ripgrep(_: object) -> None:
    """Stand in for `ripgrep` where it is not installed."""


@pytest.mark.parametrize("by_ripgrep", [True, False])
@pytest.mark.parametrize("output", ["lines", "files", "count"])
async def test_search_tells_nothing_of_files_that_may_hold_secrets(
    setting: Setting, monkeypatch: pytest.MonkeyPatch, by_ripgrep: bool, output: str
) -> None:
    """Not even how many lines match: that would tell whether a guess at a secret is right."""
    if by_ripgrep:
        needs("rg")
    else:
        monkeypatch.setattr(search, "ripgrep", _without_ripgrep)
    for name in (".env", "keys/server.pem", "a.txt"):
        path = setting.project / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("PASSWORD=abcdefgh\n")
    found = await setting.run("search", pattern="PASSWORD=abc", output=output, limit=1)
    assert "a.txt" in found.text
    assert ".env" not in found.text
    assert "pem" not in found.text
    assert found.facts["files"] == 1
    (setting.project / "a.txt").unlink()
    right = await setting.run("search", pattern="PASSWORD=abc", output=output)
    wrong = await setting.run("search", pattern="PASSWORD=xyz", output=output)
    assert right.text.replace("abc", "xyz") == wrong.text
    assert "abcdefgh" in (await setting.run("search", pattern="PASSWORD", path=".env")).text, "the call names it"
