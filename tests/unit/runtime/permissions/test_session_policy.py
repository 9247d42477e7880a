"""The gate joins the policy of the process with the approvals of a session."""

from pathlib import Path

import pytest

from outlast.core.state import Approval, SessionState
from outlast.runtime.permissions.evaluate import Decision, Verdict, call_digest
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.permissions.rule_files import load_rules
from outlast.runtime.permissions.rules import PermissionRule, RuleSet, flag_rules
from outlast.runtime.permissions.session_policy import SessionPolicy, session_grants
from tests.unit.runtime.permissions.place import bash, call, make_project


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path)


def gate_of(project: Path, **more: object) -> SessionPolicy:
    return SessionPolicy(project=project, roots=(project,), prompting=True, **more)  # pyright: ignore[reportArgumentType]


def test_a_session_can_lower_the_mode_and_never_raise_it(project: Path) -> None:
    gate = gate_of(project, ceiling=PermissionMode.WORKSPACE_WRITE)
    assert gate.request(PermissionMode.ALLOW) is PermissionMode.WORKSPACE_WRITE
    assert gate.request(PermissionMode.READ_ONLY) is PermissionMode.READ_ONLY
    assert gate.judge(call("write", file_path="x"), SessionState()).verdict is Verdict.DENY


def test_pytest_granted_for_the_session_is_not_asked_again_with_other_arguments(project: Path) -> None:
    gate = gate_of(project)
    state = SessionState()
    assert gate.judge(bash("pytest -q"), state).verdict is Verdict.ASK
    state.runtime["grants"] = [gate.grant(bash("pytest -q"))]
    assert gate.judge(bash("pytest -q tests | tail"), state).verdict is Verdict.ALLOW
    assert gate.judge(bash("pytest; rm x"), state).verdict is Verdict.ASK


def test_a_destructive_command_granted_for_the_session_is_granted_as_it_is(project: Path) -> None:
    gate = gate_of(project)
    state = SessionState()
    state.runtime["grants"] = [gate.grant(bash("rm -rf build"))]
    assert gate.judge(bash("rm -rf build"), state).verdict is Verdict.ALLOW
    assert gate.judge(bash("rm -rf src"), state).verdict is Verdict.ASK


def test_first_words_that_no_answer_could_have_given_do_not_count() -> None:
    forged = [{"tool": "bash", "commands": [["rm"], ["pytest"], []]}, {"x": 1}, "y", {"tool": 5}]
    [grant] = session_grants(forged)
    assert grant.commands == (("pytest",),)
    assert session_grants("x") == ()


def test_always_is_remembered_by_this_gate_and_by_the_next_one(project: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    gate = gate_of(project, home=home, project_key="k1")
    gate.always(bash("cargo test --all"))
    gate.always(bash("rm x"))
    later = gate_of(project, rules=load_rules(home=home, project=project, project_key="k1").rules)
    for one in (gate, later):
        assert one.judge(bash("cargo test -p x"), SessionState()).verdict is Verdict.ALLOW
        assert one.judge(bash("rm x"), SessionState()).verdict is Verdict.ALLOW
        assert one.judge(bash("rm y"), SessionState()).verdict is Verdict.ASK


def test_a_call_that_was_asked_before_is_asked_again_though_nobody_is_here(project: Path) -> None:
    gate = SessionPolicy(project=project, roots=(project,), prompting=False)
    made, state = bash("rm x"), SessionState()
    assert gate.judge(made, state).verdict is Verdict.DENY
    digest = call_digest(made.name, made.arguments)
    state.approvals.append(Approval(seq=3, call_id=made.id, name="bash", call_digest=digest, reason=None))
    assert gate.judge(made, state).verdict is Verdict.ASK


def test_facts_say_which_policy_was_in_force(project: Path) -> None:
    gate = gate_of(project, rules=RuleSet(deny=(PermissionRule(tool="x"),), source="rules.json"))
    assert gate.facts() == {
        "permission_mode": "workspace-write",
        "permission_prompting_enabled": True,
        "permission_rule_counts": {"allow": 0, "deny": 1, "ask": 0},
        "permission_rules_source": "rules.json",
    }


WRITERS = ["git commit -m x", "npm install", "prettier --write .", "git restore .", "make test", "pytest"]


@pytest.mark.parametrize("command", WRITERS)
def test_what_was_allowed_in_another_mode_is_asked_about_in_read_only_and_denied_in_plan_mode(
    project: Path, tmp_path: Path, command: str
) -> None:
    gate = gate_of(project, home=tmp_path / "home", project_key="k1")
    gate.always(bash(command))
    grants = [gate.grant(bash(command))]
    assert "mode" not in grants[0]
    assert gate.judge(bash(command), SessionState(runtime={"grants": grants})).verdict is Verdict.ALLOW
    assert gate.judge(bash(command), SessionState()).verdict is Verdict.ALLOW
    planning = SessionState(runtime={"grants": grants, "workflow_mode": "plan"})
    assert gate.judge(bash(command), planning).verdict is Verdict.DENY
    gate.request(PermissionMode.READ_ONLY)
    assert gate.judge(bash(command), SessionState(runtime={"grants": grants})).verdict is Verdict.ASK


def test_a_grant_given_where_one_may_only_look_counts_there_and_elsewhere(project: Path) -> None:
    gate = gate_of(project)
    gate.request(PermissionMode.READ_ONLY)
    assert gate.judge(bash("pytest -q"), SessionState()).verdict is Verdict.ASK
    grants = [gate.grant(bash("pytest -q"))]
    assert grants[0]["mode"] == "read-only"
    granted = SessionState(runtime={"grants": grants})
    assert gate.judge(bash("pytest -x"), granted).verdict is Verdict.ALLOW
    gate.request(PermissionMode.WORKSPACE_WRITE)
    assert gate.judge(bash("pytest -x"), SessionState(runtime={"grants": grants})).verdict is Verdict.ALLOW


def test_a_whole_tool_allowed_by_a_rule_is_not_allowed_in_read_only_mode(project: Path) -> None:
    rules = RuleSet(allow=tuple(PermissionRule(tool=name) for name in ("bash", "write", "deploy", "web_fetch")))
    gate = gate_of(project, rules=rules)
    gate.request(PermissionMode.READ_ONLY)
    made = [bash("make"), call("write", file_path="x"), call("deploy"), call("web_fetch", url="x")]
    verdicts = [gate.judge(one, SessionState()).verdict for one in made]
    assert verdicts == [Verdict.ASK, Verdict.DENY, Verdict.DENY, Verdict.ALLOW]


def test_a_flag_counts_in_a_process_that_was_started_read_only(project: Path) -> None:
    rules = flag_rules(["bash(make *)"]) + RuleSet(allow=(PermissionRule(tool="bash", command=("npm", "ci")),))
    started = gate_of(project, rules=rules, ceiling=PermissionMode.READ_ONLY)
    assert started.judge(bash("make lint"), SessionState()).verdict is Verdict.ALLOW
    assert started.judge(bash("npm ci"), SessionState()).verdict is Verdict.ASK
    lowered = gate_of(project, rules=rules)
    lowered.request(PermissionMode.READ_ONLY)
    assert lowered.judge(bash("make lint"), SessionState()).verdict is Verdict.ASK


def test_a_hook_can_forbid_but_not_allow_a_command_in_read_only_mode(project: Path) -> None:
    gate = gate_of(project)
    answers = {verdict: Decision(verdict=verdict, code="hook", reason="says so") for verdict in Verdict}
    assert gate.judge(bash("make"), SessionState(), answers[Verdict.ALLOW]).verdict is Verdict.ALLOW
    gate.request(PermissionMode.READ_ONLY)
    assert gate.judge(bash("make"), SessionState(), answers[Verdict.ALLOW]).verdict is Verdict.ASK
    assert gate.judge(bash("ls"), SessionState(), answers[Verdict.ALLOW]).verdict is Verdict.ALLOW
    assert gate.judge(bash("ls"), SessionState(), answers[Verdict.DENY]).verdict is Verdict.DENY
