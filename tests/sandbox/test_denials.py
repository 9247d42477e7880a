"""What a failed command says is read as the wall that it met."""

from pathlib import Path

import pytest

from outlast.runtime.sandbox.denials import named_denials, passed_over, start_folder
from outlast.runtime.sandbox.port import Need, NeedKind

ROOT = Path("/tmp/project")


@pytest.mark.parametrize(
    ("said", "need"),
    [
        (
            f"error: could not write config file {ROOT}/.git/config: Device or resource busy",
            f"write:{ROOT}/.git/config",
        ),
        ("error: could not write config file .git/config: Device or resource busy", f"write:{ROOT}/.git/config"),
        ("mv: cannot move '.git' to 'x': Device or resource busy", f"write:{ROOT}/.git"),
        ("cp: cannot create regular file '.git/hooks/x': Read-only file system", f"write:{ROOT}/.git/hooks/x"),
        ("touch: cannot touch '/srv/x': Read-only file system", "write:/srv/x"),
        ("ssh: Could not resolve hostname example.org: Temporary failure in name resolution", "network:example.org"),
    ],
)
def test_refusal_is_named_with_the_need_that_lifts_it(said: str, need: str) -> None:
    [note] = named_denials(said, [ROOT], [], looking=False, folder=ROOT)
    assert note.startswith("[blocked by the sandbox: ")
    assert f'needs=["{need}"]' in note


@pytest.mark.parametrize(
    "said", ["umount: /mnt: Device or resource busy", "rm: cannot remove 'x': Device or resource busy"]
)
def test_busy_device_elsewhere_is_no_refusal(said: str) -> None:
    assert named_denials(said, [ROOT], [], looking=False) == []


PROJECT = Path("/users/me/project")
HIDDEN = (Path("/users/me/.config/gh"), Path("/users/me/.aws"))


@pytest.mark.parametrize(
    ("output", "need"),
    [
        ("/usr/bin/bash: line 1: /users/me/.bashrc: Read-only file system", "write:/users/me/.bashrc"),
        ("bash: /users/me/.bashrc: Read-only file system", "write:/users/me/.bashrc"),
        ("touch: cannot touch '/usr/x': Read-only file system", "write:/usr/x"),
        ("/srv/x: Read-only file system", "write:/srv/x"),
        ("OSError: [Errno 30] Read-only file system: '/srv/x'", "write:/srv/x"),
        ("Error: EROFS: read-only file system, open '/srv/x'", "write:/srv/x"),
        ("open /srv/x: read-only file system", "write:/srv/x"),
        (
            "fatal: could not create leading directories of '../tree/.git': Read-only file system",
            "write:/users/me/tree/.git",
        ),
        ("bash: ../x: Read-only file system", "write:/users/me/x"),
        (
            "error: could not write config file .git/config: Device or resource busy",
            "write:/users/me/project/.git/config",
        ),
        (
            "error: could not write config file /users/me/main/.git/config: Device or resource busy",
            "write:/users/me/main/.git/config",
        ),
        ("To get started with GitHub CLI, please run:  gh auth login", "read:/users/me/.config/gh"),
        ("Unable to locate credentials. You can configure them", "read:/users/me/.aws"),
    ],
)
def test_denial_names_exactly_the_path_that_was_refused(output: str, need: str) -> None:
    notes = named_denials(output, [PROJECT], HIDDEN, looking=False, folder=PROJECT)
    assert [note.partition("needs=")[2] for note in notes] == [f'["{need}"]]']


@pytest.mark.parametrize(
    "output",
    [
        "umount: /mnt: Device or resource busy.",
        "rm: cannot remove 'build': Device or resource busy",
        "please run: docker login",
        "/usr/bin/bash: line 1: ./x: No such file or directory",
    ],
)
def test_failure_that_is_not_of_the_sandbox_is_not_named(output: str) -> None:
    assert named_denials(output, [PROJECT, Path("/mnt")], HIDDEN, looking=False, folder=PROJECT) == []


def test_relative_path_is_not_guessed_after_a_change_of_folder() -> None:
    assert start_folder("mkdir ../x", PROJECT) == PROJECT
    assert start_folder("cd src && mkdir ../x", PROJECT) is None
    [note] = named_denials("mkdir: cannot create '../x': Read-only file system", [PROJECT], (), looking=False)
    assert 'needs=["write:PATH"]' in note


def test_configuration_that_git_could_not_write_is_named_although_git_went_on() -> None:
    failed = "error: could not write config file .git/config: Device or resource busy\n"
    [note] = passed_over(f"{failed}branch 'main' set up to track 'origin/topic'.", "git push -u", HIDDEN, PROJECT)
    assert f'needs=["write:{PROJECT}/.git/config"]' in note
    assert passed_over(f"{failed}warning: Update of config-file failed\n", "git branch -D x", HIDDEN, PROJECT) == []
    assert passed_over("Everything up-to-date", "git push -u", HIDDEN, PROJECT) == []


def test_missing_login_in_a_pipe_is_named_although_the_pipe_ends_well() -> None:
    said = "please run:  gh auth login\n"
    [note] = passed_over(said, "gh api user | jq .login", HIDDEN, PROJECT)
    assert 'needs=["read:/users/me/.config/gh"]' in note
    assert passed_over(said, "cat README.md", HIDDEN, PROJECT) == []


def test_need_to_write_something_new_opens_its_folder_or_the_outermost_that_is_missing(tmp_path: Path) -> None:
    need = Need(NeedKind.WRITE, str(tmp_path / "new" / "deep" / "file"))
    assert need.opened().value == str(tmp_path / "new")
    assert f"the folder {tmp_path / 'new'} is opened" in need.reason()
    assert Need(NeedKind.WRITE, str(tmp_path / "file")).opened().value == str(tmp_path)
    assert Need(NeedKind.WRITE, str(tmp_path)).opened().value == str(tmp_path)
