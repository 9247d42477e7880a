"""The project's former name stands only where it must."""

from __future__ import annotations

from tests.architecture.source import project_files
from tests.conftest import ROOT

FORMER = b"holdfast"

# This list only shrinks: stores that were written before the rename stay readable, and nothing else needs the name.
EXCEPTIONS = {
    "CHANGELOG.md": "tells of the rename",
    "src/outlast/models/provider_signature.py": "signatures in old logs begin with it",
    "src/outlast/store/files/former_name.py": "files stores of before",
    "src/outlast/store/postgres/former_name.py": "the schema before migration 6",
    "src/outlast/store/postgres/migrate.py": "runs before migration 6",
    "src/outlast/store/sql/postgres/0001_log.sql": "applied migrations never change",
    "src/outlast/store/sql/postgres/0002_ended_below_archived.sql": "applied migrations never change",
    "src/outlast/store/sql/postgres/0003_imported.sql": "applied migrations never change",
    "src/outlast/store/sql/postgres/0004_work.sql": "applied migrations never change",
    "src/outlast/store/sql/postgres/0005_place.sql": "applied migrations never change",
    "src/outlast/store/sql/postgres/0006_outlast.sql": "renames the schema",
    "src/outlast/store/sql/sqlite/0002_ended_below_archived.sql": "applied migrations never change",
    "src/outlast/store/sql/sqlite/0003_imported.sql": "applied migrations never change",
    "src/outlast/store/sql/sqlite/0005_place.sql": "applied migrations never change",
    "tests/architecture/test_former_name.py": "looks for it",
    "tests/fixtures/stores/postgres.sql": "a store of before",
    "tests/fixtures/stores/store.sqlite": "a store of before",
    "tests/golden/test_stores_before_the_rename.py": "opens the stores of before",
    "tests/integration/test_migration_four.py": "makes a store of before migration 4",
    "tests/integration/test_migrations.py": "makes a store of before migration 2",
}


def test_the_former_name_stands_only_where_it_must() -> None:
    named = {path.relative_to(ROOT).as_posix() for path in project_files() if FORMER in path.read_bytes().lower()}
    assert sorted(named - set(EXCEPTIONS)) == []
    assert sorted(set(EXCEPTIONS) - named) == [], "these no longer hold the name: take them off the list"


def test_no_path_has_the_former_name() -> None:
    names = [path.relative_to(ROOT).as_posix() for path in project_files()]
    assert [name for name in names if FORMER.decode() in name.lower()] == []


def test_the_list_of_exceptions_does_not_grow() -> None:
    assert len(EXCEPTIONS) <= 20
