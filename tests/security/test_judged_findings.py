"""The commands of the findings C1, H2 to H4 and M1 to M3, as they were reported: none runs unasked by its words.

They count where there is no sandbox; inside one, the operating system holds them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from outlast.runtime.permissions.decision import Verdict
from outlast.runtime.permissions.shell.judge import judge
from tests.unit.runtime.permissions.place import make_project, policy_of

REPORTED = {
    "C1": [
        "printf '12345%n' PATH; ls",
        "printf '%-n' IFS",
        "printf '1%ln' HOME",
        "printf '%hhn' CDPATH",
        "printf '%5s%n' x",
    ],
    "H2": ["uniq .[ag]it/config", "uniq ./[ab].txt", "xxd -r ./[ab].txt", "uniq .[ag]it/hooks/pre-commit"],
    "H3": ["strings @args", "strings -a @args", "strings ./x @args"],
    "H4": ["python3 -m py_compile a.py", "python3.13 -m py_compile a.py", "sleep 30; python3 -m py_compile a.py"],
    "M1": ["false; cat x$?", "false; cd d$? && cat passwd", "cat cert.p$?2", "cat < x$?"],
    "M2": ["diff -N empty linkdir", "mv linkdir e2 && cat ?2/x"],
}
CASES = [(finding, command) for finding, commands in REPORTED.items() for command in commands]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = make_project(tmp_path_factory.mktemp("findings"))
    (found / "empty").mkdir()
    return found


@pytest.mark.parametrize("mode", ["workspace-write", "read-only"])
@pytest.mark.parametrize(("finding", "command"), CASES)
def test_reported_command_does_not_run_unasked(project: Path, finding: str, command: str, mode: str) -> None:
    assert judge(command, policy_of(project, mode, search_path="/usr/bin:/bin")).verdict is not Verdict.ALLOW


@pytest.mark.parametrize("path", [":/usr/bin", "/usr/bin:", "/usr/bin::/bin", ".:/usr/bin"])
def test_m3_a_path_with_the_current_folder_in_it_is_asked_about(project: Path, path: str) -> None:
    assert judge("no-such-program-of-the-system; tree", policy_of(project, search_path=path)).verdict is Verdict.ASK
    assert judge("ls", policy_of(project, search_path=f":{path}")).verdict is Verdict.ASK
