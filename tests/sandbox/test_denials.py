"""What a failed command says is read as the wall that it met."""

from pathlib import Path

import pytest

from outlast.runtime.sandbox.command_sandbox import PreparedCommand
from outlast.runtime.sandbox.denials import named_denials
from outlast.runtime.sandbox.limits import ResourceLimits
from outlast.runtime.sandbox.port import CommandRequest, SandboxReport, SandboxTier

ROOT = Path("/tmp/project")


@pytest.mark.parametrize(
    ("said", "need"),
    [
        (
            f"error: could not write config file {ROOT}/.git/config: Device or resource busy",
            f"write:{ROOT}/.git/config",
        ),
        ("error: could not write config file .git/config: Device or resource busy", "write:.git/config"),
        ("mv: cannot move '.git' to 'x': Device or resource busy", "write:.git"),
        ("cp: cannot create regular file '.git/hooks/x': Read-only file system", "write:.git/hooks/x"),
        ("touch: cannot touch '/srv/x': Read-only file system", "write:/srv/x"),
        ("ssh: Could not resolve hostname example.org: Temporary failure in name resolution", "network:example.org"),
    ],
)
def test_refusal_is_named_with_the_need_that_lifts_it(said: str, need: str) -> None:
    [note] = named_denials(said, [ROOT], [], looking=False)
    assert note.startswith("[blocked by the sandbox: ")
    assert f'needs=["{need}"]' in note


@pytest.mark.parametrize(
    "said", ["umount: /mnt: Device or resource busy", "rm: cannot remove 'x': Device or resource busy"]
)
def test_busy_device_elsewhere_is_no_refusal(said: str) -> None:
    assert named_denials(said, [ROOT], [], looking=False) == []


def test_process_killed_by_the_memory_limit_is_named_with_the_result() -> None:
    kills = iter((2, 3))
    request = CommandRequest(
        session_id="s", call_id="c", argv=(), cwd=ROOT, project=ROOT, roots=(ROOT,), environment={}, private=ROOT
    )
    report = SandboxReport(tier=SandboxTier.BUBBLEWRAP)
    command = PreparedCommand({}, request, report, ResourceLimits(), oom_kills=lambda: next(kills))
    assert command.notes(0, None, "") == ["[the memory limit of 80% of this machine was hit: a process was killed]"]
