"""Git facts: told from a harmless repository, and no program of a hostile one runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from outlast.runtime.git_repository import find_repository, is_inert, read_head
from outlast.runtime.prompt.git_facts import STATUS_LINES, git_facts
from outlast.runtime.prompt.project_identity import project_fingerprint
from tests.conftest import needs

PATH = os.environ.get("PATH", "/usr/bin:/bin")
PATIENT = 30.0
"""Seconds for tests that are not about the time limit: this machine may be busy."""


def git(folder: Path, *words: str) -> str:
    """Run git as the user does, with the repository's own configuration and no other."""
    environment = {
        "PATH": PATH,
        "HOME": str(folder.parent),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }
    done = subprocess.run(["git", *words], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    needs("git")
    folder = tmp_path / "proj"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "First words")
    return folder


def test_branch_changes_and_commits_are_told(repository: Path) -> None:
    (repository / "a.txt").write_text("two\n")
    (repository / "new.txt").write_text("x")
    text = git_facts(repository, PATH, PATIENT)
    assert text is not None
    assert "Branch: main" in text
    assert " M a.txt" in text
    assert "?? new.txt" in text
    assert text.endswith("First words")


def test_a_clean_repository_and_one_without_commits(repository: Path, tmp_path: Path) -> None:
    assert "No changed files." in (git_facts(repository, PATH, PATIENT) or "")
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "-q", "-b", "trunk")
    assert "No commits yet on trunk" in (git_facts(tmp_path / "empty", PATH, PATIENT) or "")


def test_no_repository_is_nothing_to_tell(tmp_path: Path) -> None:
    assert git_facts(tmp_path, PATH, PATIENT) is None


def test_a_folder_of_a_repository_tells_what_changed_there(repository: Path) -> None:
    (repository / "sub").mkdir()
    (repository / "sub" / "b.txt").write_text("x")
    (repository / "other.txt").write_text("x")
    text = git_facts(repository / "sub", PATH, PATIENT) or ""
    assert "Branch: main" in text
    assert "other.txt" not in text


def test_a_long_status_is_cut_and_counted(repository: Path) -> None:
    for n in range(STATUS_LINES + 7):
        (repository / f"f{n:03}").touch()
    assert "... and 7 more" in (git_facts(repository, PATH, PATIENT) or "")


def test_a_hostile_subject_and_name_cannot_hide_or_break_the_line(repository: Path) -> None:
    git(repository, "commit", "-q", "--allow-empty", "-m", "Good\u202e \u200bsubject " + "x" * 500)
    (repository / "two\nlines").touch()
    text = git_facts(repository, PATH, PATIENT) or ""
    assert "Good<U+202E> <U+200B>subject" in text
    assert max(len(line) for line in text.split("\n")) < 150
    assert '?? "two\\nlines"' in text


def test_a_linked_worktree_is_a_repository(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "side")
    assert "Branch: side" in (git_facts(tmp_path / "tree", PATH, PATIENT) or "")


def test_a_git_file_that_names_a_repository_of_others_is_not_followed(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "liar").mkdir()
    (tmp_path / "liar" / ".git").write_text(f"gitdir: {repository / '.git'}\n")
    assert git_facts(tmp_path / "liar", PATH, PATIENT) is None


def test_after_the_time_limit_branch_and_commit_come_from_files(repository: Path) -> None:
    text = git_facts(repository, PATH, 0.0) or ""
    commit = git(repository, "rev-parse", "HEAD")[:10]
    assert f"Branch: main. Last commit: {commit} First words. Its status was not read." in text
    git(repository, "pack-refs", "--all")
    assert commit in (git_facts(repository, PATH, 0.0) or "")
    git(repository, "checkout", "-q", "--detach")
    assert "Branch: none (detached)" in (git_facts(repository, PATH, 0.0) or "")


def test_a_git_that_hangs_is_ended_in_time(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    slow = tmp_path / "bin" / "git"
    slow.write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/pids\nexec sleep 60\n")
    slow.chmod(0o755)
    begun = time.monotonic()
    text = git_facts(repository, f"{tmp_path / 'bin'}:{PATH}", 0.5) or ""
    assert time.monotonic() - begun < 5
    assert "Its status was not read." in text
    for pid in (tmp_path / "pids").read_text().split():
        assert not Path(f"/proc/{pid}").exists()


def test_a_git_program_of_the_project_or_of_a_relative_path_is_not_run(repository: Path, tmp_path: Path) -> None:
    (repository / "bin").mkdir()
    evil(repository / "bin" / "git", tmp_path)
    for path in (f"{repository / 'bin'}:{PATH}", f"bin:{PATH}", f":{PATH}"):
        assert "Branch: main" in (git_facts(repository, path, PATIENT) or "")
    assert not (tmp_path / "witness").exists()


def test_no_hook_and_no_index_write(repository: Path, tmp_path: Path) -> None:
    evil(repository / ".git" / "hooks" / "post-index-change", tmp_path)
    os.utime(repository / "a.txt", (1, 1))
    before = (repository / ".git" / "index").read_bytes()
    assert "No changed files." in (git_facts(repository, PATH, PATIENT) or "")
    assert (repository / ".git" / "index").read_bytes() == before
    assert not (tmp_path / "witness").exists()
    git(repository, "status")
    assert (tmp_path / "witness").exists()


# --- hostile repositories


def evil(program: Path, tmp_path: Path) -> Path:
    """Write a program that leaves a witness and otherwise does nothing."""
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/witness\ncat 2>/dev/null\n")
    program.chmod(0o755)
    return program


def config(repository: Path, text: str) -> None:
    with (repository / ".git" / "config").open("a") as file:
        file.write(text)


def fsmonitor(repository: Path, program: Path) -> None:
    config(repository, f"[core]\n\tfsmonitor = {program}\n")


def clean_filter(repository: Path, program: Path) -> None:
    (repository / ".gitattributes").write_text("* filter=x\n")
    config(repository, f'[filter "x"]\n\tclean = {program}\n')
    (repository / "a.txt").write_text("eno\n")


def process_filter(repository: Path, program: Path) -> None:
    (repository / ".git" / "info" / "attributes").write_text("* filter=x\n")
    config(repository, f'[filter "x"]\n\tprocess = {program}\n')
    (repository / "a.txt").write_text("eno\n")


def included_config(repository: Path, program: Path) -> None:
    (repository / "more").write_text(f"[core]\n\tfsmonitor = {program}\n")
    config(repository, "[include]\n\tpath = ../more\n")


def conditional_include(repository: Path, program: Path) -> None:
    (repository / "more").write_text(f"[core]\n\tfsmonitor = {program}\n")
    config(repository, '[includeIf "gitdir:**"]\n\tpath = ../more\n')


def long_config(repository: Path, program: Path) -> None:
    config(repository, f"# {'x' * (1 << 20)}\n[core]\n\tfsmonitor = {program}\n")


def form_feed(repository: Path, program: Path) -> None:
    config(repository, f'[core] ; c\f[color "x"]\n\tfsmonitor = {program}\n')


def carriage_return(repository: Path, program: Path) -> None:
    config(repository, f'[core]\n\t# c\r[color "x"]\n\tfsmonitor = {program}\n')


def line_separator(repository: Path, program: Path) -> None:
    config(repository, f'[core]\n\t# c\u2028[color "x"]\n\tfsmonitor = {program}\n')


def continued_line(repository: Path, program: Path) -> None:
    config(repository, f"[core]\n\tfsmonitor = \\\n{program}\n")


def on_the_header_line(repository: Path, program: Path) -> None:
    config(repository, f"[core] fsmonitor = {program}\n")


def odd_spelling(repository: Path, program: Path) -> None:
    config(repository, f"[CoRe]\n\tFsMonitor={program}\n")


def after_a_subsection(repository: Path, program: Path) -> None:
    config(repository, f'[color "x\\"]\n[core"]\n\tui = 1\n[core]\n\tfsmonitor = {program}\n')


def worktree_config(repository: Path, program: Path) -> None:
    config(repository, "[extensions]\n\tworktreeConfig = true\n")
    (repository / ".git" / "config.worktree").write_text(f"[core]\n\tfsmonitor = {program}\n")


def linked_config(repository: Path, program: Path) -> None:
    fsmonitor(repository, program)
    (repository / ".git" / "config").rename(repository.parent / "config")
    (repository / ".git" / "config").symlink_to(repository.parent / "config")


def submodule(repository: Path, program: Path) -> None:
    sub = repository / "sub"
    sub.mkdir()
    git(sub, "init", "-q")
    (sub / "b").write_text("1\n")
    git(sub, "add", ".")
    git(sub, "commit", "-q", "-m", "x")
    (repository / ".gitmodules").write_text('[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n\tignore = none\n')
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "sub")
    clean_filter_of(sub, program)


def clean_filter_of(sub: Path, program: Path) -> None:
    (sub / ".gitattributes").write_text("* filter=x\n")
    config(sub, f'[filter "x"]\n\tclean = {program}\n')
    (sub / "b").write_text("2\n")


def signature(repository: Path, program: Path) -> None:
    commit = git(repository, "cat-file", "commit", "HEAD")
    head, _, body = commit.partition("\n\n")
    signed = f"{head}\ngpgsig -----BEGIN PGP SIGNATURE-----\n x\n -----END PGP SIGNATURE-----\n\n{body}"
    (repository / "c").write_text(signed)
    name = git(repository, "hash-object", "-t", "commit", "-w", "c").strip()
    git(repository, "update-ref", "HEAD", name)
    config(repository, f"[log]\n\tshowSignature = true\n[gpg]\n\tprogram = {program}\n")


def pager(repository: Path, program: Path) -> None:
    config(repository, f"[core]\n\tpager = {program}\n[pager]\n\tstatus = {program}\n\tlog = {program}\n")


def external_diff(repository: Path, program: Path) -> None:
    (repository / "a.txt").write_text("two\n")
    (repository / ".gitattributes").write_text("* diff=x\n")
    config(repository, f'[diff]\n\texternal = {program}\n[diff "x"]\n\ttextconv = {program}\n')


def promisor(repository: Path, program: Path) -> None:
    tree = git(repository, "rev-parse", "HEAD^{tree}").strip()
    (repository / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    program.write_text(program.read_text().replace("cat", "true"))  # as ssh it would wait for its input
    config(
        repository,
        f"[core]\n\tsshCommand = {program}\n[extensions]\n\tpartialClone = origin\n"
        '[remote "origin"]\n\turl = ssh://host/x\n\tpromisor = true\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n',
    )


def hooks_path(repository: Path, program: Path) -> None:
    shutil.copy(program, repository / "post-index-change")
    config(repository, f"[core]\n\thooksPath = {repository}\n")
    os.utime(repository / "a.txt", (1, 1))


def alias(repository: Path, program: Path) -> None:
    config(repository, f"[alias]\n\tstatus = !{program}\n\tlog = !{program}\n")


def other_worktree(repository: Path, program: Path) -> None:
    clean_filter(repository, program)
    config(repository, f"[core]\n\tworktree = {repository.parent}\n")


def pipe_config(repository: Path, program: Path) -> None:
    (repository / ".git" / "config").unlink()
    os.mkfifo(repository / ".git" / "config")


HOSTILE: dict[Callable[[Path, Path], None], tuple[str, ...] | None] = {
    fsmonitor: ("status",),
    clean_filter: ("status",),
    process_filter: ("status",),
    included_config: ("status",),
    conditional_include: ("status",),
    long_config: ("status",),
    form_feed: ("status",),
    carriage_return: ("status",),
    line_separator: ("status",),
    continued_line: ("status",),
    on_the_header_line: ("status",),
    odd_spelling: ("status",),
    after_a_subsection: None,
    worktree_config: ("status",),
    linked_config: ("status",),
    submodule: ("status",),
    signature: ("log",),
    pager: ("-p", "log"),
    external_diff: ("diff",),
    promisor: ("status",),
    hooks_path: ("status",),
    alias: None,
    other_worktree: None,
    pipe_config: None,
}
"""Each hostile repository, and the git command that runs its program for somebody who does not take care."""


@pytest.mark.parametrize("made", HOSTILE, ids=lambda made: made.__name__)
def test_no_program_of_a_hostile_repository_runs(
    made: Callable[[Path, Path], None], repository: Path, tmp_path: Path
) -> None:
    made(repository, evil(tmp_path / "evil", tmp_path))
    (tmp_path / "witness").unlink(missing_ok=True)
    begun = time.monotonic()
    text = git_facts(repository, PATH, PATIENT)
    assert time.monotonic() - begun < PATIENT
    assert not (tmp_path / "witness").exists()
    assert text is not None
    assert "Branch: main" in text
    careless = HOSTILE[made]
    if careless is not None:  # the trap works: the test can fail
        git(repository, *careless)
        if made is pager:
            return  # git pages only to a terminal, which it does not have here
        assert (tmp_path / "witness").exists(), "this repository is not hostile"


def test_only_a_hooks_path_of_all_the_hostile_ones_is_looked_at_with_git(repository: Path, tmp_path: Path) -> None:
    for n, made in enumerate(HOSTILE):
        folder = tmp_path / str(n) / "proj"
        shutil.copytree(repository, folder)
        made(folder, evil(tmp_path / "evil", tmp_path))
        found = find_repository(folder)
        assert found is not None
        assert is_inert(found) == (made is hooks_path), made.__name__


def test_an_empty_git_folder_is_no_repository_and_its_parent_is_not_asked(repository: Path, tmp_path: Path) -> None:
    clean_filter(repository, evil(tmp_path / "evil", tmp_path))
    (repository / "sub" / ".git").mkdir(parents=True)
    assert git_facts(repository / "sub", PATH, PATIENT) is None
    assert not (tmp_path / "witness").exists()


def test_a_bare_layout_in_the_project_is_not_read(repository: Path, tmp_path: Path) -> None:
    bare = repository / "bare"
    shutil.copytree(repository / ".git", bare)
    with (bare / "config").open("a") as file:
        file.write(f"[core]\n\tfsmonitor = {evil(tmp_path / 'evil', tmp_path)}\n\tworktree = {repository}\n")
    assert git_facts(bare, PATH, PATIENT) is None
    assert not (tmp_path / "witness").exists()


def test_head_of_a_hostile_ref_reads_nothing_outside(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a" * 40)
    found = find_repository(repository)
    assert found is not None
    (repository / ".git" / "HEAD").write_text("ref: refs/heads/../../../../secret\n")
    assert read_head(found).commit == ""
    (repository / ".git" / "HEAD").unlink()
    (repository / ".git" / "HEAD").symlink_to(tmp_path / "secret")
    assert read_head(found).commit == ""


@pytest.mark.parametrize(
    ("shown", "real"), [("c\N{REPLACEMENT CHARACTER}".encode(), b"c\xff"), (b"c", b"c\x0b"), (b"c", b"c ")]
)
def test_a_shared_directory_whose_name_git_reads_in_another_way_is_no_repository(
    repository: Path, tmp_path: Path, shown: bytes, real: bytes
) -> None:
    top = os.fsencode(repository)
    shutil.copytree(repository / ".git", os.fsdecode(top + b"/" + shown))
    clean_filter(repository, evil(tmp_path / "evil", tmp_path))
    shutil.copytree(repository / ".git", os.fsdecode(top + b"/" + real))
    shutil.copy(top + b"/" + shown + b"/config", top + b"/.git/config")
    (repository / ".git" / "commondir").write_bytes(b"../" + real)
    assert git_facts(repository, PATH, PATIENT) is None
    assert not (tmp_path / "witness").exists()
    git(repository, "status")
    assert (tmp_path / "witness").exists(), "this repository is not hostile"


def test_a_null_byte_in_gits_files_is_no_repository(repository: Path, tmp_path: Path) -> None:
    (repository / ".git" / "commondir").write_bytes(b".\0")
    (repository / ".git" / "logs" / "HEAD").unlink()
    assert git_facts(repository, PATH, PATIENT) is None
    assert project_fingerprint(repository) is None
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / ".git").write_bytes(b"gitdir: x\0\n")
    assert find_repository(tmp_path / "w") is None
    assert project_fingerprint(tmp_path / "w") is None
