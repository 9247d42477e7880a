"""The command line as a whole: version, help, lazy commands, errors as one line."""

import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
import typer

from holdfast import __version__
from holdfast.core.errors import ConfigError, SessionNotFound
from holdfast.doors import cli


def run(*argv: str) -> int:
    try:
        return cli.main(argv)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 1


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
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
    monkeypatch.setattr(cli, "_registered", set[str]())
    before = list(cli.app.registered_groups)
    yield module
    cli.app.registered_groups[:] = before


@pytest.mark.parametrize("start", [["-m", "holdfast"], ["-c", "from holdfast.doors.cli import main; main()"]])
def test_version_is_one_line_and_loads_no_command(start: list[str]) -> None:
    done = subprocess.run([sys.executable, *start, "--version"], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"holdfast {__version__}\n", "")


def test_a_command_is_imported_only_when_asked_for(command: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "COMMANDS", {"fall": command.__name__, "broken": "no_such_module"})
    assert run("--version") == 0
    assert run("fall") == 0


def test_help_lists_the_commands(command: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    assert "fall" in capsys.readouterr().out


def test_unknown_command_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("no-such-command") == 2
    assert "no-such-command" in capsys.readouterr().err


@pytest.mark.parametrize(("error", "code"), [(ConfigError("a is b"), 1), (SessionNotFound("a is b"), 3)])
def test_error_is_one_line_and_its_exit_code(
    command: ModuleType, capsys: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    command.error = error  # pyright: ignore[reportAttributeAccessIssue]
    assert run("fall") == code
    assert capsys.readouterr() == ("", "holdfast: a is b\n")


def test_error_text_cannot_break_the_line_or_steer_the_terminal(
    command: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    command.error = ConfigError("a\nb\x1b[2J \ud800")  # pyright: ignore[reportAttributeAccessIssue]
    assert run("fall") == 1
    assert capsys.readouterr().err == "holdfast: a b\\x1b[2J \\ud800\n"


def test_our_own_mistake_is_not_hidden(command: ModuleType) -> None:
    command.error = ZeroDivisionError()  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ZeroDivisionError):
        run("fall")
