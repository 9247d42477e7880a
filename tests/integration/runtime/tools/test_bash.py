"""bash: what a command sees, how it ends, what is told of it."""

import asyncio
import os
import time
from pathlib import Path

import msgspec
import pytest

from outlast.runtime.sandbox import landlock
from outlast.runtime.tools.builtin.bash import IN_MEMORY
from outlast.runtime.tools.port import Spawned
from tests.unit.runtime.tools.setting import Setting


async def test_output_and_exit_code_are_told(setting: Setting) -> None:
    outcome = await setting.run("bash", command="echo out; echo err >&2; exit 3")
    assert outcome.text == "out\nerr\n[exit code 3]"
    assert outcome.is_error
    assert (outcome.facts["exit_code"], outcome.facts["signal"], outcome.facts["reason"]) == (3, None, "exited")
    assert outcome.facts["seconds"] >= 0


async def test_success_is_no_error_and_silence_is_said(setting: Setting) -> None:
    outcome = await setting.run("bash", command="true")
    assert (outcome.text, outcome.is_error) == ("(no output)", False)


async def test_command_starts_in_the_project_with_its_session_in_the_environment(setting: Setting) -> None:
    outcome = await setting.run(
        "bash", command='pwd; echo "$OUTLAST_SESSION_ID"; env | cut -d= -f1 | sort | tr "\\n" " "'
    )
    lines = outcome.text.splitlines()
    assert lines[:2] == [str(setting.project), "session1"]
    assert set(lines[2].split()) == {
        "OUTLAST_COMMAND",
        "OUTLAST_SESSION_ID",
        "HOME",
        "PATH",
        "PWD",
        "SHLVL",
        "TMPDIR",
        "_",
    }


async def test_standard_input_is_closed_and_there_is_no_terminal(setting: Setting) -> None:
    outcome = await setting.run(
        "bash", command="read x; echo $?; (echo hi > /dev/tty) 2>/dev/null; echo $?", timeout=10
    )
    assert outcome.text.splitlines() == ["1", "1"]


async def test_command_has_a_session_and_a_process_group_of_its_own(setting: Setting) -> None:
    outcome = await setting.run("bash", command="ps -o pgid=,sess= -p $$")
    group, session = map(int, outcome.text.split())
    assert group != os.getpgrp()
    assert session != os.getsid(0)
    assert session == setting.spawned[0].pid


async def test_no_descriptor_of_ours_is_inherited(setting: Setting) -> None:
    with (setting.base / "secret.txt").open() as file:
        os.set_inheritable(file.fileno(), True)
        outcome = await setting.run("bash", command="ls /proc/self/fd")
    assert outcome.text.split() == ["0", "1", "2", "3"]  # 3 is the folder that ls reads


async def test_start_is_on_record_before_the_command_runs(setting: Setting) -> None:
    flag = setting.project / "ran"
    seen: list[bool] = []

    async def spawned(process: Spawned) -> None:
        await asyncio.sleep(0.1)
        seen.append(flag.exists())
        assert Path(f"/proc/{process.pid}").exists()
        assert process.started.isdigit()

    await setting.run("bash", setting.context(spawned=spawned), command="touch ran")
    assert (seen, flag.exists()) == ([False], True)


async def test_command_whose_start_cannot_be_recorded_never_runs(setting: Setting) -> None:
    async def spawned(process: Spawned) -> None:
        raise OSError("no store")

    with pytest.raises(OSError, match="no store"):
        await setting.run("bash", setting.context(spawned=spawned), command="touch ran")
    assert not (setting.project / "ran").exists()


async def test_time_limit_ends_it_and_keeps_what_it_said(setting: Setting) -> None:
    began = time.monotonic()
    outcome = await setting.run("bash", command="echo before; sleep 60", timeout=1)
    assert 1 <= time.monotonic() - began < 10
    assert outcome.text.startswith("before\n[ended: it took longer than 1 s")
    assert (outcome.facts["reason"], outcome.facts["signal"]) == ("timeout", "SIGTERM")


async def test_signal_is_told(setting: Setting) -> None:
    outcome = await setting.run("bash", command="kill -SEGV $$")
    assert outcome.text == "[ended by SIGSEGV]"
    assert outcome.facts["exit_code"] is None


async def test_what_a_command_leaves_running_ends_with_it(setting: Setting) -> None:
    outcome = await setting.run("bash", command="sleep 60 & echo $!")
    pid, note = outcome.text.splitlines()
    assert not Path(f"/proc/{pid}").exists()
    assert "1 processes that it had left running were ended" in note


async def test_cancelling_ends_it_within_a_second(setting: Setting) -> None:
    command = "echo $$ > pid; trap '' TERM; while :; do sleep 1; done"
    running = asyncio.create_task(setting.run("bash", command=command))
    while not (setting.project / "pid").exists() or not (setting.project / "pid").read_text().strip():
        await asyncio.sleep(0.01)
    began = time.monotonic()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert time.monotonic() - began < 2
    assert not Path(f"/proc/{(setting.project / 'pid').read_text().strip()}").exists()
    assert not Path(f"/proc/{setting.spawned[0].pid}").exists()


async def test_cancelling_twice_still_waits_for_the_end(setting: Setting) -> None:
    running = asyncio.create_task(setting.run("bash", command="trap '' TERM; touch up; sleep 60; sleep 60"))
    while not (setting.project / "up").exists():
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not Path(f"/proc/{setting.spawned[0].pid}").exists()


async def test_short_output_leaves_no_file(setting: Setting) -> None:
    outcome = await setting.run("bash", command="echo hi")
    assert (outcome.whole, outcome.whole_file) == (None, None)
    assert list((setting.base / "state" / "tools" / "session1" / "output").iterdir()) == []


async def test_long_output_is_an_excerpt_and_the_whole_comes_beside_it(setting: Setting) -> None:
    outcome = await setting.run("bash", command="seq 20000")
    assert outcome.text.startswith("1\n2\n")
    assert outcome.text.endswith("19999\n20000")
    assert "bytes left out; read output:call1 shows them]" in outcome.text
    assert len(outcome.text) < 31_000
    assert outcome.whole == "".join(f"{n}\n" for n in range(1, 20001)).encode()
    assert outcome.whole_file is None


async def test_very_long_output_is_left_in_a_file(setting: Setting) -> None:
    outcome = await setting.run("bash", command=f"head -c {IN_MEMORY + 1} /dev/zero | tr '\\0' x")
    assert outcome.whole is None
    assert outcome.whole_file is not None
    assert outcome.whole_file.stat().st_size == IN_MEMORY + 1
    assert outcome.whole_file.stat().st_mode & 0o777 == 0o600


async def test_bytes_that_are_no_text_do_not_break_it(setting: Setting) -> None:
    outcome = await setting.run("bash", command=r"printf 'a\377\000b\n'")
    assert outcome.text == "a\ufffd\0b"


async def test_progress_is_told_while_it_runs(setting: Setting) -> None:
    await setting.run("bash", command="echo first; sleep 0.6; echo second")
    assert "".join(setting.heard).startswith("first\n")


async def test_nul_in_a_command_is_refused(setting: Setting) -> None:
    assert "NUL" in await setting.fault("bash", command="echo a\0b")


async def test_missing_project_folder_is_told(setting: Setting) -> None:
    context = setting.context(project=setting.base / "gone")
    outcome = await setting.run("bash", context, command="true")
    assert outcome.facts["exit_code"] == 127
    assert "could not be started" in outcome.text


async def test_parallel_commands_do_not_mix(setting: Setting) -> None:
    outcomes = await asyncio.gather(*(setting.run("bash", command=f"echo {n}; sleep 0.1; echo {n}") for n in range(5)))
    assert [outcome.text for outcome in outcomes] == [f"{n}\n{n}" for n in range(5)]


async def test_unconfined_shell_is_only_run_when_told_so(setting: Setting) -> None:
    context = setting.context(confined=False)
    outcome = await setting.run("bash", context, command="echo x > ../outside")
    assert outcome.facts["confined"] is False
    assert (setting.base / "outside").read_text() == "x\n"


async def test_shell_without_landlock_runs_and_says_why_it_is_not_confined(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock, "available", lambda: landlock.Support(0, "this kernel has no Landlock"))
    outcome = await setting.run("bash", command="true")
    assert msgspec.structs.asdict(outcome)["facts"]["why_not_confined"] == "this kernel has no Landlock"


async def test_command_that_removes_its_own_log_is_told_of(setting: Setting) -> None:
    context = setting.context(state_dir=setting.project / ".outlast")
    outcome = await setting.run("bash", context, command="echo hi; sleep 0.6; rm -rf .outlast")
    assert outcome.text == "[its output of 3 bytes is lost: the log was removed]"
    assert outcome.facts["exit_code"] == 0
