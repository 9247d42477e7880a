"""What the strict reader understands is what bash understands; the rest it refuses."""

import random
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from outlast.runtime.permissions.shell.judge import read_commands
from outlast.runtime.permissions.shell.tokenizer import NotUnderstood, scan
from tests.conftest import needs

PIECES = [
    *["rec"] * 6, "a", "'b c'", '"d e"', "\\x", "f\\ g", "#h", "i#j", "k=l", "~", "x~1", "!", "-x", "--y=z", "=",
    "''", '""', "'#'", '"$"', '"q$ r"', '"\\$s"', '"\\t"', "\\;", "\\|", "\\>", "'>'", "^", "%", "@", "+", ":",
    ",", "2", "12", "]", "[", "é", "'é'", "&&", "||", ";", "|", "\n", "\t", "\\\n", ">o", "> p", ">>q", "2>&1",
    "2>r", "&>s", "<in", ">|t", "2", "'", '"', "\\", "`", "$(", "{", "}", "(", ")", "\r", "$", "&", "<<E", "<<<",
    ">&", "*", "?", "time", "if", "then", "fi",
]  # fmt: skip


def test_words_are_what_a_program_gets() -> None:
    [simple] = scan("""echo a 'b c' "d e" f\\ g "h\\"i" j'k'"l" '' x~1 $?""")
    assert simple.argv == ("echo", "a", "b c", "d e", "f g", 'h"i', "jkl", "", "x~1", "0")


def test_operators_part_simple_commands() -> None:
    assert [s.argv for s in scan("a && b || c; d | e\nf # g")] == [("a",), ("b",), ("c",), ("d",), ("e",), ("f",)]


def test_redirections_are_not_words() -> None:
    [simple] = scan("ls -l > out 2>&1 < in x")
    assert simple.argv == ("ls", "-l", "x")
    assert [(r.mode, r.target.text) for r in simple.redirects] == [(">", "out"), ("&", "1"), ("<", "in")]


@pytest.mark.parametrize(
    "text", ["echo 'a", 'echo "a', "echo a\\", "$x", "`x`", "(x)", "a=1", "x &", "cat <<E", "~", "{a,b}"]
)
def test_what_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(NotUnderstood):
        scan(text)


def test_what_two_readers_see_differently_is_refused() -> None:
    with pytest.raises(NotUnderstood, match="more than one way"):
        read_commands("ls < f > g x y")


def recorded(text: str, folder: Path) -> Counter[tuple[str, ...]]:
    """What bash gives to the program `rec`, each time it runs it."""
    log = folder / "log"
    log.unlink(missing_ok=True)
    environment = {"PATH": str(folder / "bin"), "LOG": str(log), "LC_ALL": "C.UTF-8"}
    command = [needs("bash"), "--norc", "--noprofile", "-f", "-c", "--", text]
    subprocess.run(
        command, cwd=folder / "work", env=environment, capture_output=True, stdin=subprocess.DEVNULL, timeout=20
    )
    runs = log.read_bytes().decode().split("\1\0")[:-1] if log.exists() else []
    return Counter(("rec", *run.split("\0")[:-1]) for run in runs)


@pytest.fixture
def recorder(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "in").write_text("")
    program = tmp_path / "bin" / "rec"
    program.write_text('#!/bin/sh\n[ $# = 0 ] || printf \'%s\\0\' "$@" >> "$LOG"\nprintf \'\\001\\0\' >> "$LOG"\n')
    program.chmod(0o755)
    return tmp_path


def test_what_is_understood_is_what_bash_runs(recorder: Path) -> None:
    dice = random.Random(7)
    compared = 0
    for _ in range(20_000):
        text = "".join(dice.choice(PIECES) + dice.choice(["", " ", " "]) for _ in range(dice.randint(2, 9)))
        try:
            understood = read_commands(text)
        except NotUnderstood:
            continue
        ours = Counter(s.argv for s in understood if s.argv[0] == "rec")
        if not ours or any("|" in text[s.words[-1].end :] for s in understood):
            continue  # commands of a pipe write their records at the same time
        theirs = recorded(text, recorder)
        assert not theirs - ours, (text, ours, theirs)
        if "||" not in text and "&&" not in text and not any(s.redirects for s in understood):
            assert theirs == ours, text
        compared += 1
        if compared == 200:
            break
    assert compared >= 100
