"""Walls that a command needs lifted: what is asked, what is refused, what an answer covers."""

from pathlib import Path

import msgspec
import pytest

from outlast.core.errors import ConfigError
from outlast.core.messages import ToolCall
from outlast.runtime.permissions.decision import Grant, Policy, Verdict
from outlast.runtime.permissions.evaluate import decide
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.permissions.rules import PermissionRule, RuleSet, parse_flag, parse_rules

HOST = "network:example.org"


def policy(tmp_path: Path, mode: PermissionMode = PermissionMode.WORKSPACE_WRITE, **more: object) -> Policy:
    project = tmp_path / "proj"
    project.mkdir(exist_ok=True)
    base = Policy(
        mode=mode, project=project, roots=(project,), prompting=True, sandboxed=True, closed=(tmp_path / "home",)
    )
    return msgspec.structs.replace(base, **more)


def bash(command: str, *needs: str, why: str | None = None) -> ToolCall:
    arguments = {"command": command} | ({"needs": list(needs)} if needs else {}) | ({"why": why} if why else {})
    return ToolCall(id="c", name="bash", arguments=arguments)


@pytest.mark.parametrize(
    "command",
    [
        "make -j8",
        "python3 -c 'print(1)'",
        "for f in *; do rm $f; done",
        "git rebase -i HEAD~3",
        "cat <<E\nx\nE",
        "x=1 ./run",
    ],
)
def test_sandboxed_command_runs_unasked(command: str, tmp_path: Path) -> None:
    decision = decide(bash(command), policy(tmp_path))
    assert (decision.verdict, decision.code) == (Verdict.ALLOW, "sandboxed")


def test_command_without_sandbox_is_judged_by_its_text(tmp_path: Path) -> None:
    assert decide(bash("make -j8"), policy(tmp_path, sandboxed=False)).verdict is Verdict.ASK


@pytest.mark.parametrize("planning", [False, True])
def test_read_only_and_plan_mode_run_commands_that_write(planning: bool, tmp_path: Path) -> None:
    mode = PermissionMode.WORKSPACE_WRITE if planning else PermissionMode.READ_ONLY
    assert decide(bash("touch x"), policy(tmp_path, mode, planning=planning)).verdict is Verdict.ALLOW


@pytest.mark.parametrize("need", [HOST, "write:/srv", "localhost:5432", "socket:/run/x.sock"])
def test_read_only_mode_lifts_no_wall(need: str, tmp_path: Path) -> None:
    decision = decide(bash("x", need), policy(tmp_path, PermissionMode.READ_ONLY))
    assert (decision.verdict, decision.code) == (Verdict.DENY, "wall")


def test_prompt_mode_asks_about_every_command(tmp_path: Path) -> None:
    assert decide(bash("ls"), policy(tmp_path, PermissionMode.PROMPT)).verdict is Verdict.ASK


def test_question_about_a_wall_names_it_and_the_models_reason(tmp_path: Path) -> None:
    decision = decide(bash("npm i", HOST, why="it downloads left-pad"), policy(tmp_path))
    assert decision.verdict is Verdict.ASK
    assert "needs the network: example.org" in decision.reason
    assert "it downloads left-pad" in decision.reason


def test_wall_that_nobody_can_be_asked_about_is_denied_with_the_flag_that_lifts_it(tmp_path: Path) -> None:
    decision = decide(bash("npm i", HOST), policy(tmp_path, prompting=False))
    assert (decision.verdict, decision.remedy) == (Verdict.DENY, f"--allow {HOST}")


@pytest.mark.parametrize(
    ("granted", "needed", "lifted"),
    [
        (HOST, HOST, True),
        (HOST, "network:other.org", False),
        ("network:*.example.org", "network:a.example.org", True),
        ("network:*.example.org", "network:evil-example.org", False),
        ("write:/srv/data", "write:/srv/data/x", True),
        ("write:/srv/data", "write:/srv/database", False),
        ("write:/srv/data", "read:/srv/data", False),
        ("localhost:5432", "localhost:5433", False),
    ],
)
def test_grant_lifts_exactly_the_wall_it_names(granted: str, needed: str, lifted: bool, tmp_path: Path) -> None:
    given = policy(tmp_path, grants=(Grant(tool="bash", needs=(granted,)),))
    assert (decide(bash("x", needed), given).verdict is Verdict.ALLOW) is lifted
    ruled = policy(tmp_path, rules=RuleSet(allow=(PermissionRule(tool="bash", need=granted),)))
    assert (decide(bash("x", needed), ruled).verdict is Verdict.ALLOW) is lifted


def test_rule_for_a_command_lifts_no_wall(tmp_path: Path) -> None:
    rules = RuleSet(allow=(PermissionRule(tool="bash", command=("npm",)), PermissionRule(tool="bash")))
    assert decide(bash("npm i", HOST), policy(tmp_path, rules=rules)).verdict is Verdict.ASK


def test_allow_mode_lifts_walls_without_a_question(tmp_path: Path) -> None:
    assert decide(bash("x", HOST, "write:/srv"), policy(tmp_path, PermissionMode.ALLOW)).verdict is Verdict.ALLOW


def test_outlast_home_stays_closed_in_allow_mode_and_through_its_parents(tmp_path: Path) -> None:
    for path in (tmp_path / "home", tmp_path / "home" / "state", tmp_path):
        decision = decide(bash("x", f"write:{path}"), policy(tmp_path, PermissionMode.ALLOW))
        assert (decision.verdict, decision.code) == (Verdict.DENY, "wall")


@pytest.mark.parametrize(("network", "verdict"), [("off", Verdict.DENY), ("ask", Verdict.ASK), ("on", Verdict.ALLOW)])
def test_network_setting_decides_about_hosts(network: str, verdict: Verdict, tmp_path: Path) -> None:
    assert decide(bash("x", HOST), policy(tmp_path, network=network)).verdict is verdict


def test_git_configuration_is_asked_about_and_the_project_is_not(tmp_path: Path) -> None:
    assert decide(bash("git config a.b c", "write:.git/config"), policy(tmp_path)).verdict is Verdict.ASK
    assert decide(bash("touch a", "write:a"), policy(tmp_path)).verdict is Verdict.ALLOW


@pytest.mark.parametrize("need", ["internet", "network:", "network:a/b", "localhost:http", "localhost:70000", "sudo:x"])
def test_malformed_need_is_denied_with_its_form(need: str, tmp_path: Path) -> None:
    decision = decide(bash("x", need), policy(tmp_path))
    assert (decision.verdict, decision.code) == (Verdict.DENY, "need")
    assert need in decision.reason


@pytest.mark.parametrize(
    "command",
    [
        "git clean -fdx",
        "git -C sub clean -ffdX",
        "git stash drop",
        "git stash clear",
        "git reflog expire --all",
        "git gc --prune=now",
        "rm -rf .",
        "rm -rf -- *",
        "rm -r ~",
        "cd x && git clean -fx; true",
        "for d in a; do git stash drop; done",
    ],
)
def test_command_that_destroys_work_for_good_is_asked_about(command: str, tmp_path: Path) -> None:
    decision = decide(bash(command), policy(tmp_path))
    assert (decision.verdict, decision.code) == (Verdict.ASK, "destroys")


@pytest.mark.parametrize(
    "command",
    ["git clean -fd", "git clean -ndx", "git stash", "git stash pop", "rm -rf build", "git gc", "git reset --hard"],
)
def test_command_that_can_be_undone_is_not_asked_about(command: str, tmp_path: Path) -> None:
    assert decide(bash(command), policy(tmp_path)).verdict is Verdict.ALLOW


def test_deny_rule_beats_the_sandbox(tmp_path: Path) -> None:
    rules = RuleSet(deny=(PermissionRule(tool="bash", command=("make",)), PermissionRule(need=HOST)))
    assert decide(bash("make"), policy(tmp_path, rules=rules)).verdict is Verdict.DENY
    assert decide(bash("x", HOST), policy(tmp_path, PermissionMode.ALLOW, rules=rules)).verdict is Verdict.DENY


def test_wall_can_be_named_in_flags_and_rule_files(tmp_path: Path) -> None:
    assert parse_flag("network:*.example.org").need == "network:*.example.org"
    assert parse_rules(tmp_path / "r", b'{"allow": [{"need": "write:/srv"}]}').allow[0].need == "write:/srv"
    for wrong in ("network:", "localhost:x"):
        with pytest.raises(ConfigError):
            parse_flag(wrong)
    with pytest.raises(ConfigError):
        parse_rules(tmp_path / "r", b'{"allow": [{"need": "write:/srv", "command": "npm"}]}')


def test_network_switched_off_beats_the_mode_but_not_a_host_that_the_user_named(tmp_path: Path) -> None:
    off = policy(tmp_path, PermissionMode.ALLOW, network="off")
    assert decide(bash("x", HOST), off).verdict is Verdict.DENY
    named = msgspec.structs.replace(off, rules=RuleSet(allow=(parse_flag(HOST),)))
    assert decide(bash("x", HOST), named).verdict is Verdict.ALLOW


def test_relative_path_of_a_flag_starts_at_the_project_and_a_file_names_absolute_ones(tmp_path: Path) -> None:
    found = policy(tmp_path, prompting=False)
    rules = RuleSet(allow=(parse_flag("write:.git/config", found.project),))
    lifted = msgspec.structs.replace(found, rules=rules)
    assert decide(bash("git config a.b c", "write:.git/config"), lifted).verdict is Verdict.ALLOW
    with pytest.raises(ConfigError, match="'build' is no absolute path: begin it with / or ~/"):
        parse_rules(tmp_path / "r", b'{"allow": [{"need": "write:build"}]}')


@pytest.mark.parametrize("tool", ["bash_output", "bash_kill"])
@pytest.mark.parametrize("mode", [PermissionMode.READ_ONLY, PermissionMode.WORKSPACE_WRITE])
def test_job_of_the_session_is_read_and_ended_unasked(tool: str, mode: PermissionMode, tmp_path: Path) -> None:
    """Its start was decided upon; in prompt mode every call is asked about."""
    made = ToolCall(id="c", name=tool, arguments={"job_id": "job-1"})
    assert decide(made, policy(tmp_path, mode, prompting=False)).verdict is Verdict.ALLOW
    assert decide(made, policy(tmp_path, PermissionMode.PROMPT)).verdict is Verdict.ASK


def test_command_denied_in_prompt_mode_names_the_mode_that_runs_it_in_the_sandbox(tmp_path: Path) -> None:
    decision = decide(bash("make"), policy(tmp_path, PermissionMode.PROMPT, prompting=False))
    assert decision.remedy == "--permission-mode workspace-write"
