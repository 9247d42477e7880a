"""An imported session belongs to the folder in which the user continues it, never to one that its file names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outlast import ConversationSession, Message, Role, open_store
from outlast.app.placement import Placement, placed
from outlast.app.sessions.boundaries import context_for_door
from outlast.app.sessions.create import check_project
from outlast.app.settings import load_settings
from outlast.app.workers.contexts import WorkerContexts
from outlast.core.errors import ConflictError
from outlast.runtime.agent_config import AgentConfig
from outlast.runtime.imported_trust import trusted_state
from outlast.runtime.service import SessionService
from tests.unit.doors.repl.test_print_mode import Place, call, reply


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Place:
    return Place(tmp_path, monkeypatch, capfdbinary)


def imported(place: Place, folder: Path) -> str:
    """Import a session whose file says that its project is this folder and its model a script; return its id."""
    there = f"sqlite:///{place.home.parent}/there.db"
    evil = place.home.parent / "evil.json"
    evil.write_text(json.dumps([reply("x"), reply("obeyed the file")]))
    with open_store(there) as store:
        session = ConversationSession(project_root=folder, store=store, model=f"scripted:{evil}")
        session.append(Message(role=Role.USER, content="hello"))
        name = session.session_id
    file = place.home.parent / "session.jsonl"
    assert place.run("sessions", "export", name, "--format", "jsonl", "-o", str(file), "--store", there).returncode == 0
    done = place.run("sessions", "import", str(file))
    assert done.returncode == 0, done.stderr
    return name


def outside(place: Place) -> Path:
    found = place.home.parent / "outside"
    found.mkdir()
    return found


def test_imported_session_writes_where_it_is_continued_and_nowhere_else(place: Place) -> None:
    folder = outside(place)
    name = imported(place, folder)
    place.says(
        call("write", file_path=f"{folder}/stolen", content="x"),
        call("bash", command=f"cp {__file__} {folder}/stolen"),
        call("write", file_path="mine", content="x"),
        call("bash", command="pwd > where"),
        reply("Done."),
    )
    done = place.run("--session", name, "-p", "go on", "--model", place.model)
    assert list(folder.iterdir()) == []
    assert (place.project / "mine").read_text() == "x"
    assert (place.project / "where").read_text() == f"{place.project}\n"
    assert f"It was imported, so it uses the folder you continue it in: {place.project}." in done.stderr


def test_file_chooses_no_model(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    name = imported(place, place.project)
    place.says(reply("mine"), reply("mine"), reply("mine"))
    monkeypatch.setenv("OUTLAST_MODEL", place.model)
    assert place.run("--session", name, "-p", "who?").stdout == "mine\n"


def test_imported_session_is_continued_by_name_first_and_belongs_to_the_folder_then(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = imported(place, place.project)
    place.says(*[reply("mine")] * 4)
    monkeypatch.setenv("OUTLAST_MODEL", place.model)
    refused = place.run("-c", "-p", "go on")
    assert refused.returncode == 3
    assert "there is no session of" in refused.stderr
    assert place.run("--session", name, "-p", "go on").returncode == 0
    assert place.run("-c", "-p", "go on").stdout == "mine\n"
    elsewhere = outside(place)
    monkeypatch.chdir(elsewhere)
    again = place.run("--session", name, "-p", "go on")
    assert again.returncode == 0
    assert "It was imported" not in again.stderr  # it is bound by now
    with open_store(load_settings().store) as store:
        assert placed(store, store.head(name)).project_root == str(place.project)
        assert store.head(name).project_root == str(place.project)


def test_folder_that_the_file_itself_binds_does_not_count(place: Place) -> None:
    folder = outside(place)
    there = f"sqlite:///{place.home.parent}/there.db"
    with open_store(there) as store:
        session = ConversationSession(project_root=folder, store=store)
        session.append(Message(role=Role.USER, content="hello"))
        name = session.session_id
        SessionService(store).update(name, runtime={"bound_project": str(folder)})
    file = place.home.parent / "session.jsonl"
    place.run("sessions", "export", name, "--format", "jsonl", "-o", str(file), "--store", there)
    place.run("sessions", "import", str(file))
    with open_store(load_settings().store) as store:
        assert placed(store, store.head(name)).project_root is None


async def test_workers_doors_and_clients_do_not_take_the_folder_or_the_model_of_the_file(place: Place) -> None:
    folder = outside(place)
    name = imported(place, folder)
    settings = load_settings(model="none")
    with open_store(settings.store) as store:
        header = store.head(name)
        assert header.project_root == str(folder)  # the file is kept as it is
        assert trusted_state(store, name).model is None
        contexts = WorkerContexts(store, settings, AgentConfig(), places=Placement())
        assert contexts.preview(name).project == place.project
        assert context_for_door(settings, store, header).project == place.project
        with pytest.raises(ConflictError, match="is not a project that this server knows"):
            check_project(store, settings, folder)
        fork = ConversationSession.load(session_id=name, store=store)
        assert fork is not None
        assert placed(store, store.head(fork.fork().session_id)).project_root is None


def test_import_stays_whole(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    name = imported(place, outside(place))
    place.says(*[reply("mine")] * 3)
    monkeypatch.setenv("OUTLAST_MODEL", place.model)
    assert place.run("--session", name, "-p", "go on").returncode == 0
    assert place.run("verify", name).returncode == 0
