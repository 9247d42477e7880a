"""Commands that run unasked, really run: no variable they could set decides which program is looked up.

The judge refuses such commands; these tests run them all the same, as if it had overlooked the assignment.
"""

from pathlib import Path

import pytest

from outlast.runtime.permissions.decision import Verdict
from outlast.runtime.permissions.shell.judge import judge
from outlast.runtime.tools.process.environment import clean_environment, sealed
from tests.unit.runtime.permissions.place import policy_of
from tests.unit.runtime.tools.setting import PATH, Setting

SETTERS = [
    "printf '12345%n' PATH; ls",
    "printf '12345%ln' PATH; ls",
    "printf '%5s%n' a PATH; ls",
    "printf -v PATH 5; ls",
    "declare PATH=5; ls",
    "export PATH=5; ls",
    "read PATH < five; ls",
    "PATH=5; ls",
    "unset PATH; PATH=5; ls",
    "cd src; printf '12345%n' PATH; cd ..; ls",
]


def hostile(setting: Setting) -> Path:
    """Put an `ls` of its own into the folder `5` of the project; return the file that it makes when it runs."""
    (setting.project / "5").mkdir()
    (setting.project / "src").mkdir()
    (setting.project / "five").write_text("5\n")
    program = setting.project / "5" / "ls"
    program.write_text("#!/bin/sh\n: > hacked\n")
    program.chmod(0o755)
    return setting.project / "hacked"


async def test_the_hostile_folder_is_dangerous_where_variables_can_be_set(setting: Setting) -> None:
    made = hostile(setting)
    await setting.run("bash", command=SETTERS[0])
    assert made.exists()  # else the tests below could not fail


@pytest.mark.parametrize("command", SETTERS)
async def test_unasked_command_cannot_choose_its_programs(setting: Setting, command: str) -> None:
    made = hostile(setting)
    await setting.run("bash", setting.context(unasked=True), command=command)
    assert not made.exists()


@pytest.mark.parametrize("command", SETTERS)
def test_command_that_sets_a_variable_is_asked_about(setting: Setting, command: str) -> None:
    hostile(setting)
    for mode in ("workspace-write", "read-only"):
        assert judge(command, policy_of(setting.project, mode, search_path=PATH)).verdict is not Verdict.ALLOW


@pytest.mark.parametrize("name", ["GIT_CONFIG_COUNT", "IFS", "HOME", "CDPATH", "BASH_ENV", "LC_ALL", "GIT_DIR", "X_Y"])
async def test_unasked_command_can_set_no_variable_of_its_environment(setting: Setting, name: str) -> None:
    environment = {"PATH": PATH, "HOME": "/h", "GIT_CONFIG_COUNT": "4", "X_Y": "1", "not a name": "2"}
    context = setting.context(unasked=True, environment=environment)
    outcome = await setting.run("bash", context, command=f"printf 'abc%n' {name}; printf '<%s>' \"${name}\"")
    assert f"{name}: readonly variable" in outcome.text
    assert "<3>" not in outcome.text


async def test_unasked_commands_work_as_before(setting: Setting) -> None:
    (setting.project / "a.txt").write_text("one\ntwo\n")
    (setting.project / "src").mkdir()
    environment = clean_environment({"PATH": PATH, "COLUMNS": "80", "LINES": "24", "SHLVL": "3", "OLDPWD": "/"})
    context = setting.context(unasked=True, environment=environment)
    command = "# look\ncd src && pwd && cd ..; cat a.txt | wc -l; [ -f a.txt ] && echo there; printf '%s\\n' $?"
    outcome = await setting.run("bash", context, command=command)
    assert outcome.text == f"{setting.project}/src\n2\nthere\n0"
    assert outcome.facts["exit_code"] == 0


def test_only_names_that_bash_takes_are_sealed() -> None:
    text = sealed("ls", {"A1": "", "1A": "", "a b": "", "PWD": "/", "é": "", "X;rm": ""})
    assert " A1 " in text
    assert text.endswith("; ls")
    assert not {"1A", "PWD", "é", "X;rm", "OLDPWD"} & set(text.replace(";", " ;").split())


@pytest.mark.parametrize("path", [":BIN", "BIN:", "BIN::/nowhere", "BIN:.", "bin:BIN"])
def test_command_is_asked_about_where_the_current_folder_is_in_path(setting: Setting, path: str) -> None:
    system = setting.base / "system"
    system.mkdir()
    (system / "bash").write_text("#!/bin/sh\n")
    (system / "bash").chmod(0o755)
    policy = policy_of(setting.project, search_path=str(system))
    assert judge("tree", policy).verdict is Verdict.ALLOW  # it will not be found
    found = judge("tree", policy_of(setting.project, search_path=path.replace("BIN", str(system))))
    assert "relative folder of PATH" in found.reasons[0]
