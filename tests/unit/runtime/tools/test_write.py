"""write: atomic, verifiable, and never over something that changed."""

import asyncio
import hashlib
import os
from pathlib import Path

import pytest

from outlast.runtime.tools.files import atomic_write
from outlast.runtime.tools.files.atomic_write import ABSENT
from outlast.runtime.tools.port import ToolFault
from tests.unit.runtime.tools.setting import Setting


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def test_target_of_a_new_file_is_absent_before(setting: Setting) -> None:
    target = await setting.tool("write").target({"file_path": "a/b.txt", "content": "x"}, setting.context())
    assert target is not None
    assert (target.path, target.digest_before, target.digest_after) == ("a/b.txt", ABSENT, sha("x"))
    assert target.before is None
    assert not (setting.project / "a").exists()


async def test_target_of_an_old_file_holds_what_was_there(setting: Setting) -> None:
    (setting.project / "f").write_text("old")
    target = await setting.tool("write").target({"file_path": "f", "content": "new"}, setting.context())
    assert target is not None
    assert (target.digest_before, target.digest_after, target.before) == (sha("old"), sha("new"), b"old")
    assert (setting.project / "f").read_text() == "old"


async def test_target_larger_than_a_pre_image_has_only_its_digest(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic_write, "LARGEST", 2)
    (setting.project / "f").write_text("old")
    target = await setting.tool("write").target({"file_path": "f", "content": "x"}, setting.context())
    assert target is not None
    assert (target.digest_before, target.before) == (sha("old"), None)
    outcome = await setting.run("write", file_path="f", content="x")
    assert outcome.facts == {"path": "f", "created": False, "bytes": 1}


async def test_write_creates_a_file_and_its_folders(setting: Setting) -> None:
    outcome = await setting.run("write", file_path="a/b/c.txt", content="one\ntwo\n")
    assert (setting.project / "a/b/c.txt").read_text() == "one\ntwo\n"
    assert outcome.text == "Created a/b/c.txt (8 bytes)."
    assert (outcome.facts["created"], outcome.facts["added"], outcome.facts["removed"]) == (True, 2, 0)


async def test_write_tells_what_changed(setting: Setting) -> None:
    (setting.project / "f").write_text("one\ntwo\nthree\n")
    outcome = await setting.run("write", file_path="f", content="one\n2\nthree\n")
    assert (outcome.facts["added"], outcome.facts["removed"]) == (1, 1)
    assert "-two\n+2\n" in outcome.facts["diff"]


async def test_write_keeps_the_mode_and_gives_a_new_inode(setting: Setting) -> None:
    path = setting.project / "run.sh"
    path.write_text("old")
    path.chmod(0o750)
    before = path.stat()
    await setting.run("write", file_path="run.sh", content="new")
    assert path.stat().st_mode == before.st_mode
    assert path.stat().st_ino != before.st_ino


async def test_write_leaves_no_temporary_file(setting: Setting) -> None:
    await setting.run("write", file_path="f", content="x")
    assert os.listdir(setting.project) == ["f"]


async def test_read_only_file_is_not_written(setting: Setting) -> None:
    (setting.project / "f").write_text("old")
    (setting.project / "f").chmod(0o444)
    assert "read-only" in await setting.fault("write", file_path="f", content="x")


async def test_file_that_changed_since_it_was_recorded_is_left_alone(setting: Setting) -> None:
    (setting.project / "f").write_text("old")
    target = await setting.tool("write").target({"file_path": "f", "content": "new"}, setting.context())
    assert target is not None
    (setting.project / "f").write_text("by somebody else")
    context = setting.context(expected=target.digest_before)
    assert "changed meanwhile" in await setting.fault("write", context, file_path="f", content="new")
    assert (setting.project / "f").read_text() == "by somebody else"
    assert os.listdir(setting.project) == ["f"]


async def test_file_that_appeared_since_it_was_recorded_is_left_alone(setting: Setting) -> None:
    (setting.project / "f").write_text("appeared")
    context = setting.context(expected=ABSENT)
    assert "changed meanwhile" in await setting.fault("write", context, file_path="f", content="new")


async def test_file_that_changes_during_the_write_is_left_alone(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = setting.project / "f"
    path.write_text("old")
    real = os.fsync

    def meddle(descriptor: int) -> None:
        real(descriptor)
        path.write_text("meddled")

    monkeypatch.setattr(os, "fsync", meddle)
    assert "changed meanwhile" in await setting.fault("write", file_path="f", content="new")
    assert path.read_text() == "meddled"


async def test_full_disk_leaves_the_old_file_and_nothing_else(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    (setting.project / "f").write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left" in await setting.fault("write", file_path="f", content="new")
    assert os.listdir(setting.project) == ["f"]
    assert (setting.project / "f").read_text() == "old"


async def test_everything_is_synced_before_the_end(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file before the rename, the folder after it."""
    seen: list[str] = []
    fsync, rename = os.fsync, os.rename

    def synced(descriptor: int) -> None:
        seen.append("folder" if Path(f"/proc/self/fd/{descriptor}").is_dir() else "file")
        fsync(descriptor)

    def renamed(*args: str, **kwargs: int) -> None:
        seen.append("rename")
        rename(*args, **kwargs)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", renamed)
    await setting.run("write", file_path="f", content="x")
    assert seen == ["file", "rename", "folder"]


async def test_cancelled_write_does_not_happen_later(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    (setting.project / "f").write_text("old")
    loop = asyncio.get_running_loop()
    reached, real = asyncio.Event(), os.fsync
    import threading

    go_on = threading.Event()

    def slow(descriptor: int) -> None:
        loop.call_soon_threadsafe(reached.set)
        go_on.wait(10)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    running = asyncio.create_task(setting.run("write", file_path="f", content="new"))
    await reached.wait()
    running.cancel()
    loop.call_later(0.05, go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (setting.project / "f").read_text() == "old"
    assert os.listdir(setting.project) == ["f"]


async def test_half_a_character_is_refused(setting: Setting) -> None:
    with pytest.raises(ToolFault, match="half of a character"):
        await setting.tool("write").run({"file_path": "f", "content": "\ud83d"}, setting.context())


async def test_any_other_text_is_written_exactly(setting: Setting) -> None:
    text = "\ufeffa\r\nb\rc\u2028\N{PILE OF POO}\x00\x1b[31m"
    await setting.run("write", file_path="f", content=text)
    assert (setting.project / "f").read_bytes() == text.encode()
