"""The folder of shell commands: where one starts, how its end is learned, and what is not believed."""

import os
from pathlib import Path

import msgspec
import pytest

from outlast.runtime.tools.port import ShellFolder, ToolContext
from outlast.runtime.tools.process.shell_folder import FolderReport, usable_folder
from tests.unit.runtime.tools.setting import Setting


def kept(setting: Setting, path: Path | None = None) -> ToolContext:
    return setting.context(shell=ShellFolder(path=path or setting.project))


@pytest.fixture
def sub(setting: Setting) -> Path:
    folder = setting.project / "sub"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("cd sub", 0),
        ("cd sub; exit 3", 3),
        ("cd sub\nif", 2),
        ("cd sub\ncat <<E\nhello\nE", 0),
        ("cd sub; set -e; false; echo no", 1),
        ("cd sub; nosuchprogram", 127),
        ("cd sub; set -C -u -o pipefail; false | true", 1),
        ("ulimit -f 1; cd sub; exit 4", 4),
        ("cd sub; exec >/dev/full; exit 5", 5),
    ],
)
async def test_the_folder_is_learned_however_the_shell_ends_and_the_exit_code_stays(
    setting: Setting, sub: Path, command: str, code: int
) -> None:
    outcome = await setting.run("bash", kept(setting), command=command)
    assert (outcome.facts["exit_code"], outcome.facts["cwd"]) == (code, str(sub))
    assert outcome.text.splitlines()[-1] == f"[the folder is now {sub}]"


@pytest.mark.parametrize("command", ["(cd sub)", "cd sub | cat", "if ; then", "bash -c 'cd sub'", "true"])
async def test_a_cd_of_another_process_changes_nothing(setting: Setting, sub: Path, command: str) -> None:
    outcome = await setting.run("bash", kept(setting), command=command)
    assert outcome.facts["cwd"] == str(setting.project)
    assert "folder" not in outcome.text


@pytest.mark.parametrize(
    "command", ["cd sub; exec true", "trap 'echo bye' EXIT; cd sub", "cd sub; kill -KILL $$", "cd sub; sleep 5"]
)
async def test_a_folder_that_was_not_reported_is_not_kept_and_the_model_is_told(
    setting: Setting, sub: Path, command: str
) -> None:
    outcome = await setting.run("bash", kept(setting), command=command, timeout=1)
    assert "cwd" not in outcome.facts
    assert f"the next command starts in {setting.project}]" in outcome.text


async def test_set_x_shows_nothing_of_the_report(setting: Setting, sub: Path) -> None:
    outcome = await setting.run("bash", kept(setting), command="set -x; cd sub")
    assert outcome.text.splitlines() == ["+ cd sub", f"[the folder is now {sub}]"]


async def test_the_command_sees_the_same_variables_as_without_a_report(setting: Setting) -> None:
    shown = "env | cut -d= -f1 | sort"
    assert (await setting.run("bash", kept(setting), command=shown)).text == (
        await setting.run("bash", command=shown)
    ).text


async def test_without_bash_nothing_is_reported_and_no_bash_below_reports_for_it(setting: Setting, sub: Path) -> None:
    empty = {"PATH": str(setting.base / "nowhere"), "HOME": str(setting.base)}
    context = msgspec.structs.replace(kept(setting), environment=empty)
    outcome = await setting.run("bash", context, command='/bin/bash -c "cd sub"; echo "$BASH_ENV"')
    assert "cwd" not in outcome.facts
    note = f"[the folder of this command was not kept; the next command starts in {setting.project}]"
    assert outcome.text.splitlines() == ["(no output)", note]


async def test_nothing_is_left_in_the_temporary_folder(setting: Setting, sub: Path) -> None:
    await setting.run("bash", kept(setting), command="cd sub")
    await setting.run("bash", kept(setting), command="kill -KILL $$")
    assert os.listdir(setting.base / "state" / "tools" / "session1" / "tmp") == []


async def test_the_next_command_starts_where_it_was_judged_to_start(setting: Setting, sub: Path) -> None:
    outcome = await setting.run("bash", kept(setting, sub), command='pwd; echo "$PWD"')
    assert outcome.text.splitlines() == [str(sub), str(sub)]


async def test_a_command_does_not_start_when_its_folder_changed_after_the_judgement(setting: Setting) -> None:
    outside, link = setting.base / "proj-evil", setting.project / "sub"
    link.symlink_to(outside)
    fault = await setting.fault("bash", kept(setting, link), command="touch here")
    assert "is gone since it was checked" in fault
    assert os.listdir(outside) == []


async def test_a_background_job_starts_in_the_folder_and_changes_nothing(setting: Setting, sub: Path) -> None:
    outcome = await setting.run("bash", kept(setting, sub), command="pwd; cd /", background=True)
    assert "cwd" not in outcome.facts
    await setting.registry.jobs.kill("session1", outcome.facts["job_id"])


async def test_a_final_folder_outside_is_recorded_and_told(setting: Setting) -> None:
    outcome = await setting.run("bash", kept(setting), command="cd ..")
    assert outcome.facts["cwd"] == str(setting.base)
    assert "is outside the folders of this session, so the next command starts in the project's folder" in outcome.text


def test_only_a_real_folder_inside_the_roots_is_used(setting: Setting, sub: Path) -> None:
    project, roots = setting.project, (setting.project,)
    (project / "link").symlink_to(setting.base)
    (project / "file").touch()
    assert usable_folder(None, project, roots) == ShellFolder(path=project)
    assert usable_folder(str(project), project, roots) == ShellFolder(path=project)
    assert usable_folder(str(sub), project, roots) == ShellFolder(path=sub)
    for bad in (setting.base, setting.base / "proj-evil", project / "link", project / "file", project / "gone", "sub"):
        used = usable_folder(str(bad), project, roots)
        assert used.path == project
        assert used.note is not None
        assert used.note.startswith("[started in the project's folder: ")


@pytest.mark.parametrize("claim", [b"", b"relative\n", b"/a\0b\n", b"/" + b"a" * 5000, b"/\xff\n"])
def test_a_report_that_is_no_path_is_not_believed(tmp_path: Path, claim: bytes) -> None:
    report = FolderReport(tmp_path)
    report.path.write_bytes(claim)
    assert report.read() is None


def test_a_report_that_is_no_file_is_not_read(tmp_path: Path) -> None:
    link, pipe, folder = FolderReport(tmp_path), FolderReport(tmp_path), FolderReport(tmp_path)
    (tmp_path / "target").write_text("/etc\n")
    link.path.symlink_to(tmp_path / "target")
    os.mkfifo(pipe.path)
    folder.path.mkdir()
    assert link.read() is pipe.read() is folder.read() is None
