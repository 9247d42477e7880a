"""Which commands verify, and how commands are understood."""

import os
import shlex
import subprocess
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core.workflow_records import CommandKind, DefinitionOfDone, EvidenceStatus
from outlast.workflow.tool_effect import changes_something, installs, kind_of, looks_like_a_test
from outlast.workflow.verification import ProjectCommands, commands_for, evidence_of, project_of, quoted, summary_of

PYTHON = ProjectCommands(manifests=frozenset({"pyproject.toml"}))


def done(*files: str, size: str = "small", task: str = "Create it", **more: list[str]) -> DefinitionOfDone:
    start = DefinitionOfDone(task_statement=task, touched_files=list(files), task_size=size)
    return msgspec.structs.replace(start, **more)


def test_a_small_task_is_checked_by_existence_and_compilation() -> None:
    assert commands_for(done("hello.txt"), PYTHON) == ("test -f hello.txt",)
    assert commands_for(done("a b.py"), PYTHON) == ("test -f 'a b.py'", "python -m py_compile 'a b.py'")


def test_a_file_that_was_removed_must_stay_away() -> None:
    assert commands_for(done("gone.txt"), ProjectCommands(missing=frozenset({"gone.txt"}))) == ("test ! -e gone.txt",)


def test_planned_commands_win() -> None:
    given = done("a.py", successful_commands=["pytest -q"], planned_commands=["make check"])
    assert commands_for(given, PYTHON) == ("make check",)


def test_tests_that_were_run_already_are_run_again() -> None:
    given = done("a.py", successful_commands=["ls", "pytest -q tests/a.py"], failed_commands=["mypy ."])
    assert commands_for(given, PYTHON) == ("pytest -q tests/a.py", "mypy .")


def test_an_earlier_attempts_commands_are_not_kept_when_more_was_touched() -> None:
    assert commands_for(done("a.txt", "b.txt", verification_commands=["test -f a.txt"]), PYTHON) == (
        "test -f a.txt",
        "test -f b.txt",
    )


@pytest.mark.parametrize(
    ("path", "command"), [("run me.py", "python 'run me.py'"), ("x.sh", "bash x.sh"), ("x.js", "node x.js")]
)
def test_a_touched_script_is_run_when_the_task_wants_it_run(path: str, command: str) -> None:
    project = ProjectCommands(scripts=frozenset({path}))
    assert commands_for(done(path, task="Write a script that prints 42"), project) == (command,)
    assert command not in commands_for(done(path, task="Create it"), project)


@pytest.mark.parametrize(
    ("project", "commands"),
    [
        (PYTHON, ("pytest -q",)),
        (ProjectCommands(manifests=frozenset({"setup.cfg"})), ("pytest -q",)),
        (
            ProjectCommands(manifests=frozenset({"pyproject.toml"}), tools=frozenset({"ruff"})),
            ("pytest -q", "ruff check ."),
        ),
        (
            ProjectCommands(manifests=frozenset({"package.json"}), npm_scripts=frozenset({"test", "build"})),
            ("npm test", "npm run build"),
        ),
        (ProjectCommands(manifests=frozenset({"Cargo.toml"})), ("cargo test",)),
        (ProjectCommands(manifests=frozenset({"go.mod"})), ("go test ./...",)),
        (ProjectCommands(manifests=frozenset({"Makefile"}), make_targets=frozenset({"test"})), ("make test",)),
        (ProjectCommands(manifests=frozenset({"Makefile"})), ("test -f a.txt",)),
        (ProjectCommands(manifests=frozenset({"package.json"})), ("test -f a.txt",)),
    ],
)
@pytest.mark.parametrize("size", ["standard", "large"])
def test_a_larger_task_is_checked_by_what_the_project_brings(
    project: ProjectCommands, commands: tuple[str, ...], size: str
) -> None:
    assert commands_for(done("a.txt", size=size), project) == commands


def test_nothing_touched_leaves_nothing_to_check() -> None:
    assert commands_for(done(), PYTHON) == ()


def test_the_number_of_commands_is_bounded() -> None:
    assert len(commands_for(done(*(f"{n}.py" for n in range(50))), PYTHON)) == 10


NAMES = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), min_size=1, max_size=20)


@given(NAMES)
def test_a_quoted_path_is_one_word_that_is_no_option(name: str) -> None:
    split = shlex.split(f"test -f {quoted(name)}")
    assert len(split) == 3
    assert not split[2].startswith("-")
    assert os.path.normpath(split[2]) == os.path.normpath(name)


@pytest.mark.parametrize("name", ["$(touch pwned)", "`touch pwned`", "a;touch pwned", "-f x", "a'b\"c", "a\nb", "*"])
def test_a_hostile_name_is_only_looked_for(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("x")
    command = commands_for(done(name), ProjectCommands())[0]
    assert subprocess.run(["sh", "-c", command], cwd=tmp_path, timeout=10).returncode == 0
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    ("exit_code", "ran", "status"),
    [
        (0, True, EvidenceStatus.PASSED),
        (1, True, EvidenceStatus.FAILED),
        (127, True, EvidenceStatus.SKIPPED),
        (None, False, EvidenceStatus.SKIPPED),
    ],
)
def test_what_the_end_of_a_command_means(exit_code: int | None, ran: bool, status: EvidenceStatus) -> None:
    assert evidence_of("x", exit_code=exit_code, ran=ran).status is status


def test_the_summary_names_what_ran_and_what_did_not() -> None:
    shown = [evidence_of("a", exit_code=0), evidence_of("b", exit_code=127)]
    assert summary_of(shown) == "Verification passed: `a`. Not run: `b`."


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("pytest -q", CommandKind.TEST),
        ("cd x && python -m pytest", CommandKind.TEST),
        ("CI=1 uv run pytest -x", CommandKind.TEST),
        (".venv/bin/pytest", CommandKind.TEST),
        ("npm test", CommandKind.TEST),
        ("go test ./...", CommandKind.TEST),
        ("cargo test --all", CommandKind.TEST),
        ("make test", CommandKind.TEST),
        ("ruff check .", CommandKind.LINT),
        ("npx eslint src", CommandKind.LINT),
        ("mypy src", CommandKind.TYPECHECK),
        ("cargo build", CommandKind.BUILD),
        ("python -m py_compile a.py", CommandKind.BUILD),
        ("test -f a", CommandKind.SMOKE),
        ("python a.py", CommandKind.RUNTIME),
        ("echo pytest", CommandKind.RUNTIME),
    ],
)
def test_kinds_of_commands(command: str, kind: CommandKind) -> None:
    assert kind_of(command) is kind


@pytest.mark.parametrize(
    ("command", "does"),
    [
        ("pytest -q", True),
        ("ruff check .", True),
        ("python a.py", False),
        ("pip install pytest", False),
        ("cargo build", False),
    ],
)
def test_what_looks_like_a_test(command: str, does: bool) -> None:
    assert looks_like_a_test(command) is does


@pytest.mark.parametrize(
    ("command", "does"),
    [
        ("ls -la", False),
        ("git status && git diff | head", False),
        ("grep -r x . 2>/dev/null", False),
        ("pytest -q 2>&1 | tail", False),
        ("cd src && cat a", False),
        ("echo x > a", True),
        ("cat a >> b", True),
        ("sed -i s/a/b/ c", True),
        ("find . -delete", True),
        ("mkdir x", True),
        ("git commit -m x", True),
        ("python setup.py", True),
    ],
)
def test_what_changes_something(command: str, does: bool) -> None:
    assert changes_something(command) is does


@pytest.mark.parametrize("command", ["pip install x", "npm i", "uv sync", "apt-get install y", "cargo add z"])
def test_what_installs(command: str) -> None:
    assert installs(command)
    assert not installs("ls install")


def test_a_project_is_read_from_its_manifests(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\n")
    (tmp_path / "package.json").write_text('{"scripts": {"test": "x", "lint": "y"}}')
    (tmp_path / "Makefile").write_text("X := 1\ntest: a\n\techo\n.PHONY: test\n")
    (tmp_path / "run.py").write_text("print(1)\nif __name__ == '__main__':\n    pass\n")
    (tmp_path / "lib.py").write_text("x = 1\n")
    project = project_of(tmp_path, ["run.py", "lib.py", "gone.py"], python="python3")
    assert project.manifests == {"pyproject.toml", "package.json", "Makefile"}
    assert project.npm_scripts == {"test", "lint"}
    assert project.make_targets == {"test"}
    assert project.tools == {"ruff"}
    assert project.scripts == {"run.py"}
    assert project.missing == {"gone.py"}
    assert project.python == "python3"


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"scripts": 3}', "\0"])
def test_a_broken_manifest_says_nothing(text: str, tmp_path: Path) -> None:
    for name in ("package.json", "pyproject.toml", "Makefile"):
        (tmp_path / name).write_text(text)
    project = project_of(tmp_path)
    assert (project.npm_scripts, project.make_targets) == (frozenset(), frozenset())
