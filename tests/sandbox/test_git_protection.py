"""What commands cannot change of a git directory, and what they must be able to do with git; in real sandboxes."""

import os
import subprocess
from pathlib import Path

import pytest

from outlast.runtime.sandbox.git_guard import GitGuard, KnownRepositories
from outlast.runtime.sandbox.git_protection import can_run_program, set_aside
from outlast.runtime.sandbox.placeholders import Placeholder, PlaceholderLease, sweep_placeholders
from outlast.runtime.sandbox.port import Need, NeedKind
from tests.sandbox.sandboxed import Sandboxed, git, repository, snapshot

EVERYDAY = """
echo two >> file.txt; git add file.txt; git commit -qm two
git switch -qc topic; echo three > other.txt; git add other.txt; git commit -qm three
echo dirty >> file.txt; git stash -q; git stash pop -q; git checkout -q file.txt
git switch -q -; echo four > fourth.txt; git add fourth.txt; git commit -qm four
git switch -q topic; git rebase -q -; git tag v1; git gc -q; git status --short
test -z "$(git status --short)"; git log --format=%s | tr '\\n' ' '
"""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path.resolve()


@pytest.fixture
def plain(base: Path) -> Path:
    return repository(base / "project")


def linked_worktree(base: Path) -> tuple[Path, Path]:
    main = repository(base / "main")
    git(main, "worktree", "add", "-q", "-b", "side", str(base / "linked"))
    return base / "linked", main / ".git"


def submodule(base: Path) -> tuple[Path, Path]:
    library, outer = repository(base / "library"), repository(base / "outer")
    git(outer, "submodule", "add", "-q", str(library), "libs/part")
    git(outer, "commit", "-qm", "part")
    return outer / "libs" / "part", outer / ".git" / "modules" / "libs" / "part"


def separate(base: Path) -> tuple[Path, Path]:
    folder = repository(base / "tree", "--separate-git-dir", str(base / "store.git"))
    return folder, base / "store.git"


def own_folder(base: Path) -> tuple[Path, Path]:
    return repository(base / "project"), base / "project" / ".git"


LAYOUTS = {"plain": own_folder, "worktree": linked_worktree, "submodule": submodule, "separate": separate}
PROTECTED = (
    "config", "config.worktree", "hooks/post-checkout", "info/attributes", "commondir", "gitdir", "modules/x/config",
    "modules/x/hooks/post-checkout",
)  # fmt: skip


def protected_state(common: Path) -> dict[str, str]:
    """Return the protected paths with their content. The rest may change: `mv` copies what it cannot rename."""
    names = ("config", "commondir", "gitdir", "hooks", "info/attributes", "modules")
    return {path: text for path, text in snapshot(common).items() if path.startswith(names)}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_everyday_git_works_unasked_and_leaves_no_stub(base: Path, layout: str) -> None:
    root, common = LAYOUTS[layout](base)
    protected = {name for name in PROTECTED if (common / name).exists()}
    sandbox = Sandboxed(base, root)
    assert sandbox.succeed(EVERYDAY).split() == ["three", "four", "two", "one"]
    assert sandbox.notes == ()
    assert git(root, "log", "-1", "--format=%s").strip() == "three"
    assert not (root / ".outlast").exists()
    assert {name for name in PROTECTED if (common / name).exists()} == protected
    assert sweep_placeholders(sandbox.home) == 0
    assert list((sandbox.home / "sandbox" / "placeholders").iterdir()) == []


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", PROTECTED)
def test_protected_path_cannot_be_written_replaced_or_created(base: Path, layout: str, name: str) -> None:
    root, common = LAYOUTS[layout](base)
    before = protected_state(common)
    path = common / name
    Sandboxed(base, root).run(f"""
        mkdir -p {path.parent}; echo evil > {path}; echo evil >> {path}; rm -rf {path}
        echo evil > {common}/mine; mv -f {common}/mine {path}; ln -f {common}/HEAD {path}; ln -sfn /tmp {path}
        mv {path.parent} {common}/away; mkdir -p {path.parent}; echo evil > {path}; rm -f {common}/mine
        mv {path} {common}/gone; python3 -c "open('{path}', 'w').write('evil')"
        """)
    assert protected_state(common) == before


def test_missing_hooks_and_info_cannot_be_created(plain: Path, base: Path) -> None:
    for name in ("hooks", "info"):
        for path in (plain / ".git" / name).iterdir():
            path.unlink()
        (plain / ".git" / name).rmdir()
    before = snapshot(plain)
    sandbox = Sandboxed(base, plain)
    sandbox.run("mkdir -p .git/hooks .git/info; echo evil > .git/hooks/pre-commit; echo evil > .git/info/attributes")
    assert snapshot(plain) == before


@pytest.mark.parametrize("layout", LAYOUTS)
def test_git_directory_cannot_be_renamed_removed_or_replaced(base: Path, layout: str) -> None:
    root, common = LAYOUTS[layout](base)
    config, pointer = (common / "config").read_bytes(), root / ".git"
    text = pointer.read_bytes() if pointer.is_file() else None
    result = Sandboxed(base, root).run(
        f"mv .git x; mv {common} {common}.x; rm -f .git; echo 'gitdir: /tmp/evil' > .git; mkdir .git; mv x/config .git"
    )
    assert "busy" in result.stderr
    assert (common / "config").read_bytes() == config
    assert not (root / "x").exists()
    assert text is None or pointer.read_bytes() == text


def test_linked_worktree_of_another_folder_keeps_its_pointers(base: Path) -> None:
    linked, common = linked_worktree(base)
    before = snapshot(common / "worktrees")
    own = common / "worktrees" / "linked"
    Sandboxed(base, common.parent).run(
        f"echo /tmp/evil > {own}/commondir; echo /tmp/evil > {own}/gitdir; mv {own} {own}2; "
        f"echo x > {own}/config.worktree; mv {own.parent} {own.parent}2"
    )
    assert snapshot(common / "worktrees") == before
    assert git(linked, "status", "--short") == ""


def test_own_folder_cannot_be_created_or_changed(plain: Path, base: Path) -> None:
    attack = "mkdir -p .outlast; echo x > .outlast/hooks.json; mv .outlast y; rm -rf .outlast; ln -s /tmp .outlast"
    Sandboxed(base, plain).run(attack)
    assert not (plain / ".outlast").exists()
    assert not (plain / ".outlast").is_symlink()
    (plain / ".outlast").mkdir()
    (plain / ".outlast" / "config.toml").write_text("mine")
    before = snapshot(plain)
    Sandboxed(base, plain).run(attack)
    assert snapshot(plain) == before


def test_worktree_can_be_added_inside_the_project(plain: Path, base: Path) -> None:
    sandbox = Sandboxed(base, plain)
    sandbox.succeed("git worktree add -q trees/new -b new")
    sandbox.succeed("echo x > x.txt && git add x.txt && git commit -qm x", cwd=plain / "trees" / "new")
    assert git(plain, "log", "-1", "--format=%s", "new").strip() == "x"


def test_pointer_without_record_in_return_gets_nothing_and_is_named(plain: Path, base: Path) -> None:
    other = repository(base / "other")
    root = base / "lured"
    root.mkdir()
    (root / ".git").write_text(f"gitdir: {other / '.git'}\n")
    before = snapshot(other)
    sandbox = Sandboxed(base, root)
    result = sandbox.run("git commit --allow-empty -m evil")
    assert result.returncode != 0
    assert snapshot(other) == before
    assert str(other / ".git") in sandbox.notes[0]


def test_forged_worktree_record_inside_the_project_opens_no_other_repository(plain: Path, base: Path) -> None:
    other = repository(base / "other")
    before = snapshot(other)
    sandbox = Sandboxed(base, plain)
    sandbox.succeed(f"""
        mkdir -p sub fake; cp .git/HEAD fake/; echo "gitdir: {plain}/fake" > sub/.git
        echo "{plain}/sub/.git" > fake/gitdir; echo "{other}/.git" > fake/commondir
        """)
    sandbox.run(f"git commit --allow-empty -m evil; git branch evil; echo x > {other}/.git/evil", cwd=plain / "sub")
    assert snapshot(other) == before


def test_separate_directory_of_other_files_gets_nothing(base: Path) -> None:
    _, store = separate(base)
    root = base / "copy"
    root.mkdir()
    (root / "file.txt").write_text("one\n")
    (root / ".git").write_text(f"gitdir: {store}\n")
    before = snapshot(store)
    sandbox = Sandboxed(base, root)
    assert sandbox.run("git commit --allow-empty -m evil").returncode != 0
    assert snapshot(store) == before
    assert "does not name" in sandbox.notes[0]


def test_separate_directory_stays_writable_after_every_file_changed(base: Path) -> None:
    root, _ = separate(base)
    sandbox = Sandboxed(base, root)
    sandbox.succeed("rm file.txt; echo new > file.txt")
    sandbox.succeed("git commit -qam changed")
    assert git(root, "log", "-1", "--format=%s").strip() == "changed"


def test_nested_repository_is_protected_from_the_next_command_on(plain: Path, base: Path) -> None:
    sandbox = Sandboxed(base, plain)
    sandbox.succeed("git init -q nested; git init -q --bare bare.git")
    before = snapshot(plain)
    sandbox.run("echo evil >> nested/.git/config; echo evil > nested/.git/hooks/x; echo evil >> bare.git/config")
    assert snapshot(plain) == before
    sandbox.succeed("echo a > a; git add a; git commit -qm a", cwd=plain / "nested")


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        ("git init -q nested", False),
        ("git clone -q . nested", False),
        ("git init -q nested && git -C nested config core.fsmonitor /tmp/x", True),
        ("git init -q nested && git -C nested config core.hooksPath /tmp/x", True),
        ("git init -q nested && git -C nested config alias.st '!sh'", True),
        ("git init -q nested && git -C nested config include.path /tmp/x", True),
        ("git init -q nested && git -C nested config filter.x.clean sh", True),
        ("git init -q nested && echo sh > nested/.git/hooks/post-checkout", True),
        ("git init -q nested && echo /tmp/x > nested/.git/commondir", True),
    ],
)
def test_new_repository_that_can_run_a_program_is_set_aside(plain: Path, base: Path, command: str, runs: bool) -> None:
    Sandboxed(base, plain).succeed(command)
    nested = plain / "nested" / ".git"
    assert can_run_program(nested) is runs
    if runs:
        assert str(nested) in set_aside(nested)
        assert not can_run_program(nested)
        assert (nested / "config.outlast-set-aside").exists()


def test_lifted_wall_makes_the_configuration_writable(plain: Path, base: Path) -> None:
    need = Need(NeedKind.WRITE, str(plain / ".git" / "config"))
    Sandboxed(base, plain).run("printf '[a]\\n\\tb = c\\n' >> .git/config", needs=[need])
    assert git(plain, "config", "a.b").strip() == "c"


def test_switch_to_a_remote_branch_writes_no_configuration(base: Path) -> None:
    origin = repository(base / "origin")
    git(origin, "branch", "feature")
    git(base, "clone", "-q", str(origin), "clone")
    Sandboxed(base, base / "clone").succeed("git switch -q feature")
    assert git(base / "clone", "branch", "--show-current").strip() == "feature"


def test_link_in_place_of_hooks_makes_the_git_directory_read_only(plain: Path, base: Path) -> None:
    for path in (plain / ".git" / "hooks").iterdir():
        path.unlink()
    (plain / ".git" / "hooks").rmdir()
    (plain / "githooks").mkdir()
    (plain / ".git" / "hooks").symlink_to("../githooks")
    before = snapshot(plain)
    sandbox = Sandboxed(base, plain)
    sandbox.run("rm -f .git/hooks; mkdir .git/hooks; echo x > .git/hooks/pre-commit; echo x > githooks/pre-commit")
    assert snapshot(plain) == before
    assert "symbolic link" in sandbox.notes[0]


def test_placeholder_stays_until_the_last_command_ends(base: Path) -> None:
    placeholder = Placeholder(path=base / "hooks", content=None, owner=base)
    first, second = PlaceholderLease([placeholder], base / "home"), PlaceholderLease([placeholder], base / "home")
    first.release()
    assert placeholder.is_in_place()
    second.release()
    assert not placeholder.path.exists()


def test_empty_folder_of_the_user_is_not_removed(base: Path) -> None:
    (base / "hooks").mkdir()
    with PlaceholderLease([Placeholder(path=base / "hooks", content=None, owner=base)], base / "home") as lease:
        assert lease.paths == (base / "hooks",)
    assert (base / "hooks").is_dir()


def test_sweep_removes_what_a_killed_process_left(base: Path) -> None:
    placeholders = [
        Placeholder(path=base / name, content=text, owner=base) for name, text in (("a", None), ("a/b", ""))
    ]
    lease = PlaceholderLease(placeholders, base / "home")
    assert sweep_placeholders(base / "home") == 0
    for descriptor, parent, _ in lease._held:
        os.close(descriptor)
        os.close(parent)
    lease._held.clear()
    assert sweep_placeholders(base / "home") == 2
    assert sorted(path.name for path in base.iterdir()) == ["home"]


def guarded(sandbox: Sandboxed, base: Path, command: str) -> tuple[str, ...]:
    """Run the command between the two halves of a guard, as the agent does; return what the guard said."""
    guard = GitGuard(sandbox.roots, sandbox.places, base / "state", KnownRepositories())
    sandbox.succeed(command)
    return guard.end()


def test_repository_put_in_the_place_of_a_moved_one_is_set_aside(plain: Path, base: Path) -> None:
    repository(plain / "sub")
    before = snapshot(plain / "sub")
    command = "mv sub moved; git init -q sub; git -C sub config core.fsmonitor /tmp/evil"
    (note,) = guarded(Sandboxed(base, plain), base, command)
    assert str(plain / "sub" / ".git") in note
    assert snapshot(plain / "moved") == before
    assert not (plain / "sub" / ".git" / "config").exists()


@pytest.mark.parametrize("place", ["hidden", ".git/hidden"])
@pytest.mark.parametrize("pointer", ["echo 'gitdir: ../{}' > t/.git", "ln -s ../{} t/.git"])
def test_pointer_to_a_repository_that_runs_programs_is_set_aside(
    plain: Path, base: Path, place: str, pointer: str
) -> None:
    notes = guarded(
        Sandboxed(base, plain),
        base,
        f"git init -q --bare {place}; git config -f {place}/config core.fsmonitor evil; mkdir t; "
        + pointer.format(place),
    )
    assert any(str(plain / "t" / ".git") in note for note in notes) or not (plain / place / "config").exists()
    result = subprocess.run(["git", "-C", plain / "t", "config", "core.fsmonitor"], capture_output=True, text=True)
    assert result.stdout == ""


def test_git_directory_in_two_halves_is_set_aside(plain: Path, base: Path) -> None:
    notes = guarded(
        Sandboxed(base, plain),
        base,
        "mkdir -p one two/objects two/refs t; cp .git/HEAD one; echo ../two > one/commondir; cp .git/config two"
        "; git config -f two/config core.fsmonitor evil; echo 'gitdir: ../one' > t/.git",
    )
    assert notes
    result = subprocess.run(["git", "-C", plain / "t", "config", "core.fsmonitor"], capture_output=True, text=True)
    assert result.stdout == ""


def test_worktree_that_a_command_adds_is_not_set_aside(plain: Path, base: Path) -> None:
    assert guarded(Sandboxed(base, plain), base, "git worktree add -q trees/new -b new") == ()
    assert git(plain / "trees" / "new", "branch", "--show-current").strip() == "new"
