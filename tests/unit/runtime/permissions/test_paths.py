"""Inside or not, by resolved components; and which names are never just files."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.runtime.permissions.paths import inside, reading_fault, resolve, writing_fault
from tests.unit.runtime.permissions.place import make_project

PART = st.sampled_from(
    [
        "..",
        ".",
        "a",
        "proj",
        "proj-evil",
        "link_out",
        "linkdir",
        "link",
        "src",
        "",
        "a.txt",
        "link_file",
        "outside",
        "new",
    ]
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("paths"))


def test_a_sibling_with_the_same_beginning_is_outside(project: Path) -> None:
    assert inside(str(project / "x"), [project])
    assert not inside(f"{project}-evil/x", [project])
    assert writing_fault("../proj-evil/x", str(project), [project])


@given(st.lists(PART, max_size=8), st.booleans())
def test_no_spelling_leads_out_unnoticed(project: Path, parts: list[str], absolute: bool) -> None:
    raw = "/".join([str(project), *parts] if absolute else parts)
    if writing_fault(raw, str(project), [project]) is None:
        assert os.path.commonpath([os.path.realpath(project / raw), project]) == str(project)
    if reading_fault(raw, str(project), [project]) is None:
        assert os.path.commonpath([resolve(raw, str(project)), project]) == str(project)


@pytest.mark.parametrize(
    "name", ["src/new.py", "README.md", "docs/a/b.md", ".github/workflows/ci.yml", ".gitignore", "Makefile"]
)
def test_ordinary_files_are_ordinary(project: Path, name: str) -> None:
    assert writing_fault(name, str(project), [project]) is None
    assert reading_fault(name, str(project), [project]) is None


def test_a_second_root_is_a_root(project: Path, tmp_path: Path) -> None:
    assert writing_fault(str(tmp_path / "x"), str(project), [project]) is not None
    assert writing_fault(str(tmp_path / "x"), str(project), [project, tmp_path]) is None


def test_a_link_into_the_project_is_inside(project: Path) -> None:
    (project / "short").symlink_to(project / "src" / "main.py")
    assert writing_fault("short", str(project), [project]) is None
