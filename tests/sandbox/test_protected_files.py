"""Protected files are put back after a command, and a hostile command cannot turn the restore against other files."""

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast.runtime.sandbox import protected_files
from outlast.runtime.sandbox.git_layout import find_git_directories
from outlast.runtime.sandbox.protected_files import protected_snapshot

Change = Callable[[Path], object]


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, timeout=60)


def listing(folder: Path) -> dict[str, tuple[int, str]]:
    """Return every path below a folder with its mode and its content or target."""
    found: dict[str, tuple[int, str]] = {}
    for path in sorted(folder.rglob("*")):
        content = os.readlink(path) if path.is_symlink() else path.read_text("latin-1") if path.is_file() else ""
        found[str(path.relative_to(folder))] = (path.lstat().st_mode, content)
    return found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "-q", ".")
    hooks = root / ".git" / "hooks"
    shutil.rmtree(hooks, ignore_errors=True)
    hooks.mkdir()
    (hooks / "pre-commit").write_text("#!/bin/sh\nexit 0\n")
    (hooks / "pre-commit").chmod(0o755)
    (root / ".outlast" / "agents").mkdir(parents=True)
    (root / ".outlast" / "rules.toml").write_text("rules")
    (root / ".outlast" / "agents" / "one.md").write_text("one")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "config").write_text("theirs")
    return root


CHANGES: dict[str, tuple[Change, str]] = {
    "config changed": (lambda r: (r / ".git/config").write_text("[core]\nfsmonitor = evil\n"), ".git/config"),
    "config grown": (lambda r: os.truncate(r / ".git/config", 9_000_000), ".git/config"),
    "config removed": (lambda r: (r / ".git/config").unlink(), ".git/config"),
    "config a folder": (
        lambda r: ((r / ".git/config").unlink(), (r / ".git/config/x").mkdir(parents=True)),
        ".git/config",
    ),
    "config a link": (
        lambda r: ((r / ".git/config").unlink(), (r / ".git/config").symlink_to(r.parent / "outside/config")),
        ".git/config",
    ),
    "config unreadable": (lambda r: ((r / ".git/config").write_text("x"), (r / ".git/config").chmod(0)), ".git/config"),
    "config a pipe": (lambda r: ((r / ".git/config").unlink(), os.mkfifo(r / ".git/config")), ".git/config"),
    "worktree config made": (lambda r: (r / ".git/config.worktree").write_text("x"), ".git/config.worktree"),
    "hook made": (lambda r: (r / ".git/hooks/post-checkout").write_text("evil"), ".git/hooks/post-checkout"),
    "hook changed": (lambda r: (r / ".git/hooks/pre-commit").write_text("evil"), ".git/hooks/pre-commit"),
    "hook closed": (lambda r: (r / ".git/hooks/pre-commit").chmod(0o600), ".git/hooks/pre-commit"),
    "hooks a link": (
        lambda r: (shutil.rmtree(r / ".git/hooks"), (r / ".git/hooks").symlink_to(r.parent / "outside")),
        ".git/hooks",
    ),
    "hooks closed": (
        lambda r: ((r / ".git/hooks/new").write_text("evil"), (r / ".git/hooks").chmod(0)),
        ".git/hooks/new",
    ),
    "attributes made": (
        lambda r: ((r / ".git/info").mkdir(exist_ok=True), (r / ".git/info/attributes").write_text("* filter=evil")),
        ".git/info/attributes",
    ),
    "commondir made": (lambda r: (r / ".git/commondir").write_text("../../outside"), ".git/commondir"),
    "rules changed": (lambda r: (r / ".outlast/rules.toml").write_text("allow all"), ".outlast/rules.toml"),
    "agent made": (lambda r: (r / ".outlast/agents/two.md").write_text("two"), ".outlast/agents/two.md"),
    "own folder removed": (lambda r: shutil.rmtree(r / ".outlast"), ".outlast"),
    "own folder a link": (
        lambda r: (shutil.rmtree(r / ".outlast"), (r / ".outlast").symlink_to(r.parent / "outside")),
        ".outlast",
    ),
    "own folder flooded": (
        lambda r: [(r / ".outlast" / f"f{n}").write_text("x") for n in range(protected_files.ENTRY_LIMIT + 1)],
        ".outlast",
    ),
}


@pytest.mark.parametrize(("change", "named"), list(CHANGES.values()), ids=list(CHANGES))
def test_changed_file_is_put_back_and_named(project: Path, tmp_path: Path, change: Change, named: str) -> None:
    (project / ".git" / "info").mkdir(exist_ok=True)
    before = listing(project)
    snapshot = protected_snapshot([project])
    assert snapshot.unprotected == ()
    change(project)
    names = snapshot.restore()
    assert str(project / named) in names
    assert listing(project) == before
    assert (tmp_path / "outside" / "config").read_text() == "theirs"
    assert snapshot.restore() == []


def test_work_with_git_is_left_alone(project: Path) -> None:
    snapshot = protected_snapshot([project])
    (project / "file").write_text("x")
    for words in (("add", "-A"), ("commit", "-qm", "m"), ("branch", "b"), ("switch", "-q", "b"), ("gc", "-q")):
        git(project, *words)
    after = listing(project)
    assert snapshot.restore() == []
    assert listing(project) == after


def test_folder_that_did_not_exist_is_removed(tmp_path: Path) -> None:
    snapshot = protected_snapshot([tmp_path])
    (tmp_path / ".outlast").mkdir()
    (tmp_path / ".outlast" / "rules.toml").write_text("allow all")
    assert snapshot.restore() == [str(tmp_path / ".outlast" / "rules.toml"), str(tmp_path / ".outlast")]
    assert list(tmp_path.iterdir()) == []


def test_replaced_git_directory_has_the_old_config(project: Path) -> None:
    config = (project / ".git" / "config").read_text()
    snapshot = protected_snapshot([project])
    (project / ".git").rename(project / "moved")
    git(project, "init", "-q", ".")
    (project / ".git" / "config").write_text("[core]\nfsmonitor = evil\n")
    assert str(project / ".git" / "config") in snapshot.restore()
    assert (project / ".git" / "config").read_text() == config


def test_link_in_place_of_the_git_directory_is_removed_and_not_followed(project: Path, tmp_path: Path) -> None:
    snapshot = protected_snapshot([project])
    (project / ".git").rename(project / "moved")
    (project / ".git").symlink_to(tmp_path / "outside")
    assert str(project / ".git") in snapshot.restore()
    assert not os.path.lexists(project / ".git")
    assert (tmp_path / "outside" / "config").read_text() == "theirs"
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["config"]


def test_removed_git_directory_is_not_made_again(project: Path) -> None:
    snapshot = protected_snapshot([project])
    shutil.rmtree(project / ".git")
    assert snapshot.restore() == []
    assert not (project / ".git").exists()


def test_worktree_submodule_and_nested_repository_are_covered(project: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "-q", ".")
    git(library, "commit", "-q", "--allow-empty", "-m", "m")
    git(project, "commit", "-q", "--allow-empty", "-m", "m")
    git(project, "submodule", "--quiet", "add", str(library), "lib")
    (project / "nested").mkdir()
    git(project / "nested", "init", "-q", ".")
    worktree = tmp_path / "worktree"
    git(project, "worktree", "add", "-q", str(worktree))
    changed = [
        *(project / ".git" / "modules" / "lib" / "config", project / "lib" / ".git", project / "nested/.git/config"),
        *(project / ".git" / "worktrees" / "worktree" / "gitdir", worktree / ".git", project / ".git" / "config"),
    ]
    before = [path.read_text() for path in changed]
    snapshot = protected_snapshot([project, worktree], nested=find_git_directories(project))
    for path in changed:
        path.write_text("evil")
    assert set(snapshot.restore()) == {str(path) for path in changed}
    assert [path.read_text() for path in changed] == before


def test_target_of_linked_hooks_is_protected_too(project: Path) -> None:
    shutil.rmtree(project / ".git" / "hooks")
    (project / "githooks").mkdir()
    (project / "githooks" / "pre-push").write_text("own")
    (project / ".git" / "hooks").symlink_to("../githooks")
    snapshot = protected_snapshot([project])
    (project / "githooks" / "pre-push").write_text("evil")
    (project / "githooks" / "pre-commit").write_text("evil")
    assert len(snapshot.restore()) == 2
    assert [path.read_text() for path in (project / "githooks").iterdir()] == ["own"]
    assert os.readlink(project / ".git" / "hooks") == "../githooks"


def test_what_was_granted_and_what_is_left_out_stays_changed(project: Path) -> None:
    snapshot = protected_snapshot([project], but=[project / ".outlast"])
    (project / ".git" / "config").write_text("granted")
    (project / ".outlast" / "rules.toml").write_text("ours")
    assert snapshot.restore(but=[project / ".git" / "config"]) == []
    assert (project / ".git" / "config").read_text() == "granted"
    assert (project / ".outlast" / "rules.toml").read_text() == "ours"


def test_large_file_that_was_changed_is_removed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protected_files, "FILE_LIMIT", 100)
    hook = project / ".git" / "hooks" / "large"
    hook.write_text("x" * 101)
    snapshot = protected_snapshot([project])
    assert snapshot.restore() == []
    hook.write_text("evil" * 50)
    assert snapshot.restore() == [str(hook)]
    assert not hook.exists()


def test_folder_with_too_many_files_is_named_as_unprotected(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protected_files, "ENTRY_LIMIT", 3)
    snapshot = protected_snapshot([project])
    assert str(project / ".outlast") in snapshot.unprotected
    assert snapshot.restore() == []


def test_link_that_was_there_before_is_named_and_never_followed(project: Path, tmp_path: Path) -> None:
    shutil.rmtree(project / ".git" / "info", ignore_errors=True)
    (project / ".git" / "info").symlink_to(tmp_path / "outside")
    snapshot = protected_snapshot([project])
    assert snapshot.unprotected == (str(project / ".git" / "info" / "attributes"),)
    (tmp_path / "outside" / "attributes").write_text("x")
    assert snapshot.restore() == []
    assert (project / ".git" / "info").is_symlink()


def test_modes_of_restored_files_are_the_old_ones(project: Path) -> None:
    hook = project / ".git" / "hooks" / "pre-commit"
    snapshot = protected_snapshot([project])
    hook.unlink()
    snapshot.restore()
    assert stat.S_IMODE(hook.stat().st_mode) == 0o755
