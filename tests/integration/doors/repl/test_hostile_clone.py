"""What a hostile clone, or a model that was talked into it, tries through `outlast -p`: nothing of it runs unasked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outlast.runtime.sandbox import landlock
from tests.conftest import everything_is_required
from tests.unit.doors.repl.test_print_mode import Place, call, reply

MODES = ["workspace-write", "read-only"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Place:
    found = Place(tmp_path, monkeypatch, capfdbinary)
    (found.project / "5").mkdir()
    program = found.project / "5" / "ls"
    program.write_text("#!/bin/sh\n: > hacked\n")
    program.chmod(0o755)
    (found.project / "a.txt").write_text("a\n")
    (found.project / "b.txt").write_text("b\n")
    return found


@pytest.fixture
def _landlock() -> None:
    support = landlock.available()
    if not support and everything_is_required():
        pytest.fail(support.reason)
    if not support:
        pytest.skip(support.reason)


def denied(place: Place, command: str, *words: str) -> list[str]:
    place.says(call("bash", command=command), *[reply("Done.")] * 3)
    done = place.run("-p", "x", "--model", place.model, "--output-format", "json", *words)
    return json.loads(done.stdout)["denied"]


@pytest.mark.usefixtures("asks_first")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("command", ["printf '12345%n' PATH; ls", "printf '%5s%ln' a PATH && ls"])
def test_printf_does_not_choose_the_program_that_runs(place: Place, mode: str, command: str) -> None:
    [told] = denied(place, command, "--permission-mode", mode)
    assert "printf" in told
    assert not (place.project / "hacked").exists()


@pytest.mark.usefixtures("asks_first")
def test_injected_model_alone_cannot_build_and_run_a_program(place: Place) -> None:
    """Each step but the last is allowed: it makes a folder, brings an executable file, and writes its content."""
    steps = [
        call("bash", command="mkdir 7"),
        call("bash", command="cp /usr/lib/git-core/git-mergetool 7/ls"),
        call("write", file_path="7/ls", content="#!/bin/sh\n: > hacked\n"),
        call("bash", command="printf '1234567%n' PATH; ls"),
    ]
    place.says(*steps, *[reply("Done.")] * 3)
    done = place.run("-p", "x", "--model", place.model, "--output-format", "json")
    assert "printf" in json.loads(done.stdout)["denied"][-1]
    assert not (place.project / "hacked").exists()


@pytest.mark.usefixtures("asks_first")
@pytest.mark.parametrize("mode", MODES)
def test_pattern_does_not_become_an_output_file(place: Place, mode: str) -> None:
    [told] = denied(place, "uniq ./[ab].txt", "--permission-mode", mode)
    assert "pattern" in told
    assert (place.project / "b.txt").read_text() == "b\n"


@pytest.mark.usefixtures("_landlock")
@pytest.mark.parametrize("sandbox", ["auto", "none"])
@pytest.mark.parametrize("mode", MODES)
def test_command_that_was_allowed_cannot_read_the_home_and_writes_as_far_as_its_mode(
    place: Place, mode: str, sandbox: str
) -> None:
    (place.home / "state").mkdir(parents=True)
    (place.home / "state" / "token").write_text("THE-TOKEN")
    (place.home / "config.toml").write_text(f'token = "{"T" * 40}"\n')
    program = place.project / "run.py"
    program.write_text(
        "import os, pathlib\n"
        "home = pathlib.Path(os.environ['OTHER'])\n"
        "for name in ('state/token', 'config.toml', 'outlast.db'):\n"
        "    try:\n"
        "        print(name, (home / name).read_bytes())\n"
        "    except OSError:\n"
        "        print(name, 'is closed')\n"
        "pathlib.Path('made').touch()\n"
    )
    words = (
        "--sandbox",
        sandbox,
        "--permission-mode",
        mode,
        "--allow",
        "bash(env *)",
        "--output-format",
        "stream-json",
    )
    place.says(call("bash", command=f"env OTHER={place.home} python3 run.py"), *[reply("Done.")] * 3)
    done = place.run("-p", "x", "--model", place.model, *words)
    assert done.stdout.count("is closed") >= 3
    assert "THE-TOKEN" not in done.stdout
    assert "TTTT" not in done.stdout
    assert (place.project / "made").exists() is (mode == "workspace-write")


@pytest.mark.usefixtures("asks_first")
def test_what_was_always_allowed_is_denied_in_read_only_mode(place: Place) -> None:
    place.home.mkdir()
    (place.home / "permission-rules.json").write_text('{"allow": [{"command": "touch"}, {"command": "env"}]}')
    (place.project / ".git").mkdir()
    assert denied(place, "env touch one") == []
    assert (place.project / "one").exists()
    [told] = denied(place, "env touch two", "--permission-mode", "read-only")
    assert "env" in told
    assert not (place.project / "two").exists()
