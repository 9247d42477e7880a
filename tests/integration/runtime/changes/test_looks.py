"""A look finds what changed since the last one, and keeps what undo needs, in every kind of project."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from outlast.runtime.changes.change_set import ABSENT, LARGE, Cause, groups_in, kept_bytes, recorded_changes
from outlast.runtime.changes.kept_copies import KeptCopies
from outlast.runtime.changes.session_changes import WorkspaceChanges
from tests.unit.runtime.changes.projects import git, kinds, repository, watched


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def test_tracked_clean_files_are_not_copied_and_come_back_from_git(tmp_path: Path, state: Path) -> None:
    project = repository(tmp_path / "project", a_dot_txt="one", deep__b_dot_txt="two")
    changes = watched(project, state)
    changes.before("c", 1)
    assert changes.copies.size == 0
    (project / "a.txt").unlink()
    [file] = changes.after().files
    assert (file.path, file.kind) == ("a.txt", "deleted")
    assert changes.pre_image(file) == b"one"


def test_changed_and_untracked_files_are_copied(tmp_path: Path, state: Path) -> None:
    project = repository(tmp_path / "project", a_dot_txt="one")
    (project / "a.txt").write_text("dirty")
    (project / "new.txt").write_text("untracked")
    changes = watched(project, state)
    changes.before("c", 1)
    for name in ("a.txt", "new.txt"):
        (project / name).unlink()
    files = changes.after().files
    assert {file.path: changes.pre_image(file) for file in files} == {"a.txt": b"dirty", "new.txt": b"untracked"}
    facts = recorded_changes(changes.calls.unrecorded, changes.pre_image)
    [group] = groups_in(facts)
    assert {file.path: kept_bytes(facts, file) for file in group.files} == {"a.txt": b"dirty", "new.txt": b"untracked"}


def test_ignored_files_are_not_looked_at_except_those_that_git_tracks(tmp_path: Path, state: Path) -> None:
    project = repository(tmp_path / "project", _dot_gitignore="*.log\nbuild/\n", kept_dot_log="1", build__kept="1")
    (project / "some.log").write_text("1")
    (project / "build/output").write_text("1")
    changes = watched(project, state)
    changes.before("c", 1)
    for name in ("kept.log", "some.log", "build/kept", "build/output"):
        (project / name).write_text("2")
    assert kinds(changes) == {"kept.log": "modified", "build/kept": "modified"}


def test_the_exclude_file_and_the_rules_above_the_root_count(tmp_path: Path, state: Path) -> None:
    top = repository(tmp_path / "top", _dot_gitignore="*.log\n", project__a="1")
    (top / ".git/info").mkdir(exist_ok=True)
    (top / ".git/info/exclude").write_text("*.tmp\n")
    changes = watched(top / "project", state)
    changes.before("c", 1)
    for name in ("x.log", "x.tmp", "x.txt", "a"):
        (top / "project" / name).write_text("2")
    assert kinds(changes) == {"x.txt": "created", "a": "modified"}


def test_a_changed_ignore_file_neither_creates_nor_deletes_files(tmp_path: Path, state: Path) -> None:
    project = repository(tmp_path / "project", _dot_gitignore="*.log\n", a="1")
    (project / "old.log").write_text("1")
    (project / "was.txt").write_text("1")
    old = 1_600_000_000
    changes = watched(project, state)
    changes.before("c", 1)
    os.utime(project / "a", (old, old))
    changes.after()
    _pause()
    changes.before("c", 1)
    _pause()
    (project / ".gitignore").write_text("*.txt\n")
    (project / "new.log").write_text("1")
    assert kinds(changes) == {".gitignore": "modified", "new.log": "created"}
    changes.before("d", 2)
    (project / "was.txt").unlink()
    (project / "old.log").write_text("2")
    assert kinds(changes) == {"was.txt": "deleted", "old.log": "modified"}


def _pause() -> None:
    """Wait until the file system's clock has moved on, as between two commands of a person."""
    subprocess.run(["sleep", "0.05"], check=True)


def test_a_folder_without_git_is_looked_at_up_to_its_limit(tmp_path: Path, state: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for number in range(20):
        (project / f"f{number}").write_text("1")
    changes = WorkspaceChanges(state, project, (project,), files_limit=10)
    changes.before("c", 1)
    for number in range(20):
        (project / f"f{number}").write_text("2")
    group = changes.after()
    assert len(group.files) == 10
    assert any("too many files" in notice for notice in changes.notices(group))
    assert not any("too many files" in notice for notice in changes.notices(group))


def test_bytes_that_git_would_convert_are_copied(tmp_path: Path, state: Path) -> None:
    project = repository(tmp_path / "project", _dot_gitattributes="*.txt text eol=crlf\n*.id ident\n")
    (project / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    (project / "b.id").write_text("$Id$\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "two")
    (project / "b.id").unlink()
    git(project, "checkout", "b.id")
    expanded = (project / "b.id").read_bytes()
    assert expanded != b"$Id$\n"
    changes = watched(project, state)
    changes.before("c", 1)
    (project / "a.txt").write_text("x")
    (project / "b.id").write_text("x")
    files = {file.path: file for file in changes.after().files}
    assert changes.pre_image(files["a.txt"]) == b"one\r\ntwo\r\n"
    assert changes.pre_image(files["b.id"]) == expanded


def test_no_filter_or_monitor_of_a_repository_runs(tmp_path: Path, state: Path) -> None:
    project = repository(tmp_path / "project", _dot_gitattributes="* filter=evil\n", a_dot_txt="one")
    mark = tmp_path / "mark"
    program = tmp_path / "evil.sh"
    program.write_text(f"#!/bin/sh\ntouch '{mark}'\ncat\n")
    program.chmod(0o755)
    for key in ("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "core.fsmonitor", "core.pager"):
        git(project, "config", key, str(program))
    changes = watched(project, state)
    changes.before("c", 1)
    (project / "a.txt").write_text("two")
    [file] = changes.after().files
    assert changes.pre_image(file) == b"one"
    assert changes.is_committed(file) is False
    assert not mark.exists()
    git(project, "status")
    assert mark.exists(), "git itself would have run it"


def test_submodules_and_worktrees_are_looked_at(tmp_path: Path, state: Path) -> None:
    inner = repository(tmp_path / "inner", a_dot_txt="inner")
    project = repository(tmp_path / "project", b_dot_txt="outer")
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "sub")
    git(project, "commit", "-qam", "sub")
    git(project, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "tree")
    changes = watched(project, state)
    changes.before("c", 1)
    (project / "sub/a.txt").write_text("changed")
    [file] = changes.after().files
    assert (file.path, changes.pre_image(file)) == ("sub/a.txt", b"inner")
    tree = watched(tmp_path / "tree", tmp_path / "state2")
    tree.before("c", 1)
    assert tree.copies.size <= len("gitdir: ") + 200, "tracked files of a worktree have their pre-images in git"
    (tmp_path / "tree/b.txt").unlink()
    [file] = tree.after().files
    assert tree.pre_image(file) == b"outer"


def test_permissions_and_links_are_part_of_a_file(tmp_path: Path, state: Path) -> None:
    project = repository(tmp_path / "project", a_dot_txt="one")
    os.symlink("a.txt", project / "link")
    os.symlink("/", project / "outside")
    changes = watched(project, state)
    changes.before("c", 1)
    (project / "a.txt").chmod(0o700)
    (project / "link").unlink()
    os.symlink("b.txt", project / "link")
    files = {file.path: file for file in changes.after().files}
    assert files["a.txt"].after.mode == 0o700
    assert files["a.txt"].before.digest == files["a.txt"].after.digest
    assert (files["link"].before.link, files["link"].after.link) == ("a.txt", "b.txt")
    assert set(files) == {"a.txt", "link"}


def test_a_file_above_the_limit_is_named_and_not_copied(tmp_path: Path, state: Path) -> None:
    project = repository(tmp_path / "project")
    (project / "big").write_bytes(b"x" * 2000)
    changes = WorkspaceChanges(state, project, (project,), copies=KeptCopies(state / "copies", file_limit=1000))
    changes.before("c", 1)
    (project / "big").unlink()
    (project / "big2").write_bytes(b"y" * 2000)
    group = changes.after()
    files = {file.path: file for file in group.files}
    assert files["big"].before.digest.startswith(LARGE)
    assert changes.pre_image(files["big"]) is None
    assert len(files["big2"].after.digest) == 64, "a created file can be removed again, so its digest is known"
    assert any("big is larger than" in notice for notice in changes.notices(group))


def test_a_session_keeps_copies_up_to_its_limit(tmp_path: Path) -> None:
    copies = KeptCopies(tmp_path, session_limit=10)
    assert copies.keep("a" * 64, b"12345678")
    assert not copies.keep("b" * 64, b"12345678")
    assert (copies.size, copies.refused) == (8, 1)
    again = KeptCopies(tmp_path, session_limit=10)
    assert not again.keep("b" * 64, b"12345678")


def test_what_changed_between_commands_is_the_users(tmp_path: Path, state: Path) -> None:
    project = repository(tmp_path / "project", a_dot_txt="one")
    changes = watched(project, state)
    changes.before("c", 1)
    changes.after()
    (project / "a.txt").write_text("mine")
    changes.before("d", 2)
    assert changes.after().files == ()
    assert changes.calls.unrecorded == []


def test_after_a_crash_the_changes_of_the_open_call_are_named_as_uncertain(tmp_path: Path, state: Path) -> None:
    project = repository(tmp_path / "project", a_dot_txt="one")
    watched(project, state).before("c", 7)
    (project / "a.txt").write_text("two")
    changes = watched(project, state)
    changes.look(9)
    [group] = changes.calls.unrecorded
    assert (group.cause, group.seq, group.names, [file.path for file in group.files]) == (
        Cause.LOST,
        7,
        ("c",),
        ["a.txt"],
    )
    assert group.problem is not None
    assert changes.pre_image(group.files[0]) == b"one"


def test_a_look_after_the_command_survives_a_crash_before_the_record(tmp_path: Path, state: Path) -> None:
    project = repository(tmp_path / "project", a_dot_txt="one")
    changes = watched(project, state)
    changes.before("c", 7)
    (project / "a.txt").write_text("two")
    changes.after()
    (project / "b.txt").write_text("mine, after the crash")
    again = watched(project, state)
    again.look(9)
    [group] = again.calls.unrecorded
    assert (group.cause, [file.path for file in group.files]) == (Cause.CALL, ["a.txt"])


def test_what_changed_while_a_job_ran_is_named_as_uncertain(tmp_path: Path, state: Path) -> None:
    project = repository(tmp_path / "project", a_dot_txt="one")
    changes = watched(project, state)
    changes.before("c", 1)
    changes.after()
    changes.job_started("job-1")
    (project / "a.txt").write_text("by the job, or by the user")
    changes.before("d", 5)
    [group] = changes.calls.unrecorded
    assert (group.cause, group.names) == (Cause.JOB, ("job-1",))
    changes.after()
    changes.recorded()
    changes.job_ended("job-1")
    (project / "a.txt").write_text("by the user")
    changes.before("e", 8)
    assert changes.calls.unrecorded == []


def test_two_changes_within_one_tick_of_the_clock_are_both_seen(tmp_path: Path, state: Path) -> None:
    project = repository(tmp_path / "project", a_dot_txt="0")
    changes = watched(project, state)
    for number in range(30):
        changes.before("c", number)
        (project / "a.txt").write_text(str(number % 10 + 1)[0])
        (project / f"n{number}").write_text("x")
        assert set(kinds(changes)) >= {f"n{number}"}
        changes.before("d", number)
        (project / "a.txt").write_text("0")
        assert kinds(changes) == {"a.txt": "modified"}


def test_a_folder_swapped_for_a_link_is_not_followed(tmp_path: Path, state: Path) -> None:
    secret = tmp_path / "outside"
    secret.mkdir()
    (secret / "x").write_text("secret")
    project = repository(tmp_path / "project", folder__x="1")
    changes = watched(project, state)
    changes.before("c", 1)
    (project / "folder").rename(project / "moved")
    os.symlink(secret, project / "folder")
    files = {file.path: file for file in changes.after().files}
    assert {path: file.kind for path, file in files.items()} == {
        "folder": "created",
        "folder/x": "deleted",
        "moved/x": "created",
    }
    assert b"secret" not in {path.read_bytes() for path in (state / "copies").rglob("*") if path.is_file()}


def test_names_that_are_no_utf8_pipes_and_sockets_do_no_harm(tmp_path: Path, state: Path) -> None:
    project = repository(tmp_path / "project", a_dot_txt="one")
    os.mkfifo(project / "pipe")
    changes = watched(project, state)
    changes.before("c", 1)
    with open(os.path.join(os.fsencode(project), b"b\xffd"), "wb") as file:
        file.write(b"x")
    (project / "a.txt").write_text("two")
    group = changes.after()
    assert [file.path for file in group.files] == ["a.txt"]
    assert any("not UTF-8" in notice for notice in changes.notices(group))


def test_several_roots_are_looked_at_and_nested_ones_once(tmp_path: Path, state: Path) -> None:
    project = repository(tmp_path / "project", a_dot_txt="one")
    other = tmp_path / "other"
    other.mkdir()
    changes = watched(project, state, other, project / "below")
    changes.before("c", 1)
    (project / "below").mkdir()
    (project / "below/x").write_text("1")
    (other / "y").write_text("1")
    group = changes.after()
    assert {file.path: file.before.digest for file in group.files} == {"below/x": ABSENT, str(other / "y"): ABSENT}
    assert group.folders == ("below",)


def test_ignored_file_that_programs_obey_is_looked_at(tmp_path: Path, state: Path) -> None:
    """A command can write the ignore file in the same breath."""
    project = repository(tmp_path / "project", _dot_gitignore=".vscode/\n")
    changes = watched(project, state)
    changes.before("c", 1)
    (project / ".git/info/exclude").write_text(".mcp.json\n.github\n.env\n")
    for name in (".mcp.json", ".github/workflows/ci.yml", ".github/readme", ".vscode/tasks.json", ".env"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("evil")
    found = kinds(changes)
    assert {path for path in found if path != ".github/readme"} == {
        ".mcp.json", ".github/workflows/ci.yml", ".vscode/tasks.json"
    }  # fmt: skip


def test_notice_says_once_that_ignored_files_are_not_kept(tmp_path: Path, state: Path) -> None:
    project = repository(tmp_path / "project", _dot_gitignore="*.log\n")
    (project / "some.log").write_text("1")
    changes = watched(project, state)
    told: list[str] = []
    for number in range(2):
        changes.before("c", number)
        (project / "a.txt").write_text(str(number))
        told += changes.notices(changes.after())
    assert told == ["files that git ignores are not kept, so undo does not restore them"]
