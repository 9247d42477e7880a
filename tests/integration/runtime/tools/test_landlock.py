"""Landlock: what a confined command cannot write. Where the kernel has it, nothing here is skipped."""

import asyncio
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from outlast.runtime.sandbox import landlock
from tests.conftest import everything_is_required
from tests.unit.runtime.tools.setting import Setting

SHARED = Path("/tmp") / f"outlast-{secrets.token_hex(8)}"
"""In the temporary folder of everybody, which is not that of the session."""


@pytest.fixture(autouse=True)
def _landlock() -> None:
    support = landlock.available()
    if not support and everything_is_required():
        pytest.fail(support.reason)
    if not support:
        pytest.skip(support.reason)


@pytest.mark.parametrize(
    "command",
    [
        "echo x > ../outside",
        "echo x >> ../secret.txt",
        ": > ../secret.txt",
        "truncate -s 0 ../secret.txt",
        "rm ../secret.txt",
        "mv ../secret.txt .",
        "mkdir ../folder",
        "rmdir ../proj-evil",
        "ln -s /etc ../link",
        "ln ../secret.txt hard",
        "mkfifo ../pipe",
        "cp /etc/hostname ../copy",
        "echo x > ../proj-evil/file",
        "ln -s ../secret.txt in && echo x > in",
        "(cd .. && echo x > outside)",
        "setsid --wait bash -c 'echo x > ../outside'",
        "mv own ../outside",
        "echo x > SHARED",
        "bash -c 'exec 3<>../secret.txt; echo x >&3'",
    ],
)
async def test_confined_command_cannot_write_outside(setting: Setting, command: str) -> None:
    (setting.project / "own").write_text("own")
    outcome = await setting.run("bash", command=command.replace("SHARED", str(SHARED)))
    assert outcome.facts["confined"] is True
    assert outcome.facts["exit_code"] not in (0, None), outcome.text
    assert setting.secret.read_text() == "secret\n"
    assert sorted(path.name for path in setting.base.iterdir()) == ["proj", "proj-evil", "secret.txt", "state"]
    assert list((setting.base / "proj-evil").iterdir()) == []
    assert not SHARED.exists()


@pytest.mark.parametrize(
    "command",
    [
        "echo x > file && mkdir -p a/b && mv file a/b/ && rm -r a",
        'echo x > "$TMPDIR/t" && t=$(mktemp) && echo y > "$t" && rm "$t"',
        "cat <<< here; cat << E\nthere\nE",
        "echo x > /dev/null; cat /etc/hostname ../secret.txt > /dev/null",
        "ln -s file link && ln -s /etc/hostname other && cat other > copy",
        "mkdir a b && echo x > a/f && mv a/f b/g && cat b/g",
        "git init -q . && git -c user.email=a@b -c user.name=n commit -q --allow-empty -m x",
        f"{sys.executable} -c 'import multiprocessing; multiprocessing.Lock()'",
        "echo x | tee out | wc -c",
        "echo x > /dev/stdout; echo y > /dev/stderr",
    ],
)
async def test_confined_command_works_inside_and_in_its_temporary_folder(setting: Setting, command: str) -> None:
    outcome = await setting.run("bash", command=command)
    assert outcome.facts["exit_code"] == 0, outcome.text
    assert outcome.facts["confined"] is True


async def test_every_root_is_writable(setting: Setting) -> None:
    context = setting.context(roots=(setting.project, setting.base / "proj-evil"))
    outcome = await setting.run("bash", context, command="echo x > ../proj-evil/file && mv ../proj-evil/file .")
    assert outcome.facts["exit_code"] == 0, outcome.text


async def test_temporary_folder_is_the_session_s_own(setting: Setting) -> None:
    outcome = await setting.run("bash", command='echo "$TMPDIR"; stat -c %a "$TMPDIR"')
    folder, mode = outcome.text.splitlines()
    assert Path(folder).is_relative_to(setting.base / "state")
    assert "session1" in folder
    assert mode == "700"


async def test_confined_command_cannot_signal_us_or_its_supervisor(setting: Setting) -> None:
    if landlock.available().abi < 6:
        pytest.skip("signals are scoped from version 6 of Landlock on")
    with subprocess.Popen(["sleep", "60"]) as other:
        outcome = await setting.run("bash", command=f"kill -9 {other.pid}; kill -9 $PPID; echo still here")
        assert other.poll() is None
        other.kill()
    assert outcome.text.endswith("still here")
    assert outcome.text.count("not permitted") == 2


async def test_background_job_is_confined_too(setting: Setting) -> None:
    started = await setting.run("bash", command="echo x > ../outside", background=True)
    job = started.facts["job_id"]
    await asyncio.wrap_future(setting.registry.jobs._get("session1", job).command.ended)
    assert "ermission denied" in (await setting.run("bash_output", job_id=job)).text
    assert not (setting.base / "outside").exists()


def test_confinement_that_cannot_be_had_is_an_error_never_a_free_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "available", lambda: landlock.Support(0, "no Landlock here"))
    with pytest.raises(OSError, match="no Landlock here"):
        landlock.confine([])


@pytest.mark.parametrize(
    "command",
    [
        "echo x > new",
        "echo x >> own",
        "rm own",
        "mkdir folder",
        "mv own other",
        "ln own hard",
        "sh -c 'echo x > new'",
        "uniq ./[ab].txt",
        "printf '12345%n' PATH; ls",
    ],
)
async def test_command_that_may_only_look_writes_nothing_in_the_project(setting: Setting, command: str) -> None:
    names = {"own": "own", "a.txt": "a", "b.txt": "b"}
    for name, text in names.items():
        (setting.project / name).write_text(text)
    (setting.project / "5").mkdir()
    (setting.project / "5" / "ls").write_text("#!/bin/sh\n: > hacked\n")
    (setting.project / "5" / "ls").chmod(0o755)
    outcome = await setting.run("bash", setting.context(looking=True), command=command)
    assert outcome.facts["confined"] is True
    assert outcome.is_error, outcome.text
    assert {path.name: path.read_text() for path in setting.project.iterdir() if path.is_file()} == names


async def test_command_that_may_only_look_reads_and_has_its_temporary_folder(setting: Setting) -> None:
    (setting.project / "own").write_text("own\n")
    command = 'cat own ../secret.txt > "$TMPDIR/t" && cat "$TMPDIR/t"; cat <<< here > /dev/null'
    outcome = await setting.run("bash", setting.context(looking=True), command=command)
    assert outcome.text == "own\nsecret"


def home_of(setting: Setting) -> Path:
    home = setting.base / "own-home"
    (home / "state").mkdir(parents=True)
    (home / "skills").mkdir()
    (home / "state" / "token").write_text("the token")
    (home / "config.toml").write_text("the key")
    (home / "skills" / "run.sh").write_text("echo the skill\n")
    (setting.base / "link").symlink_to(home)
    (setting.project / "link").symlink_to(home)
    return home


@pytest.mark.parametrize(
    "command",
    [
        "cat ../own-home/state/token",
        "cat ../own-home/config.toml",
        "cat link/state/token ../link/config.toml",
        "cd ../own-home/state && cat token",
        "cat /proc/self/root$PWD/../own-home/state/token",
        "cp ../own-home/state/token t; cat t",
        "ln ../own-home/state/token t; cat t",
        "mv ../own-home/state/token t; cat t",
        "bash -c 'exec 3< ../own-home/state/token; cat <&3'",
        f"{sys.executable} -c 'print(open(\"../own-home/state/token\").read())'",
        "setsid --wait cat ../own-home/state/token",
        "grep -r the ../own-home/state ../own-home/config.toml",
    ],
)
async def test_confined_command_cannot_read_the_home(setting: Setting, command: str) -> None:
    home = home_of(setting)
    context = setting.context(hidden=(home,), state_dir=home / "state")
    outcome = await setting.run("bash", context, command=command)
    assert outcome.facts["confined"] is True
    assert "the token" not in outcome.text
    assert "the key" not in outcome.text
    assert outcome.is_error
    free = await setting.run("bash", setting.context(confined=False), command="cat ../own-home/state/token")
    assert free.text == "the token"


async def test_confined_command_reads_everything_but_the_home(setting: Setting) -> None:
    home = home_of(setting)
    (setting.project / "own").write_text("own\n")
    context = setting.context(hidden=(home,), state_dir=home / "state")
    command = (
        'cat own ../secret.txt; echo new > new; cat new; echo x > "$TMPDIR/t"; cat "$TMPDIR/t"; cat /etc/hostname '
        "> /dev/null; sh ../own-home/skills/run.sh; cat <(echo sub); cat <<< here; python3 -I -c 'print(1)'; "
        "ls ../own-home"
    )
    outcome = await setting.run("bash", context, command=command)
    assert outcome.text.splitlines() == [
        *("own", "secret", "new", "x", "the skill", "sub", "here", "1"),
        *("config.toml", "skills", "state"),
    ]


async def test_project_inside_the_home_can_be_read(setting: Setting) -> None:
    home = home_of(setting)
    project = home / "demo"
    project.mkdir()
    (project / "own").write_text("own\n")
    context = setting.context(hidden=(home,), state_dir=home / "state", project=project, roots=(project,))
    outcome = await setting.run("bash", context, command="cat own; cat ../config.toml")
    assert outcome.text.startswith("own\n")
    assert "the key" not in outcome.text


async def test_home_inside_the_project_is_hidden_too(setting: Setting) -> None:
    home = setting.project / ".outlast"
    home.mkdir()
    (home / "config.toml").write_text("the key")
    (setting.project / "src").mkdir()
    context = setting.context(hidden=(home,), state_dir=home / "state")
    command = (
        "echo own > src/new; cat src/new; cat ../secret.txt; cat .outlast/config.toml; echo x > .outlast/config.toml"
    )
    outcome = await setting.run("bash", context, command=command)
    assert outcome.text.startswith("own\nsecret\n")
    assert (home / "config.toml").read_text() == "the key"
    assert outcome.text.count("ermission denied") == 2


def test_what_is_hidden_is_left_out_of_what_can_be_read_and_links_grant_nothing(tmp_path: Path) -> None:
    for name in ("user/.outlast/state", "user/work", "other", "closed"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "user" / "way-in").symlink_to(tmp_path / "user" / ".outlast")
    (tmp_path / "user" / "all").symlink_to("/")
    home, user = str(tmp_path / "user/.outlast"), str(tmp_path / "user")
    found = landlock._without([home], ["/", f"{home}/state"])
    ours = {path for path in found if path.startswith(f"{tmp_path}/")}
    assert ours == {str(tmp_path / name) for name in ("user/work", "other", "closed", "user/.outlast/state")}
    assert "/" not in found
    assert str(tmp_path) not in found
    assert "/etc" in found
    assert landlock._without([], [user]) == [user]
    assert landlock._without([home], [user]) == [f"{user}/work"]
    assert landlock._without([home], [home]) == [home]


async def test_confined_command_cannot_read_the_environment_of_the_agent_even_as_root(setting: Setting) -> None:
    command = f"cat /proc/{os.getpid()}/environ /proc/$PPID/environ | wc -c; cat /proc/self/environ | wc -c"
    outcome = await setting.run("bash", command=command)
    assert outcome.text.count("ermission denied") == 2
    nothing, own = (int(line) for line in outcome.text.splitlines() if line.isdigit())
    assert nothing == 0
    assert own > 0
