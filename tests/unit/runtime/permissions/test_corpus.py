"""Hostile commands are never allowed, harmless ones never asked, however they are joined, quoted or repeated."""

import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.runtime.permissions.decision import Grant, Verdict
from outlast.runtime.permissions.evaluate import decide
from outlast.runtime.permissions.rules import PermissionRule, RuleSet
from outlast.runtime.permissions.shell.judge import judge
from tests.unit.runtime.permissions.place import call, corpus, every, make_project, policy_of

HOSTILE = every("hostile_commands")
WRITING = corpus("harmless_commands")["change"]
HARMLESS = [command for command in every("harmless_commands") if command not in WRITING]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("corpus"))


def waved_through(commands: list[str], project: Path) -> list[str]:
    modes = (policy_of(project), policy_of(project, "read-only"))
    return [command for command in commands if any(judge(command, mode).verdict is Verdict.ALLOW for mode in modes)]


def test_the_corpus_is_as_large_as_promised() -> None:
    assert len(set(HOSTILE)) >= 300
    assert len(set(HARMLESS)) >= 150


@pytest.mark.parametrize("group", sorted(corpus("hostile_commands")))
def test_no_hostile_command_is_waved_through(group: str, project: Path) -> None:
    assert waved_through(corpus("hostile_commands")[group], project) == []


@pytest.mark.parametrize("tail", ["", " -h", " a.txt", " -c id", " -x 'sh'", " < a.txt", " --help"])
def test_no_program_that_can_run_others_is_waved_through(tail: str, project: Path) -> None:
    names = [name for name in corpus("hostile_commands")["gtfobins"] if name != "awk"]
    assert waved_through([name + tail for name in names], project) == []


@pytest.mark.parametrize("group", sorted(corpus("harmless_commands").keys() - {"change"}))
def test_no_harmless_command_is_asked(group: str, project: Path) -> None:
    asked = {c: j.reasons for c in corpus("harmless_commands")[group] if (j := judge(c, policy_of(project))).reasons}
    assert asked == {}


def test_commands_that_write_are_asked_about(project: Path) -> None:
    """Without a sandbox only reading needs no question; a rule of the user's still covers what it names."""
    assert {judge(command, policy_of(project)).verdict for command in WRITING} == {Verdict.ASK}
    ruled = policy_of(project, rules=RuleSet(allow=(PermissionRule(tool="bash", command=("ls",)),)))
    assert judge("ls > out.txt", ruled).verdict is Verdict.ALLOW
    assert judge("ls > ../out.txt", ruled).verdict is Verdict.ASK


def test_commands_that_write_are_denied_in_read_only_mode(project: Path) -> None:
    verdicts = {judge(command, policy_of(project, "read-only")).verdict for command in WRITING}
    assert verdicts == {Verdict.DENY}


def test_harmless_commands_that_only_read_are_allowed_in_read_only_mode(project: Path) -> None:
    reading = [c for c in HARMLESS if not judge(c, policy_of(project)).writes]
    assert len(reading) >= 150
    assert [c for c in reading if judge(c, policy_of(project, "read-only")).verdict is not Verdict.ALLOW] == []


@pytest.mark.parametrize("kind", ["write", "read"])
def test_no_hostile_path_is_waved_through(kind: str, project: Path) -> None:
    policy = policy_of(project, prompting=True)
    allowed = [
        path
        for path in corpus("hostile_paths")[kind]
        for given in (path, str(project / path))
        if decide(call(kind, file_path=given), policy).verdict is Verdict.ALLOW
    ]
    assert allowed == []


@pytest.mark.parametrize("count", [51, 500, 5_000])
@pytest.mark.parametrize("joined", [";", "&&", "||", "|", "\n"])
def test_many_subcommands_do_not_fall_open(count: int, joined: str, project: Path) -> None:
    policy = policy_of(project, rules=RuleSet(deny=(PermissionRule(command=("curl",)),)), prompting=True)
    text = joined.join(["ls"] * (count - 1))
    assert judge(text, policy).verdict is Verdict.ALLOW
    assert judge(f"{text}{joined}rm x", policy).verdict is Verdict.ASK
    denied = decide(call("bash", command=f"{text}{joined}curl x"), policy)
    assert denied.verdict is Verdict.DENY


def test_text_that_is_too_long_to_be_judged_is_asked_and_still_denied_by_rule(project: Path) -> None:
    text = ";".join(["ls -la src"] * 20_000)
    policy = policy_of(project, rules=RuleSet(deny=(PermissionRule(command=("curl",)),)), prompting=True)
    assert judge(text, policy).verdict is Verdict.ASK
    assert decide(call("bash", command=f"{text};curl x"), policy).verdict is Verdict.DENY


@given(
    st.sampled_from(HARMLESS),
    st.sampled_from(HOSTILE),
    st.sampled_from([";", " && ", " || ", " | ", "\n", " & ", " ;"]),
)
def test_a_hostile_command_joined_to_a_harmless_one_is_never_allowed(
    project: Path, harmless: str, hostile: str, operator: str
) -> None:
    if hostile.strip("\n ") in {"", "#", "# only a comment"}:
        return  # asked when alone; behind something else they say nothing
    assert waved_through([harmless + operator + hostile, f"{hostile}{operator}{harmless}"], project) == []


PLAIN = [command for command in HOSTILE if re.fullmatch(r"[a-z0-9./_ -]+", command) and " " in command]


def disguised(command: str, dice: random.Random) -> str:
    """The same to a shell, or worse: quotes, escapes and other separators put into it."""
    shown: list[str] = []
    for char in command:
        roll = dice.random()
        if char == " " and roll < 0.4:
            shown.append(dice.choice(["  ", "\t", "$IFS", "${IFS}", "\\\n ", " '' ", "\r", " \r\n", "\v"]))
        elif char.isalnum() and roll < 0.3:
            shown.append(dice.choice([f"\\{char}", f"'{char}'", f'"{char}"', f"''{char}", f'{char}""', f"\\\n{char}"]))
        else:
            shown.append(char)
    return (
        dice.choice(["", "", " ", "\n", "\\\n"]) + "".join(shown) + dice.choice(["", ";", " #x", "\n", "\r", " 2>&1"])
    )


@given(st.sampled_from(PLAIN), st.integers())
def test_a_disguised_hostile_command_is_never_allowed(project: Path, command: str, seed: int) -> None:
    assert waved_through([disguised(command, random.Random(seed))], project) == []


def test_a_test_runner_once_allowed_is_not_asked_again(project: Path) -> None:
    granted = policy_of(project, grants=(Grant(tool="bash", commands=(("pytest",),)),))
    by_rule = policy_of(project, rules=RuleSet(allow=(PermissionRule(tool="bash", command=("pytest",)),)))
    for policy in (granted, by_rule):
        for command in ("pytest -q", "pytest", "pytest -q | tail -5", "cd src && pytest -x tests 2>&1 | head"):
            assert judge(command, policy).verdict is Verdict.ALLOW
        for command in (
            "pytest -q; rm x",
            "pytest > ../x",
            "PYTHONPATH=. pytest",
            "pytest $(id)",
            "pytesty",
            "sh pytest",
        ):
            assert judge(command, policy).verdict is Verdict.ASK


@pytest.mark.parametrize(
    "command",
    ["grep root *", "cat *", "diff -N empty vendor", "diff vendor x", "diff x vendor", "mv vendor e2 && cat ?2/x"],
)
def test_links_of_a_clone_are_not_followed_by_a_way_round(tmp_path: Path, command: str) -> None:
    for name in ("empty", "vendor", "d2"):
        (tmp_path / name).mkdir()
    for name in ("-R", "x"):
        (tmp_path / name).touch()
    (tmp_path / "vendor" / "x").symlink_to("/etc/passwd")
    assert waved_through([command], tmp_path) == []
    harmless = ["diff x x", "diff --no-dereference empty vendor", "ls ?2", "grep root ./*"]
    assert waved_through(harmless, tmp_path) == harmless
