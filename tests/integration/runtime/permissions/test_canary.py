"""What is allowed unasked is really run, by bash, and may not touch anything outside the project."""

import itertools
import os
import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from outlast.runtime.permissions.decision import Verdict
from outlast.runtime.permissions.shell.git import GIT_ENVIRONMENT
from outlast.runtime.permissions.shell.judge import judge
from tests.conftest import needs
from tests.unit.runtime.permissions.place import every, make_project, policy_of

SECONDS = 5.0
HANDS = [
    "touch CANARY", "echo x > CANARY", "cp a.txt CANARY", "mkdir CANARY", "mv a.txt CANARY", "tee CANARY",
    "> CANARY", "ln -s a CANARY", "sort -o CANARY a.txt", "find . -fprint CANARY", "xxd a.txt CANARY",
    "sed -n 'w CANARY' a.txt", "cp -r src CANARY", "ls | tee CANARY", "python -c \"open('CANARY','w')\"",
    "git log --output=CANARY", "uniq a.txt CANARY", "awk 'BEGIN{print > \"CANARY\"}'",
    "find . -exec touch CANARY +", "echo $(touch CANARY)", "echo `touch CANARY`", "cat <(touch CANARY)",
    "test -v 'a[$(touch CANARY)]'", "rg --pre 'touch CANARY' x", "env touch CANARY", "tree -o CANARY",
    "printf -v 'a[$(touch CANARY)]' x", "split a.txt CANARY", "dd of=CANARY", "cd .. && touch CANARY",
    "eval touch CANARY", "sort --compress-program='touch CANARY' a.txt",
    "mv linkdir d2 && cp a.txt d2/link/canary", "cp a.txt link_out/canary", "cp a.txt hard.txt",
    "echo x > hard.txt", "git -C hostile status", "git -C filtered status", "git -C hooked diff",
]  # fmt: skip
WAYS = ["../outside/canary", "link_out/canary", "src/../../outside/canary", "linkdir/link/canary", "./link_file"]
GLUE = [
    " ", ";", " && ", " || ", " | ", "\n", "\\\n", "\r", " & ", "\t", "'", '"', "\\", "$IFS", "{", "}", "(", ")",
    "`", "$(", "#", " > ", " < ", ">>", "2>", "&>", "*", "~", "!", "\0", "é", "--", "-", "=", " .. ", "cd src",
    "cd ..", "cd linkdir", "[ -f a.txt ]", "echo x", "a.txt", "mkdir n", "cp a.txt n", "cp -r linkdir n", "mv n m",
]  # fmt: skip


def snapshot(parent: Path) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for folder, _, files in os.walk(parent):
        if not Path(folder).is_relative_to(parent / "proj"):
            found += [(f"{folder}/{name}", Path(folder, name).read_text()) for name in files]
            found.append((folder, ""))
    return sorted(found)


def commands(dice: random.Random) -> str:
    start = [hand.replace("CANARY", way) for hand in HANDS for way in WAYS]
    kind = dice.random()
    if kind < 0.4:
        text = dice.choice(start)
        for _ in range(dice.randint(0, 3)):
            at = dice.randint(0, len(text))
            text = text[:at] + dice.choice(GLUE) + text[at + dice.randint(0, 2) :]
        return text
    parts = dice.choices([*start, *every("harmless_commands"), *GLUE], k=dice.randint(1, 5))
    return dice.choice([" ", "", " ; ", " | ", " && "]).join(parts)


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    make_project(tmp_path)
    evil = tmp_path / "proj" / "hostile" / "evil"
    evil.write_text("#!/bin/sh\ntouch ../../outside/canary ../outside/canary\n")
    evil.chmod(0o755)
    shutil.copy(evil, tmp_path / "proj" / "evil")
    return tmp_path


@pytest.mark.slow
def test_nothing_that_is_allowed_reaches_outside(parent: Path) -> None:
    project, shell, dice = parent / "proj", needs("bash"), random.Random(11)
    policy = policy_of(project, search_path=os.defpath)
    environment = {"PATH": os.defpath, "HOME": str(parent / "outside"), "LC_ALL": "C.UTF-8", **GIT_ENVIRONMENT}
    before, ends, ran = snapshot(parent), time.monotonic() + SECONDS, 0
    for text in itertools.takewhile(lambda _: time.monotonic() < ends, iter(lambda: commands(dice), None)):
        if "\0" in text or "sleep" in text or judge(text, policy).verdict is not Verdict.ALLOW:
            continue
        subprocess.run(
            [shell, "--norc", "--noprofile", "-c", text],
            cwd=project,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
        )
        ran += 1
        assert snapshot(parent) == before, text
    assert ran > 50
