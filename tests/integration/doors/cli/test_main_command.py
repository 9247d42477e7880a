"""The command line as a whole: version, help, lazy commands, errors as one line."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import typer

from outlast import __version__
from outlast.core.errors import ConfigError, SessionNotFound
from outlast.doors import cli
from outlast.doors.cli.command_table import ABOUT, COMMANDS
from outlast.doors.cli.main_command import spelled_out
from outlast.session import ConversationSession
from outlast.store import open_store


def run(*argv: str) -> int:
    try:
        return cli.main(argv)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 1


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A command module called `fall` that raises what its `error` attribute holds."""
    module = ModuleType("tests_fall_command")
    module.app = typer.Typer()  # pyright: ignore[reportAttributeAccessIssue]
    module.error = None  # pyright: ignore[reportAttributeAccessIssue]

    @module.app.command("fall")
    def fall() -> None:
        """Fall."""
        if module.error:
            raise module.error

    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(cli, "COMMANDS", {"fall": module.__name__})
    return module


@pytest.mark.parametrize("start", [["-m", "outlast"], ["-c", "from outlast.doors.cli import main; main()"]])
def test_version_is_one_line_and_loads_no_command(start: list[str]) -> None:
    done = subprocess.run([sys.executable, *start, "--version"], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"outlast {__version__}\n", "")


def test_a_command_is_imported_only_when_asked_for(command: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "COMMANDS", {"fall": command.__name__, "broken": "no_such_module"})
    assert run("--version") == 0
    assert run("fall") == 0


def test_help_lists_every_command_and_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    told = capsys.readouterr().out
    assert COMMANDS.keys() == ABOUT.keys()
    for name in COMMANDS:
        assert f"  {name:<9} {ABOUT[name]}" in told


def test_help_imports_neither_a_command_nor_the_agent() -> None:
    looked = "import sys; from outlast.doors.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    told = "print(sorted(name for name in sys.modules if name in {'apsw', 'rich', 'prompt_toolkit', 'outlast.agent'}))"
    done = subprocess.run([sys.executable, "-c", looked + told], capture_output=True, text=True, timeout=30)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["-r"], ["-r", "?"]),
        (["-r", "abcdef"], ["-r", "abcdef"]),
        (["--resume", "-p", "x"], ["--resume", "?", "-p", "x"]),
        (["-r", "fix the bug"], ["-r", "?", "fix the bug"]),
        (["--", "-r"], ["--", "-r"]),
    ],
)
def test_resume_may_go_without_an_id(words: list[str], meant: list[str]) -> None:
    assert spelled_out(words) == meant


@pytest.mark.parametrize(
    ("typed", "found"),
    [("outlast co", "config"), ("outlast sessions exp", "export"), ("outlast --per", "--persona")],
)
def test_a_shell_is_told_how_a_word_can_go_on(typed: str, found: str) -> None:
    asked = {"_OUTLAST_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = subprocess.run(
        [sys.executable, "-m", "outlast"], env={**os.environ, **asked}, capture_output=True, text=True, timeout=30
    )
    assert found in done.stdout.split()


@pytest.mark.parametrize("typed", ["outlast sessions show ", "outlast --session ", "outlast verify "])
def test_a_shell_is_told_the_ids_of_sessions(typed: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    with open_store(url) as store:
        session = ConversationSession(project_root=tmp_path, store=store)
        session.persist()
    words = {"COMP_WORDS": f"{typed}{session.session_id[:2]}", "COMP_CWORD": str(typed.count(" "))}
    asked = {"_OUTLAST_COMPLETE": "complete_bash", "OUTLAST_STORE": url, **words}
    done = subprocess.run(
        [sys.executable, "-m", "outlast"], env={**os.environ, **asked}, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == [session.session_id]


@pytest.mark.parametrize(("error", "code"), [(ConfigError("a is b"), 1), (SessionNotFound("a is b"), 3)])
def test_error_is_one_line_and_its_exit_code(
    command: ModuleType, capsys: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    command.error = error  # pyright: ignore[reportAttributeAccessIssue]
    assert run("fall") == code
    assert capsys.readouterr() == ("", "outlast: a is b\n")


def test_error_text_cannot_break_the_line_or_steer_the_terminal(
    command: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    command.error = ConfigError("a\nb\x1b[2J \ud800")  # pyright: ignore[reportAttributeAccessIssue]
    assert run("fall") == 1
    assert capsys.readouterr().err == "outlast: a b\\x1b[2J \\ud800\n"


def test_our_own_mistake_is_not_hidden(command: ModuleType) -> None:
    command.error = ZeroDivisionError()  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ZeroDivisionError):
        run("fall")
