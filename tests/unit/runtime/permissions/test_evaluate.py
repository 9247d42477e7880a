"""The order of what decides: deny rules first, then hooks, answers, ask rules, allow rules, and the mode at last."""

from pathlib import Path

import pytest

from outlast.core.messages import ToolCall
from outlast.runtime.permissions.evaluate import Decision, Grant, Policy, Verdict, call_digest, decide, effective_mode
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.permissions.rules import PermissionRule, RuleSet
from tests.unit.runtime.permissions.place import bash, call, make_project, policy_of

READ_ONLY, PROMPT, WRITE, FULL, ALLOW = (
    PermissionMode.READ_ONLY,
    PermissionMode.PROMPT,
    PermissionMode.WORKSPACE_WRITE,
    PermissionMode.DANGER_FULL_ACCESS,
    PermissionMode.ALLOW,
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("decide"))


def hook(verdict: str) -> Decision:
    return Decision(verdict=Verdict(verdict), code=f"hook-{verdict}", reason="so it says")


def verdict_of(command: str, policy: Policy) -> str:
    return decide(bash(command), policy).verdict


DENY, ASK, PERMIT = PermissionRule(contains="ls"), PermissionRule(command=("ls",)), PermissionRule(tool="bash")


@pytest.mark.parametrize(
    ("rules", "said", "mode", "code"),
    [
        (RuleSet(deny=(DENY,), allow=(PERMIT,)), "allow", "allow", "rule-deny"),
        (RuleSet(allow=(PERMIT,)), "deny", "allow", "hook-deny"),
        (RuleSet(ask=(ASK,), allow=(PERMIT,)), "ask", "allow", "hook-ask"),
        (RuleSet(ask=(ASK,), allow=(PERMIT,)), "allow", "allow", "rule-ask"),
        (RuleSet(allow=(PERMIT,)), "allow", "prompt", "hook-allow"),
        (RuleSet(allow=(PERMIT,)), "", "prompt", "rule-allow"),
        (RuleSet(), "", "prompt", "mode-prompt"),
        (RuleSet(), "", "allow", "mode-allow"),
        (RuleSet(), "", "danger-full-access", "mode-danger-full-access"),
        (RuleSet(), "", "workspace-write", "shell-harmless"),
        (RuleSet(), "", "read-only", "shell-harmless"),
    ],
)
def test_the_first_that_applies_decides(project: Path, rules: RuleSet, said: str, mode: str, code: str) -> None:
    policy = policy_of(project, mode, rules=rules, hook=hook(said) if said else None, prompting=True)
    assert decide(bash("ls"), policy).code == code


TABLE = {
    # tool: (read-only, workspace-write, danger-full-access, prompt, allow)
    ("read", "a.txt"): "allow allow allow ask allow",
    ("read", "../x"): "ask ask allow ask allow",
    ("write", "a.txt"): "deny allow allow ask allow",
    ("edit", "../x"): "deny ask allow ask allow",
    ("write", ".git/config"): "deny ask allow ask allow",
    ("web_fetch", ""): "ask ask allow ask allow",
    ("unknown", ""): "deny ask allow ask allow",
    ("todo", ""): "allow allow allow allow allow",
    ("ask_user", ""): "allow allow allow allow allow",
    ("bash", "ls"): "allow allow allow ask allow",
    ("bash", "mkdir x"): "deny ask allow ask allow",
    ("bash", "rm x"): "ask ask allow ask allow",
}


@pytest.mark.parametrize(("tool", "argument"), sorted(TABLE))
def test_what_each_mode_says_when_somebody_can_be_asked(project: Path, tool: str, argument: str) -> None:
    made = bash(argument) if tool == "bash" else call(tool, file_path=argument)
    modes = (READ_ONLY, WRITE, FULL, PROMPT, ALLOW)
    assert [decide(made, policy_of(project, m, prompting=True)).verdict for m in modes] == TABLE[tool, argument].split()


def test_glob_and_search_stay_inside(project: Path) -> None:
    policy = policy_of(project, prompting=True)
    assert decide(call("glob", pattern="**/*.py"), policy).verdict is Verdict.ALLOW
    for outside in (
        {"pattern": "../*"},
        {"pattern": "/etc/*"},
        {"pattern": "*", "path": ".."},
        {"pattern": "*/../../x"},
    ):
        assert decide(call("glob", **outside), policy).verdict is Verdict.ASK
    assert decide(call("search", pattern="x", path="/etc"), policy).verdict is Verdict.ASK


def test_where_nobody_can_be_asked_only_the_remedy_names_the_flag(project: Path) -> None:
    policy, reading = policy_of(project), policy_of(project, "read-only")
    denied = {
        "--allow 'bash(pytest *)'": decide(bash("pytest -q"), policy),
        "--allow 'bash(rm -rf build)'": decide(bash("rm -rf build"), policy),
        "--allow 'bash(python3 -c *)'": decide(bash("python3 -c 'print(1)'"), policy),
        "--permission-mode danger-full-access": decide(bash("echo $(id)"), policy),
        "--allow web_fetch": decide(call("web_fetch", url="x"), policy),
        "--permission-mode workspace-write": decide(call("write", file_path="x"), reading),
    }
    for flag, decision in denied.items():
        assert (decision.verdict, decision.remedy) == (Verdict.DENY, flag)
        assert "--" not in decision.reason, "the model cannot use a flag"


# --- plan mode

ANY_MODE = (READ_ONLY, WRITE, FULL, PROMPT, ALLOW)
PERMITTED = RuleSet(allow=(PermissionRule(tool="bash"), PermissionRule(tool="write"), PermissionRule(tool="mcp_x")))


@pytest.mark.parametrize("mode", ANY_MODE)
@pytest.mark.parametrize(
    "made",
    [
        call("write", file_path="a.txt", content="x"),
        call("edit", file_path="a.txt", old_string="a", new_string="b"),
        call("mcp_x"),
        call("bash_kill", job_id="1"),
        bash("mkdir x"),
        bash("ls > listing"),
        bash("python3 -c 'print(1)'"),
        bash("pytest -q"),
    ],
)
def test_plan_mode_refuses_all_but_reading_in_every_mode_and_says_how_it_is_left(
    project: Path, mode: PermissionMode, made: ToolCall
) -> None:
    decision = decide(made, policy_of(project, mode, prompting=True, planning=True, rules=PERMITTED))
    assert (decision.verdict, decision.code) == (Verdict.DENY, "plan-mode")
    assert "plan mode is on" in decision.reason
    assert "exit_plan(plan)" in decision.reason
    assert decision.remedy is None


@pytest.mark.parametrize("mode", [READ_ONLY, WRITE, FULL, ALLOW])
def test_plan_mode_leaves_reading_to_the_mode(project: Path, mode: PermissionMode) -> None:
    policy = policy_of(project, mode, prompting=True, planning=True)
    for made in (call("read", file_path="a.txt"), call("enter_plan"), call("exit_plan", plan="x"), bash("ls | wc -l")):
        assert decide(made, policy).verdict is Verdict.ALLOW
    outside = decide(call("read", file_path="/etc/hosts"), policy)
    assert outside.verdict is (Verdict.ALLOW if mode in (FULL, ALLOW) else Verdict.ASK)


@pytest.mark.parametrize(
    "command",
    [
        "curl x",
        "ls; curl x",
        "/usr/bin/curl x",
        "c'ur'l x",
        "\\curl x",
        "ls | xargs curl",
        "sh -c 'curl x'",
        "echo $(curl x)",
        "env A=b curl x",
        "sudo -u me curl x",
        "if true; then curl x; fi",
        "find . -exec curl {} ;",
        "timeout 5 curl x",
        "cu\\\nrl x",
        "ls\ncurl x",
        "x=1 curl y",
    ],
)
def test_a_deny_rule_finds_its_program_wherever_it_runs(project: Path, command: str) -> None:
    for mode in ("workspace-write", "allow", "danger-full-access"):
        policy = policy_of(project, mode, rules=RuleSet(deny=(PermissionRule(command=("curl",)),)), prompting=True)
        assert verdict_of(command, policy) == "deny"


def test_a_deny_rule_leaves_alone_what_only_speaks_of_its_program(project: Path) -> None:
    policy = policy_of(
        project, rules=RuleSet(deny=(PermissionRule(command=("curl",)), PermissionRule(command=("git", "push"))))
    )
    for command in ("grep -rn curl .", "echo curl", "git status", "ls curl", "cat src/main.py | grep 'git push'"):
        assert verdict_of(command, policy) == "allow"
    assert verdict_of("git -C src --no-pager push", policy) == "deny"


def test_text_behind_a_long_prefix_does_not_hide_from_a_deny_rule(project: Path) -> None:
    policy = policy_of(project, "allow", rules=RuleSet(deny=(PermissionRule(contains="secret-word"),)))
    made = call("write", file_path="a", content="x" * 1_000_000 + "secret-word")
    assert decide(made, policy).code == "rule-deny"
    nested = call("other", deep=[{"x": [1, {"y": "a secret-word"}]}])
    assert decide(nested, policy).code == "rule-deny"
    assert verdict_of("ls  'sec'ret-word", policy) == "deny"


def test_a_deny_rule_on_a_path_sees_where_it_leads(project: Path) -> None:
    policy = policy_of(
        project,
        "allow",
        rules=RuleSet(deny=(PermissionRule(path_contains="/outside/"), PermissionRule(path_contains="src/ma"))),
    )
    for path in ("link_secret", "link_out/secret.txt", "src/main.py", "./src/../src/main.py"):
        assert decide(call("read", file_path=path), policy).code == "rule-deny"
    for command in ("cat link_secret", "cat 'src'/main.py", "head src//main.py", "cp src/main.py x"):
        assert verdict_of(command, policy) == "deny"
    assert decide(call("read", file_path="a.txt"), policy).verdict is Verdict.ALLOW


def test_an_allow_rule_on_a_path_wants_it_as_written_and_as_resolved(project: Path) -> None:
    policy = policy_of(
        project, "prompt", rules=RuleSet(allow=(PermissionRule(tool="read", path_contains="linkdir/"),)), prompting=True
    )
    (project / "linkdir" / "plain.txt").write_text("x")
    assert decide(call("read", file_path="linkdir/plain.txt"), policy).verdict is Verdict.ALLOW
    assert decide(call("read", file_path="linkdir/link/secret.txt"), policy).verdict is Verdict.ASK
    assert decide(call("read", file_path="linkdir/../.env"), policy).verdict is Verdict.ASK


def test_an_allow_rule_by_text_covers_only_the_command_that_has_it(project: Path) -> None:
    policy = policy_of(project, rules=RuleSet(allow=(PermissionRule(tool="bash", contains="build"),)), prompting=True)
    assert verdict_of("tool build", policy) == "allow"
    assert verdict_of("tool build; rm x", policy) == "ask"
    assert verdict_of("rm $(echo build)", policy) == "ask"


def test_an_approved_call_passes_ask_rules_and_hooks_but_no_deny(project: Path) -> None:
    made = bash("rm x")
    approved = frozenset({call_digest("bash", {"command": "rm x"})})
    asking = policy_of(project, rules=RuleSet(ask=(PermissionRule(tool="bash"),)), hook=hook("ask"), approved=approved)
    assert decide(made, asking).code == "approved"
    assert decide(bash("rm y"), asking).verdict is Verdict.DENY
    assert (
        decide(made, policy_of(project, rules=RuleSet(deny=(PermissionRule(tool="bash"),)), approved=approved)).code
        == "rule-deny"
    )


def test_a_grant_is_bound_to_the_call(project: Path) -> None:
    granted = Grant(tool="write", digest=call_digest("write", {"file_path": "../x", "content": "a"}))
    policy = policy_of(project, grants=(granted,), prompting=True)
    assert decide(call("write", content="a", file_path="../x"), policy).code == "granted"
    assert decide(call("write", content="b", file_path="../x"), policy).verdict is Verdict.ASK


def test_the_digest_does_not_depend_on_the_order_of_arguments_and_on_nothing_less() -> None:
    digest = call_digest("write", {"a": 1, "b": "x"})
    assert digest == call_digest("write", {"b": "x", "a": 1})
    assert len({digest, call_digest("edit", {"a": 1, "b": "x"}), call_digest("write", {"a": "1", "b": "x"})}) == 3
    assert call_digest("x", {"a": "\ud800"}) != call_digest("x", {"a": "\ud801"})


@pytest.mark.parametrize(
    ("requested", "ceiling", "in_force"),
    [
        (ALLOW, WRITE, WRITE),
        (FULL, READ_ONLY, READ_ONLY),
        (READ_ONLY, ALLOW, READ_ONLY),
        (PROMPT, WRITE, PROMPT),
        (WRITE, PROMPT, PROMPT),
        (PROMPT, READ_ONLY, READ_ONLY),
        (WRITE, WRITE, WRITE),
    ],
)
def test_a_mode_from_a_session_is_never_raised(
    requested: PermissionMode, ceiling: PermissionMode, in_force: PermissionMode
) -> None:
    assert effective_mode(requested, ceiling) is in_force


def test_a_bash_call_without_a_command_is_asked(project: Path) -> None:
    for arguments in ({}, {"command": 5}, {"command": ""}):
        assert decide(call("bash", **arguments), policy_of(project, prompting=True)).verdict is Verdict.ASK


def test_a_program_of_the_project_is_not_the_systems(project: Path, tmp_path: Path) -> None:
    (project / "tools").mkdir(exist_ok=True)
    ours = project / "tools" / "ls"
    ours.write_text("#!/bin/sh\n")
    ours.chmod(0o755)
    shadowed = policy_of(project, search_path=f"{project}/tools:/usr/bin:/bin", prompting=True)
    assert verdict_of("ls", shadowed) == "ask"
    assert verdict_of("pwd", shadowed) == "allow"
    assert verdict_of("wc a.txt", shadowed) == "allow"
    assert verdict_of("echo x > note.txt; wc a.txt", shadowed) == "ask"
    assert verdict_of("ls", policy_of(project, search_path="bin:/usr/bin:/bin", prompting=True)) == "ask"
    assert verdict_of("ls", policy_of(project, search_path="/usr/bin:/bin", prompting=True)) == "allow"
    ours.rename(project / "tools" / "bash")
    assert verdict_of("pwd", shadowed) == "ask"


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("private/", "cd private && cat key"),
        ("private/", "cd ./private; cat key"),
        ("private/", "ls private"),
        ("private/", "git -C private log"),
        ("a/private", "cd a && cat private/key"),
        ("a/private", "cd . ; " * 20 + "cd a && cat private/key"),
    ],
)
def test_a_denied_folder_is_not_read_from_within(project: Path, rule: str, command: str) -> None:
    policy = policy_of(project, rules=RuleSet(deny=(PermissionRule(path_contains=rule),)))
    for folder in ("private", "a/private"):
        (project / folder).mkdir(parents=True, exist_ok=True)
        (project / folder / "key").touch()
    assert decide(bash(command), policy).code == "rule-deny"
    assert decide(bash("cd src && ls"), policy).verdict is Verdict.ALLOW
