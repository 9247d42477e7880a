"""verify, backup, doctor, db, sessions export and demo, as a user types them: real processes, exit codes, one line."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pty
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

from outlast.core.event_row import StoredEvent, check_chain
from outlast.doors.cli import main
from outlast.store import open_store
from outlast.store.doctor.schema_status import schema_of
from outlast.store.maintenance.migrations import newest
from outlast.store.port import Append
from tests.integration.test_migration_four import older_sqlite
from tests.unit.store.populated import Populated, said

NEWEST = newest("sqlite")


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def process(*words: str) -> Done:
    """As a user types it."""
    command = [sys.executable, "-m", "outlast", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in done.stderr
    return Done(done.returncode, done.stdout, done.stderr)


Run = Callable[..., Done]


@pytest.fixture
def outlast(capfd: pytest.CaptureFixture[str]) -> Run:
    """The same without the time it takes to start a process."""

    def run(*words: str) -> Done:
        try:
            code = main(words)
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 1
        told = capfd.readouterr()
        return Done(code, told.out, told.err)

    return run


@pytest.fixture
def there(tmp_path: Path) -> Populated:
    (tmp_path / "s").mkdir(mode=0o700)
    return Populated(tmp_path / "s" / "a.db")


# --- verify


def test_verify_of_a_whole_store_exits_0(there: Populated) -> None:
    done = process("verify", "--store", there.url)
    assert (done.code, done.err) == (0, "")
    assert "no damage" in done.out


def test_verify_names_damage_and_exits_1(outlast: Run, there: Populated) -> None:
    there.sql("UPDATE events SET at = at + 1 WHERE id = ?", there.row_id("talk", 4))
    done = outlast("verify", "--store", there.url)
    assert done.code == 1
    assert f"session {there.names['talk']}, event 4: " in done.out
    assert done.err.startswith("outlast: 1 finding of damage in 1 session;")
    assert done.err.count("\n") == 1
    found = outlast("verify", there.names["talk"][:8], "--json", "--store", there.url)
    assert found.code == 1
    assert found.json["findings"] == [
        {"what": "event", "text": "stored bytes do not match their hash", "session_id": there.names["talk"], "seq": 4}
    ]
    assert outlast("verify", there.names["other"][:8], "--store", there.url).code == 0


def test_verify_of_a_session_that_is_not_there_exits_3(outlast: Run, there: Populated) -> None:
    for name in ("aaaaaa", "a" * 26, "a" * 40, "UPPER!", "../../etc"):
        done = outlast("verify", name, "--store", there.url)
        assert done.code == 3, name
        assert done.err.count("\n") == 1


def test_stored_text_cannot_steer_the_terminal(outlast: Run, there: Populated) -> None:
    there.sql("INSERT INTO routes VALUES (?, ?)", "chat\x1b[2J\n", "a" * 26)
    done = outlast("verify", "--store", there.url)
    assert done.code == 1
    assert "\x1b" not in done.out


# --- stores that are none


@pytest.mark.parametrize(
    "command", [("verify",), ("db", "version"), ("db", "upgrade"), ("backup", "copy"), ("doctor",)]
)
@pytest.mark.parametrize("kind", ["foreign", "other program", "garbage url", "folder", "missing folder"])
def test_what_is_no_store_is_one_clear_line(outlast: Run, tmp_path: Path, command: tuple[str, ...], kind: str) -> None:
    path = tmp_path / "x" / "a.db"
    path.parent.mkdir()
    match kind:
        case "foreign":
            path.write_text("a letter to a friend " * 100)
        case "other program":
            connection = apsw.Connection(str(path))
            connection.execute("CREATE TABLE t (x)")
            connection.close()
        case "folder":
            path.mkdir()
        case _:
            path = tmp_path / "none" / "a.db"
    before = sorted(tmp_path.rglob("*"))
    url = "mysql://me:secret@host/db" if kind == "garbage url" else f"sqlite:///{path}"
    words = [str(tmp_path / word) if word == "copy" else word for word in command]
    done = outlast(*words, "--store", url)
    if command == ("doctor",) and kind != "garbage url":
        assert done.code == (0 if kind == "missing folder" else 1)
    else:
        assert done.code == 1
        assert done.err.startswith("outlast: ")
        assert done.err.count("\n") == 1
        assert done.out == ""
    assert "secret" not in done.out + done.err
    assert sorted(tmp_path.rglob("*")) == before


def test_no_permission_is_one_clear_line(outlast: Run, there: Populated) -> None:
    there.path.chmod(0o000)
    user = os.geteuid()
    if user == 0:  # who may do everything
        os.seteuid(65534)
    try:
        done = outlast("verify", "--store", there.url)
    finally:
        os.seteuid(user)
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "permission" in done.err


def test_wrong_usage_exits_2(outlast: Run, there: Populated) -> None:
    assert outlast("verify", "a", "b", "--store", there.url).code == 2
    assert outlast("backup").code == 2
    assert outlast("sessions", "export", "aaaaaa", "--format", "pdf").code == 2


def test_the_default_store_is_the_one_in_the_home(
    outlast: Run, there: Populated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("OUTLAST_HOME", str(home))
    assert outlast("verify").code == 1
    assert not home.exists()
    home.mkdir(mode=0o700)
    there.path.rename(home / "outlast.db")
    assert outlast("verify").code == 0


# --- backup


def test_backup_copies_verifies_and_never_overwrites(outlast: Run, there: Populated, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    done = outlast("backup", str(copy), "--store", there.url)
    assert (done.code, done.err) == (0, "")
    assert "verified" in done.out
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.glob("copy*")] == ["copy.db"]
    again = outlast("backup", str(copy), "--store", there.url)
    assert again.code == 1
    assert "exists already" in again.err
    with open_store(f"sqlite:///{copy}") as store:
        assert {name: store.read(name) for name in there.truth} == there.truth


def test_backup_while_another_process_writes_is_a_whole_moment(there: Populated, tmp_path: Path) -> None:
    enough = threading.Event()
    with open_store(there.url) as store:

        def write() -> None:
            while not enough.is_set():
                store.commit(Append(session_id=there.names["talk"], events=(said("more"), said("and more"))))

        writer = threading.Thread(target=write)
        writer.start()
        done = process("backup", str(tmp_path / "copy.db"), "--json", "--store", there.url)
        enough.set()
        writer.join()
    assert done.code == 0
    assert done.json["ok"] is True
    with open_store(f"sqlite:///{tmp_path / 'copy.db'}") as copy:
        events = copy.read(there.names["talk"])
        assert (len(events) - len(there.truth[there.names["talk"]])) % 2 == 0  # never half a commit


def test_backup_of_a_damaged_store_says_so(outlast: Run, there: Populated, tmp_path: Path) -> None:
    there.sql("UPDATE events SET at = at + 1 WHERE id = ?", there.row_id("talk", 4))
    done = outlast("backup", str(tmp_path / "copy.db"), "--store", there.url)
    assert done.code == 1
    assert "same damage" in done.err


# --- export


def events_in(lines: str) -> list[StoredEvent]:
    """The rows that an export holds, to the byte."""
    found: list[StoredEvent] = []
    for line in lines.splitlines():
        row = json.loads(line)
        if "blob" in row:
            continue
        body = _bytes(row, line)
        row |= {"body": body, "hash": bytes.fromhex(row["hash"])}
        found.append(StoredEvent(**{name: row[name] for name in StoredEvent._fields}))
    return found


def _bytes(row: dict[str, Any], line: str) -> bytes:
    if "body_base64" in row:
        return base64.b64decode(row["body_base64"])
    return line[line.index('"body":') + 7 : -1].encode()


@pytest.mark.parametrize("what", ["talk", "fork", "long", "redacted"])
def test_export_is_lossless(outlast: Run, there: Populated, what: str) -> None:
    name = there.names[what]
    done = outlast("sessions", "export", name[:10], "--format", "jsonl", "--store", there.url)
    assert (done.code, done.err) == (0, "")
    events = events_in(done.out)
    assert events == there.truth[name]
    check_chain(bytes(32), 0, [event for event in events if event.session_id == events[0].session_id])


def test_export_keeps_large_texts(outlast: Run, there: Populated) -> None:
    done = outlast("sessions", "export", there.names["long"], "--store", there.url)
    [blob] = [json.loads(line) for line in done.out.splitlines() if line.startswith('{"blob"')]
    assert len(blob["base64"]) > 70_000


def test_export_of_a_damaged_session_writes_what_is_whole(outlast: Run, there: Populated, tmp_path: Path) -> None:
    there.sql("UPDATE events SET body = x'00' WHERE id = ?", there.row_id("talk", 4))
    there.sql("UPDATE sessions SET crc = 0 WHERE session_id = ?", there.names["talk"])
    file = tmp_path / "out.jsonl"
    done = outlast("sessions", "export", there.names["talk"], "-o", str(file), "--store", there.url)
    assert done.code == 1
    assert f"session {there.names['talk']}, event 4: " in done.err
    truth = there.truth[there.names["talk"]]
    assert events_in(file.read_text()) == [event for event in truth if event.seq != 4]


def test_export_neither_overwrites_nor_leaves_an_empty_file(outlast: Run, there: Populated, tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    assert outlast("sessions", "export", "aaaaaa", "-o", str(file), "--store", there.url).code == 3
    assert not file.exists()
    file.write_text("mine")
    done = outlast("sessions", "export", there.names["talk"], "-o", str(file), "--store", there.url)
    assert (done.code, file.read_text()) == (1, "mine")
    nowhere = str(tmp_path / "none" / "out")
    assert outlast("sessions", "export", there.names["talk"], "-o", nowhere, "--store", there.url).code == 1


# --- doctor, db


def test_doctor_exits_1_only_when_something_failed(outlast: Run, there: Populated) -> None:
    assert outlast("doctor", "--store", there.url).code == 0
    there.path.chmod(0o644)
    warned = outlast("doctor", "--json", "--store", there.url)
    assert warned.code == 0
    assert [check["status"] for check in warned.json["checks"]].count("warn") >= 1
    there.path.chmod(0o666)
    failed = outlast("doctor", "--store", there.url)
    assert failed.code == 1
    assert f"-> chmod 600 '{there.path}'" in failed.out
    assert failed.err == "outlast: 1 check failed: store file; see the remedies above\n"


def test_a_files_store_tells_its_format_instead_of_a_schema(outlast: Run, tmp_path: Path) -> None:
    url = f"files:///{tmp_path / 'f'}"
    assert outlast("db", "version", "--store", url).code == 1  # there is none, and asking makes none
    open_store(url).close()
    done = outlast("db", "version", "--store", url)
    assert (done.code, done.err) == (0, "")
    assert done.out == "format 2, this Outlast knows 2; a files store has no schema to upgrade\n"
    assert outlast("db", "version", "--json", "--store", url).json["store"] == "files"
    assert outlast("db", "upgrade", "--store", url).out == "format 2: a files store has no schema to upgrade\n"
    (tmp_path / "f" / "outlast-store.json").write_bytes(b'{"outlast":"files","format":1,"min_reader":1}\n')
    done = outlast("db", "version", "--store", url)
    assert done.out == "format 1, this Outlast knows 2; it is upgraded when it is opened for writing\n"
    done = outlast("db", "upgrade", "--store", url)
    assert done.out == "format 1 -> 2; an older Outlast refuses the store from now on\n"


@pytest.mark.parametrize("command", [("verify",), ("db", "version"), ("doctor",), ("sessions", "export", "a" * 26)])
def test_a_device_is_no_store(outlast: Run, command: tuple[str, ...]) -> None:
    done = outlast(*command, "--store", "sqlite:////dev/null")
    assert done.code == 1
    assert "/dev/null is a device or a pipe; a SQLite store is a file" in done.out + done.err
    assert done.err.count("\n") == 1


def test_a_truncated_store_is_verified_and_what_is_whole_is_exported(outlast: Run, there: Populated) -> None:
    data = there.path.read_bytes()
    there.path.write_bytes(data[: int(len(data) * 0.95)])
    verified = outlast("verify", "--store", there.url)
    assert verified.code == 1
    assert "the database can only be read" in verified.out
    written = 0
    for name in there.truth:
        done = outlast("sessions", "export", name, "--store", there.url)
        written += len(done.out.splitlines())
        assert done.code in (0, 1)
        assert (done.code == 1) == bool(done.err)
    assert written > 0.7 * sum(map(len, there.truth.values()))


def test_verify_tells_of_commits_behind_a_damaged_frame(there: Populated) -> None:
    with open_store(there.url) as store:
        for number in range(30):
            store.commit(Append(session_id=there.names["talk"], events=(said(f"{number}"),)))
        data, log = there.path.read_bytes(), bytearray(there.path.with_name("a.db-wal").read_bytes())
    log[32 + 5 * 2072 + 50] ^= 4
    there.path.write_bytes(data)
    there.path.with_name("a.db-shm").unlink(missing_ok=True)
    there.path.with_name("a.db-wal").write_bytes(log)
    for _ in range(2):  # looking changes nothing
        done = process("verify", "--store", there.url)
        assert done.code == 1
        assert "commits lie after a damaged frame of a.db-wal" in done.out


def test_db_version_tells_what_is_applied_and_what_is_not(outlast: Run, there: Populated, tmp_path: Path) -> None:
    done = outlast("db", "version", "--json", "--store", there.url)
    assert done.json["applied"][0] == "0001_log"
    assert done.json["version"] == done.json["known"]
    assert done.json["outstanding"] == []
    assert "nothing to do" in outlast("db", "upgrade", "--store", there.url).out


@pytest.fixture
def older(there: Populated, tmp_path: Path) -> str:
    """A store as the Outlast before migration 4 left it."""
    older_sqlite(there.path, tmp_path / "s" / "old.db")
    (tmp_path / "s" / "old.db").chmod(0o600)
    return f"sqlite:///{tmp_path}/s/old.db"


def test_db_upgrade_names_the_copy_that_leads_back(outlast: Run, older: str) -> None:
    todo = ", ".join(schema_of(older).outstanding)
    assert f"outstanding: {todo}\n" in outlast("db", "version", "--store", older).out
    done = outlast("db", "upgrade", "--store", older)
    assert (done.code, done.err) == (0, "")
    told, copy = done.out.splitlines()
    assert told == f"schema 3 -> {NEWEST}: applied {todo}"
    assert copy.startswith(f"copy from before the upgrade: {older.removeprefix('sqlite:///')}.before-0004.")
    assert schema_of(f"sqlite:///{copy.removeprefix('copy from before the upgrade: ')}").version == 3
    assert outlast("db", "upgrade", "--store", older).out == f"schema {NEWEST}: nothing to do\n"
    assert outlast("verify", "--store", older).code == 0


def test_db_upgrade_tells_programs_what_it_did(outlast: Run, older: str) -> None:
    done = outlast("db", "upgrade", "--json", "--store", older)
    assert (done.code, done.err) == (0, "")
    assert (done.json["before"]["version"], done.json["after"]["version"]) == (3, NEWEST)
    assert Path(done.json["copy"]).exists()
    again = outlast("db", "upgrade", "--json", "--store", older)
    assert (again.json["after"], again.json["copy"]) == (done.json["after"], None)


def test_db_upgrade_draws_its_progress_on_a_terminal_only(older: str) -> None:
    screen, terminal = pty.openpty()
    command = [sys.executable, "-m", "outlast", "db", "upgrade", "--store", older]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal, timeout=60, check=False)
    os.close(terminal)
    drawn = b""
    with contextlib.suppress(OSError):  # how a terminal without a program ends
        while piece := os.read(screen, 65536):
            drawn += piece
    os.close(screen)
    assert done.returncode == 0
    assert b"copying" in drawn
    assert b"upgrading" in drawn
    assert b"100%" in drawn
    assert done.stdout.startswith(b"schema 3 -> ")


def test_an_upgrade_that_lacks_room_changes_nothing(outlast: Run, older: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=1024)

    def full(path: object) -> object:
        return usage

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", full)
        done = outlast("db", "upgrade", "--store", older)
    assert done.code == 1
    assert "MiB of free disk" in done.err
    assert done.err.count("\n") == 1
    assert schema_of(older).version == 3


def test_a_newer_schema_is_refused_in_one_line(outlast: Run, there: Populated) -> None:
    there.sql("INSERT INTO migrations VALUES (99, 'future', 'x', 99, 0)")
    for command in (["verify"], ["db", "version"], ["db", "upgrade"]):
        done = outlast(*command, "--store", there.url)
        assert done.code == 1
        assert f"a.db has schema 99, this Outlast knows {NEWEST}: upgrade Outlast" in done.err
        assert done.err.count("\n") == 1


# --- demo


@pytest.mark.parametrize("kind", ["temporary", "files"])
def test_demo_kills_reopens_and_loses_nothing(tmp_path: Path, kind: str) -> None:
    url = {"sqlite": f"sqlite:///{tmp_path / 'd.db'}", "files": f"files:///{tmp_path / 'd'}"}.get(kind)
    done = process("demo", *(["--store", url] if url else []))
    assert (done.code, done.err) == (0, "")
    assert "kill -9" in done.out
    assert "The slow job ran 1 time." in done.out
    assert "outcome is unknown" in done.out
    assert "every hash is right" in done.out
    assert 10 <= len(done.out.splitlines()) <= 20
