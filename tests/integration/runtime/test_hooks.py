"""Hooks around tool calls: they may forbid, they fail closed, and a project's own run only with consent."""

import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from outlast.core.errors import ConfigError
from outlast.core.messages import ToolCall
from outlast.runtime.hooks import Hook, Hooks, load_hooks
from outlast.runtime.permissions.consent import Consents
from outlast.runtime.permissions.decision import Verdict
from outlast.runtime.tools.port import ToolOutcome

CALL = ToolCall(id="c1", name="bash", arguments={"command": "ls"})
ENVIRONMENT = {"PATH": os.defpath}


def pre(command: str, tool: str = "", timeout: float = 20.0, event: str = "pre") -> Hook:
    return Hook(event=event, command=command, tool=tool, timeout=timeout, origin="test")


def hooks_of(project: Path, *hooks: Hook) -> Hooks:
    return Hooks(hooks, project=project, environment=ENVIRONMENT)


async def verdict_of(project: Path, *hooks: Hook) -> tuple[str | None, str]:
    found = await hooks_of(project, *hooks).before(CALL)
    return (str(found.verdict), found.reason) if found else (None, "")


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("true", None),
        ("echo nothing to say", None),
        ("echo '{}'", None),
        ("""echo '{"decision": "allow"}'""", "allow"),
        ("""echo '{"decision": "ask", "reason": "why"}'""", "ask"),
        ("""echo '{"decision": "deny"}'""", "deny"),
        ("""echo '{"decision": "perhaps"}'""", "deny"),
        ("echo '{'", "deny"),
        ("echo no >&2; exit 2", "deny"),
        ("exit 1", "deny"),
        ("no-such-program-anywhere", "deny"),
        ("kill -9 $$", "deny"),
    ],
)
async def test_a_hook_decides_by_its_exit_code_and_answer_and_fails_closed(
    tmp_path: Path, command: str, verdict: str | None
) -> None:
    found, _ = await verdict_of(tmp_path, pre(command))
    assert found == verdict


async def test_a_hook_that_does_not_end_denies_and_leaves_nothing_behind(tmp_path: Path) -> None:
    held = tmp_path / "held"
    os.mkfifo(held)
    reader = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
    command = f"sh -c 'exec 3> {held}; echo x >&3; sleep 600' & wait"
    found, reason = await verdict_of(tmp_path, pre(command, timeout=1.0))
    assert (found, "within 1 seconds" in reason) == ("deny", True)
    os.set_blocking(reader, True)
    with open(reader, "rb") as file:
        assert file.read() == b"x\n"  # the end of the pipe comes only when nobody holds it any more


async def test_a_hook_reads_the_whole_call_on_stdin(tmp_path: Path) -> None:
    await verdict_of(tmp_path, pre("cat > told.json"))
    told = json.loads((tmp_path / "told.json").read_text())
    assert (told["event"], told["tool"], told["arguments"], told["call_id"]) == ("pre", "bash", {"command": "ls"}, "c1")


async def test_a_hook_is_told_the_folder_where_a_command_starts(tmp_path: Path) -> None:
    hooks = hooks_of(tmp_path, pre("cat > seen.json"))
    await hooks.before(CALL)
    assert json.loads((tmp_path / "seen.json").read_text())["cwd"] == str(tmp_path)
    await hooks.before(CALL, tmp_path / "sub")
    assert json.loads((tmp_path / "seen.json").read_text())["cwd"] == str(tmp_path / "sub")


async def test_a_hook_need_not_read_its_input_and_may_say_a_lot(tmp_path: Path) -> None:
    call = ToolCall(id="c1", name="write", arguments={"content": "x" * 2_000_000})
    talk = f"{shlex.quote(sys.executable)} -c \"print('y' * 3_000_000)\""
    assert await hooks_of(tmp_path, pre(talk)).before(call) is None


async def test_the_strictest_of_several_hooks_counts(tmp_path: Path) -> None:
    allow, ask = pre("""echo '{"decision": "allow"}'"""), pre("""echo '{"decision": "ask"}'""")
    assert (await verdict_of(tmp_path, allow, ask, allow))[0] == "ask"
    assert (await verdict_of(tmp_path, ask, pre("exit 2")))[0] == "deny"


async def test_a_hook_for_another_tool_is_not_run(tmp_path: Path) -> None:
    assert (await verdict_of(tmp_path, pre("exit 2", tool="write")))[0] is None


async def test_a_denied_call_runs_the_failure_hooks_once(tmp_path: Path) -> None:
    await verdict_of(tmp_path, pre("exit 2"), pre("echo x >> failed", event="failure"), pre("exit 2"))
    assert (tmp_path / "failed").read_text() == "x\n"


async def test_after_a_call_the_hooks_of_its_outcome_speak(tmp_path: Path) -> None:
    hooks = hooks_of(tmp_path, pre("echo fine", event="post"), pre("echo pity", event="failure"))
    assert await hooks.after(CALL, ToolOutcome(text="a")) == "fine"
    assert await hooks.after(CALL, ToolOutcome(text="a", is_error=True)) == "pity"
    broken = hooks_of(tmp_path, pre("echo bad >&2; exit 3", event="post"))
    assert "failed (3): bad" in str(await broken.after(CALL, ToolOutcome(text="a")))


def write_hooks(folder: Path, content: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "hooks.json"
    path.write_text(content)
    return path


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "one JSON object"),
        ('{"before": []}', "unknown key 'before'"),
        ('{"pre": {}}', "must be a list"),
        ('{"pre": ["x"]}', "pre hook 1 must be an object"),
        ('{"pre": [{"command": "x"}, {}]}', "pre hook 2: command"),
        ('{"post": [{"command": "x", "when": 1}]}', "unknown key 'when'"),
        ('{"pre": [{"command": "x", "tool": 5}]}', "tool must be"),
        ('{"pre": [{"command": "x", "timeout": "1"}]}', "timeout must be"),
        ('{"pre": [{"command": "x", "timeout": 0}]}', "timeout must be"),
        ('{"pre": [{"command": "x", "timeout": true}]}', "timeout must be"),
    ],
)
def test_a_malformed_hooks_file_is_refused_in_one_sentence(tmp_path: Path, content: str, said: str) -> None:
    for folder in (tmp_path / "home", tmp_path / "proj" / ".outlast"):
        path = write_hooks(folder, content)
        with pytest.raises(ConfigError) as caught:
            load_hooks(home=tmp_path / "home", project=tmp_path / "proj", environment={})
        assert said in str(caught.value)
        assert str(path) in str(caught.value)
        path.unlink()


async def test_a_projects_hooks_run_only_with_consent_to_them_and_to_the_files_they_name(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "proj"
    path = write_hooks(project / ".outlast", '{"pre": [{"command": "sh ./check.sh"}]}')
    script = project / "check.sh"
    script.write_text("exit 2\n")
    asked = load_hooks(home=home, project=project, environment=ENVIRONMENT)
    assert asked.hooks == ()
    assert asked.pending is not None
    assert await asked.before(CALL) is None
    Consents(home).give(path, asked.pending.digest)
    trusted = load_hooks(home=home, project=project, environment=ENVIRONMENT)
    denied = await trusted.before(CALL)
    assert denied is not None
    assert denied.verdict is Verdict.DENY
    script.write_text("touch ran; exit 0\n")
    changed = await trusted.before(CALL)
    assert changed is not None
    assert "changed since you consented" in changed.reason
    assert not (project / "ran").exists()
    assert load_hooks(home=home, project=project, environment=ENVIRONMENT).pending is not None


def test_the_users_own_hooks_need_no_consent(tmp_path: Path) -> None:
    write_hooks(tmp_path / "home", '{"pre": [{"command": "x", "tool": "bash", "timeout": 5}]}')
    [hook] = load_hooks(home=tmp_path / "home", project=tmp_path, environment={}).hooks
    assert (hook.command, hook.tool, hook.timeout) == ("x", "bash", 5.0)
