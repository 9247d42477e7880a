"""What the files of the project must and must not say."""

import re
from pathlib import Path

from tests.architecture.source import project_files
from tests.conftest import ROOT

# Spelled in pieces, so that this file does not contain what it forbids.
REGISTRIES = ["pypi" + ".org", "python" + "hosted", "npmjs" + ".org", "pkg" + ".dev", "anaconda" + ".org"]
MACHINE = [r"/roo" + r"t/", r"/hom" + r"e/[a-z][\w.-]*/", r"/User" + r"s/[A-Za-z][\w.-]*/", r"/opt/py" + "pi"]


def texts() -> list[tuple[Path, str]]:
    return [(path, path.read_bytes().decode("utf-8", "replace")) for path in project_files()]


def mentions(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}: {found.group()}"
        for path, text in texts()
        for found in [pattern.search(text)]
        if found
    ]


def test_no_file_names_a_package_registry() -> None:
    assert mentions(re.compile("|".join(map(re.escape, REGISTRIES)))) == []


def test_no_file_names_a_path_of_some_machine() -> None:
    here = [re.escape(str(ROOT)) + r"\b"] if len(ROOT.parts) > 2 else []
    assert mentions(re.compile("|".join([*MACHINE, *here]))) == []


def test_locks_pin_every_requirement_by_hash_and_name_no_index() -> None:
    for name in ("requirements.lock", "requirements-dev.lock", "requirements-build.lock"):
        lock = (ROOT / name).read_text()
        assert "://" not in lock
        assert not re.search(r"^-", lock, re.MULTILINE)
        pins = re.split(r"\n(?=\S)", lock.strip())[1:]
        assert pins
        assert [pin for pin in pins if "==" not in pin or "--hash=sha256:" not in pin] == []


def test_readme_shows_the_two_commands_and_a_program_before_line_40() -> None:
    top = "\n".join((ROOT / "README.md").read_text().splitlines()[:40])
    assert re.search(r"```sh\nmake run\nmake test\n```", top)
    assert "open_store(" in top
    assert "ConversationSession(" in top


def test_agents_page_is_short() -> None:
    assert len((ROOT / "AGENTS.md").read_text().splitlines()) <= 80


def test_changelog_has_an_unreleased_head() -> None:
    headings = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
    assert headings[0] == "## Unreleased"
