"""Background jobs: listed, read, killed, and never seen by another session."""

import asyncio
from pathlib import Path

import pytest

from outlast.runtime.tools.process import background_jobs
from outlast.runtime.tools.registry import BuiltinRegistry
from tests.unit.runtime.tools.setting import Setting


async def finished(setting: Setting, job: str) -> None:
    await asyncio.wrap_future(setting.registry.jobs._get("session1", job).command.ended)


async def started(setting: Setting, command: str) -> str:
    return str((await setting.run("bash", command=command, background=True)).facts["job_id"])


async def test_job_returns_at_once_and_its_output_is_read_piece_by_piece(setting: Setting) -> None:
    job = await started(setting, "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two")
    text = ""
    while "one" not in text:
        text = (await setting.run("bash_output", job_id=job)).text
    assert text == f"one\n[{job}: running]"
    assert (await setting.run("bash_output", job_id=job)).text == f"(nothing new)\n[{job}: running]"
    (setting.project / "go").touch()
    await finished(setting, job)
    assert (await setting.run("bash_output", job_id=job)).text == f"two\n[{job}: exited with code 0]"


async def test_job_is_recorded_when_it_starts(setting: Setting) -> None:
    await started(setting, "sleep 60")
    assert len(setting.spawned) == 1


async def test_kill_ends_the_job_and_what_it_started(setting: Setting) -> None:
    job = await started(setting, "sleep 60 & setsid sleep 60 & echo $! > pid; wait")
    while not (setting.project / "pid").exists() or not (setting.project / "pid").read_text():
        await asyncio.sleep(0.01)
    outcome = await setting.run("bash_kill", job_id=job)
    assert outcome.text == f"{job}: killed."
    assert not Path(f"/proc/{(setting.project / 'pid').read_text().strip()}").exists()
    assert (await setting.run("bash_kill", job_id=job)).text == f"{job}: killed."


async def test_list_shows_state_and_command(setting: Setting) -> None:
    job = await started(setting, "exit 4")
    await finished(setting, job)
    (view,) = setting.registry.jobs.list("session1")
    assert (view.job_id, view.command, view.state) == (job, "exit 4", "exited with code 4")


async def test_job_of_another_session_is_unknown(setting: Setting) -> None:
    job = await started(setting, "sleep 60")
    other = setting.context(session_id="session2")
    assert f"there is no job '{job}'" in await setting.fault("bash_output", other, job_id=job)
    assert f"there is no job '{job}'" in await setting.fault("bash_kill", other, job_id=job)
    assert setting.registry.jobs.list("session2") == []


async def test_too_many_jobs_are_refused(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_jobs, "MOST", 1)
    await started(setting, "sleep 60")
    assert "end one with bash_kill" in await setting.fault("bash", command="true", background=True)


async def test_time_limit_of_a_job_is_kept(setting: Setting) -> None:
    outcome = await setting.run("bash", command="sleep 60", background=True, timeout=1)
    await finished(setting, outcome.facts["job_id"])
    assert setting.registry.jobs.list("session1")[0].state == "ended: it took longer than its limit of 1 s"


async def test_long_output_of_a_job_is_an_excerpt(setting: Setting) -> None:
    job = await started(setting, "seq 100000")
    await finished(setting, job)
    text = (await setting.run("bash_output", job_id=job)).text
    assert len(text) < 31_000
    assert "bytes left out here" in text
    assert text.splitlines()[-2] == "100000"


async def test_closing_ends_all_jobs_of_the_session_and_removes_their_logs(setting: Setting) -> None:
    await started(setting, "sleep 60")
    log = setting.registry.jobs._jobs["session1"].copy().popitem()[1].command.order.log
    pid = setting.spawned[0].pid
    await setting.registry.close("session1")
    assert not Path(f"/proc/{pid}").exists()
    assert not log.exists()


def test_job_outlives_the_event_loop_that_started_it(tmp_path: Path) -> None:
    setting = Setting(tmp_path, BuiltinRegistry())
    job = asyncio.run(started(setting, "sleep 0.3; echo late"))

    async def rest() -> str:
        await finished(setting, job)
        text = (await setting.run("bash_output", job_id=job)).text
        await setting.registry.close()
        return text

    assert asyncio.run(rest()) == f"late\n[{job}: exited with code 0]"
