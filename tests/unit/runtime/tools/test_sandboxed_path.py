"""File tools stay inside: names, links, races, and things that are no files."""

import os
import random
import socket
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.tools.files.sandboxed_path import locate, opened
from outlast.runtime.tools.port import ToolFault
from tests.unit.runtime.tools.setting import Setting

PIECES = (
    "..", ".", "", "a", "b", "in", "out", "loop", "file", "up", "abs", "new", "proj", "proj-evil", "secret.txt", "...",
    "\\..", "..\\..", "%2e%2e", "\u2025", "a/..", "etc", "passwd", "~", " ", "..;", ".. ",
    "\N{FULLWIDTH FULL STOP}" * 2,
)  # fmt: skip


TOP = "root"  # what the kernel calls the top of the file system


@pytest.fixture
def maze(setting: Setting) -> Setting:
    """A project full of links: inside, outside, in circles."""
    project, base = setting.project, setting.base
    (project / "a" / "b").mkdir(parents=True)
    (project / "file").write_text("inside\n")
    (project / "a" / "file").write_text("inside\n")
    (base / "proj-evil" / "file").write_text("outside\n")
    (project / "in").symlink_to("a")
    (project / "out").symlink_to(base / "proj-evil")
    (project / "up").symlink_to("..")
    (project / "abs").symlink_to("/")
    (project / "loop").symlink_to("loop")
    (project / "a" / "out").symlink_to("../../secret.txt")
    return setting


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "a/../../secret.txt",
        "../proj-evil/file",
        "out/file",
        "in/../../secret.txt",
        "a/out",
        "up/secret.txt",
        "abs/etc/passwd",
        "/etc/passwd",
        "//etc/passwd",
        f"/proc/self/{TOP}/etc/passwd",
        "/proc/self/cwd/../../etc/passwd",
        "/dev/fd/0",
        "./././../secret.txt",
    ],
)
async def test_path_that_leads_outside_is_refused_for_reading_and_writing(maze: Setting, path: str) -> None:
    assert "outside the project" in await maze.fault("read", file_path=path)
    assert "outside the project" in await maze.fault("write", file_path=path, content="x")
    assert maze.secret.read_text() == "secret\n"


async def test_neighbour_with_the_same_prefix_is_outside(maze: Setting) -> None:
    assert "outside" in await maze.fault("read", file_path=str(maze.base / "proj-evil" / "file"))


@pytest.mark.parametrize("path", ["file", "a/file", "in/file", "./a/../file", "../proj/file", "up/proj/file"])
async def test_path_that_leads_inside_is_fine_whatever_its_way(maze: Setting, path: str) -> None:
    assert "inside" in (await maze.run("read", file_path=path)).text


async def test_absolute_path_inside_is_fine(maze: Setting) -> None:
    assert "inside" in (await maze.run("read", file_path=str(maze.project / "file"))).text


@pytest.mark.parametrize("mode", [PermissionMode.DANGER_FULL_ACCESS, PermissionMode.ALLOW])
async def test_full_access_goes_everywhere(maze: Setting, mode: PermissionMode) -> None:
    context = maze.context(mode=mode)
    assert "secret" in (await maze.run("read", context, file_path="../secret.txt")).text
    await maze.run("write", context, file_path="../new.txt", content="x")
    assert (maze.base / "new.txt").read_text() == "x"


async def test_added_folder_is_a_root_too(maze: Setting) -> None:
    context = maze.context(roots=(maze.project, maze.base / "proj-evil"))
    assert "outside" in (await maze.run("read", context, file_path="out/file")).text
    assert "is outside" in await maze.fault("read", context, file_path="../secret.txt")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("a\0b", "control character"),
        ("a\nb", "control character"),
        ("\x7f", "control character"),
        ("\udc80", "broken"),
        ("   ", "empty"),
        ("~/x", "not expanded"),
        ("x" * 300, "too long"),
        ("d/" * 3000 + "x", "too long"),
        ("loop", "circle"),
        ("loop/x", "not a folder"),
        ("file/x", "not a folder"),
        ("nothing", "does not exist"),
        ("no/thing", "does not exist"),
    ],
)
async def test_path_that_is_none_is_refused_with_its_reason(maze: Setting, path: str, said: str) -> None:
    assert said in await maze.fault("read", file_path=path)


async def test_folder_is_not_written_or_edited_as_a_file(maze: Setting) -> None:
    for path in (".", "a"):
        assert "is a folder" in await maze.fault("write", file_path=path, content="x")
        assert "is a folder" in await maze.fault("edit", file_path=path, old_string="x", new_string="y")


async def test_what_is_no_file_is_left_alone(setting: Setting) -> None:
    os.mkfifo(setting.project / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(setting.project / "sock"))
        for name in ("pipe", "sock"):
            assert "device, pipe or socket" in await setting.fault("read", file_path=name)
            assert "device, pipe or socket" in await setting.fault("write", file_path=name, content="x")


async def test_device_is_not_read_even_with_full_access(setting: Setting) -> None:
    context = setting.context(mode=PermissionMode.ALLOW)
    for path in ("/dev/zero", "/dev/tty", "/dev/null"):
        assert "device" in await setting.fault("read", context, file_path=path)


async def test_file_with_another_hard_link_is_not_written(setting: Setting) -> None:
    os.link(setting.secret, setting.project / "linked")
    assert "hard links" in await setting.fault("write", file_path="linked", content="x")
    assert "hard links" in await setting.fault("edit", file_path="linked", old_string="secret", new_string="x")
    assert setting.secret.read_text() == "secret\n"


def generated(count: int, seed: int) -> Iterator[str]:
    dice = random.Random(seed)
    for _ in range(count):
        start = dice.choice(("", "", "", "/", "//", "./"))
        yield start + "/".join(dice.choices(PIECES, k=dice.randint(1, 7)))


def is_inside(descriptor: int, project: Path) -> bool:
    return Path(os.readlink(f"/proc/self/fd/{descriptor}")).is_relative_to(project.resolve())


@pytest.mark.parametrize("count", [10_000, pytest.param(50_000, marks=pytest.mark.soak)])
def test_no_generated_path_opens_anything_outside(maze: Setting, count: int) -> None:
    context, opened_ones = maze.context(), 0
    for path in generated(count, seed=3):
        try:
            with opened(locate(path, context)) as descriptor:
                assert is_inside(descriptor, maze.project), path
                opened_ones += 1
        except ToolFault:
            continue
    assert opened_ones > count / 250  # or nothing was tried


SWAPPER = """
import ctypes, os, sys
exchange = ctypes.CDLL(None).renameat2
pairs = [(os.fsencode(a), os.fsencode(b)) for a, b in zip(sys.argv[1::2], sys.argv[2::2])]
print("swapping", flush=True)
while True:
    for one, other in pairs:
        exchange(-100, one, -100, other, 2)
"""


@contextmanager
def swapping(*swaps: tuple[Path, Path]) -> Generator[None]:
    """Another process exchanges each pair of names, atomically and as fast as it goes, until the end."""
    names = [str(path) for pair in swaps for path in pair]
    with subprocess.Popen([sys.executable, "-c", SWAPPER, *names], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


@pytest.mark.soak
async def test_swapped_links_during_10000_writes_let_none_escape(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    await writes_beside_a_swapper(setting, monkeypatch, 5_000)


async def test_swapped_links_during_2000_writes_let_none_escape(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    await writes_beside_a_swapper(setting, monkeypatch, 1_000)


async def writes_beside_a_swapper(setting: Setting, monkeypatch: pytest.MonkeyPatch, rounds: int) -> None:
    monkeypatch.setattr(os, "fsync", int)  # the race is what matters here, and it wants many tries
    project, outside = setting.project, setting.base / "proj-evil"
    (project / "d").mkdir()
    (project / "link").symlink_to(outside)
    (project / "f").write_text("inside")
    (project / "flink").symlink_to(setting.secret)
    written = 0
    with swapping((project / "d", project / "link"), (project / "f", project / "flink")):
        for n in range(rounds):
            for path in ("d/x", "f"):
                try:
                    await setting.run("write", file_path=path, content=f"{n}")
                    written += 1
                except ToolFault:
                    continue
    assert list(outside.iterdir()) == []
    assert setting.secret.read_text() == "secret\n"
    assert written > 100  # or nothing was tried
    assert not [name for name in os.listdir(project) if name.endswith(".tmp")]


async def test_swapped_links_during_reads_show_nothing_outside(setting: Setting) -> None:
    project = setting.project
    (project / "d").mkdir()
    (project / "d" / "x").write_text("inside")
    (setting.base / "proj-evil" / "x").write_text("outside")
    (project / "link").symlink_to(setting.base / "proj-evil")
    with swapping((project / "d", project / "link")):
        for _ in range(2_000):
            try:
                assert "inside" in (await setting.run("read", file_path="d/x")).text
            except ToolFault:
                continue
