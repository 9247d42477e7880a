"""One-shot answers and the mistakes one can make, in this process: no terminal, a scripted model, a home of its own."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from outlast import Agent, ConversationSession, SessionBusy, open_store
from outlast.core.events import ApprovalRequested, AssistantReplied, InputAdmitted, TurnStarted
from outlast.core.messages import TextPart, ToolCall, Usage
from outlast.doors import cli
from outlast.doors.repl import print_mode
from outlast.store.log_store import LogStore
from outlast.store.port import Append, Claim, Lease, NewEvent, Release
from outlast.store.process_identity import holder


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def call(name: str, /, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def reply(text: str, **more: Any) -> dict[str, Any]:
    return {"content": text, **more}


class Place:
    """A project and a home, and `outlast` run in them."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
    ) -> None:
        self.project, self.home, self.script = folder / "project", folder / "home", folder / "script.json"
        self.project.mkdir()
        self._patch, self._captured = monkeypatch, capfdbinary
        monkeypatch.setenv("OUTLAST_HOME", str(self.home))
        monkeypatch.chdir(self.project)

    @property
    def model(self) -> str:
        return f"scripted:{self.script}"

    def says(self, *lines: dict[str, Any]) -> None:
        self.script.write_text(json.dumps(lines))

    def run(self, *words: str, stdin: str = "") -> Done:
        given = io.TextIOWrapper(io.BytesIO(stdin.encode()))
        self._patch.setattr(sys, "stdin", given)
        try:
            code = cli.main(words)
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 1
        out, err = self._captured.readouterr()
        return Done(code, out.decode(), err.decode())


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Place:
    return Place(tmp_path, monkeypatch, capfdbinary)


def test_without_a_terminal_a_prompt_needs_no_flag(place: Place) -> None:
    place.says(reply("Forty-two."))
    assert place.run("What is it?", "--model", place.model).stdout == "Forty-two.\n"


def test_a_failed_turn_is_one_sentence_and_exit_code_1(place: Place) -> None:
    place.says({"error": "no such key", "status": 401})
    done = place.run("-p", "go", "--model", place.model, "--output-format", "json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["outcome"] == "failed"
    assert done.stderr == "outlast: no such key\n"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["-p", "x", "-r", "zzzzzz"], 3, "no session begins with zzzzzz"),
        (["-p", "x", "--session", "!"], 3, "is not a session id"),
        (["-p", "x", "-c"], 3, "there is no session of"),
        (["-p", "x", "--model", "nonsense"], 1, "unknown model 'nonsense'"),
        (["-p", "x", "--model", "scripted:nowhere.json"], 1, "the script cannot be read"),
        (["-p", "x", "--permission-mode", "all"], 2, "'all' is not one of 'read-only', 'workspace-write'"),
        (["-p", "x", "--persona", "nobody"], 1, "there is no persona 'nobody'"),
        (["-p", "x", "--effort", "much"], 2, "'much' is not one of 'low', 'medium', 'high'"),
        (["-p", "x", "--add-dir", "nowhere"], 1, "is not a folder"),
        (["-p"], 2, "there is nothing to do"),
        (["-p", "-r"], 2, "there is no terminal to choose a session in"),
        (["-p", "x", "-c", "-r", "zzzzzz"], 2, "give one of them"),
        (["-p", "x", "--fork"], 2, "--fork needs --continue, --resume or --session"),
        (["sesions", "list"], 2, "did you mean the command 'sessions'?"),
        (["--model", "none", "verify"], 2, "a command comes before its options: outlast verify"),
        (["verfy"], 2, "unknown command 'verfy'; did you mean 'verify'?"),
        (["sessions"], 2, "missing command; see `outlast sessions --help`"),
        (["sessions", "show"], 2, "missing argument 'ID'"),
        (["--no-such-option"], 2, "--no-such-option"),
    ],
)
def test_a_mistake_is_one_clear_sentence_with_its_exit_code(
    place: Place, words: list[str], code: int, told: str
) -> None:
    place.says(reply("x"))
    done = place.run(*words, *([] if "--model" in words else ["--model", place.model] if code != 2 else []))
    assert done.returncode == code, done.stderr
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_a_broken_config_and_an_unusable_home_are_told(place: Place) -> None:
    place.says(reply("x"))
    place.home.mkdir()
    (place.home / "config.toml").write_text("model = \n")
    broken = place.run("-p", "x")
    assert (broken.returncode, "is not valid TOML" in broken.stderr) == (1, True)
    (place.home / "config.toml").unlink()
    place.home.rmdir()
    place.home.write_text("a file")
    unusable = place.run("-p", "x", "--model", place.model)
    assert unusable.returncode == 1
    assert len(unusable.stderr.splitlines()) == 1
    assert f"{place.home} is not a folder" in unusable.stderr
    examined = place.run("doctor")
    assert examined.returncode == 1
    assert "cannot be created in" in examined.stdout


def test_model_none_only_admits_and_a_fork_leaves_its_source_alone(place: Place) -> None:
    admitted = json.loads(place.run("-p", "later", "--model", "none", "--output-format", "json").stdout)
    assert admitted["outcome"] == "admitted"
    place.says(reply("Now."), reply("In the fork."))
    assert place.run("-p", "-c", "--model", place.model).stdout == "Now.\n"
    source = admitted["session_id"]
    words = ["-p", "again", "-r", source[:8], "--fork", "--model", place.model, "--output-format", "json"]
    forked = json.loads(place.run(*words).stdout)
    assert forked["session_id"] != source
    assert forked["answer"] == "Now."  # a fork has had no replies of its own


def test_config_is_written_read_and_checked(place: Place) -> None:
    assert place.run("config", "set", "model", "local").returncode == 0
    assert place.run("config", "get", "model").stdout == "local\n"
    assert json.loads(place.run("config", "get", "--json").stdout)["model"] == "local"
    refused = place.run("config", "set", "permission_mode", "everything")
    assert (refused.returncode, "is unknown" in refused.stderr) == (1, True)
    assert (place.home / "config.toml").read_text() == 'model = "local"\n'


def test_a_setting_that_is_refused_leaves_no_file_and_passwords_are_not_shown(place: Place) -> None:
    assert place.run("config", "set", "context_window", "12").returncode == 1
    assert not (place.home / "config.toml").exists()
    assert place.run("config", "set", "resume_on_start", "false").returncode == 0
    assert place.run("config", "set", "store", "postgresql://me:hidden@db/x").returncode == 0
    assert place.run("config", "get", "store").stdout == "postgresql://me:(set)@db/x\n"


def test_where_the_settings_are_is_told_though_they_cannot_be_read(place: Place) -> None:
    place.home.mkdir()
    (place.home / "config.toml").write_text("model = \n")
    assert place.run("config", "path").stdout.strip() == str(place.home / "config.toml")


def test_a_linked_config_file_stays_a_link(place: Place) -> None:
    place.home.mkdir()
    kept = place.home.parent / "kept.toml"
    kept.touch()
    (place.home / "config.toml").symlink_to(kept)
    assert place.run("config", "set", "model", "local").returncode == 0
    assert kept.read_text() == 'model = "local"\n'


@pytest.mark.usefixtures("asks_first")
def test_what_nobody_can_be_asked_about_is_denied_and_named_with_its_flag(place: Place) -> None:
    place.says(call("bash", command="install /dev/null made.txt"), *[reply("It was denied.")] * 8)
    done = place.run("-p", "make it", "--model", place.model)
    assert done.returncode == 0
    assert "--allow 'bash(install" in done.stderr
    assert not (place.project / "made.txt").exists()
    allowed = place.run("-p", "make it", "--model", place.model, "--allow", "bash(install *)")
    assert allowed.returncode == 0
    assert (place.project / "made.txt").exists()


@pytest.mark.usefixtures("asks_first")
def test_what_is_denied_to_a_sub_agent_is_named_too(place: Place) -> None:
    shell, task = call("bash", command="install /dev/null made.txt"), call("task", prompt="Look into the parser.")
    place.says(shell, reply("One."), task, reply("Two."))
    place.run("-p", "one", "--model", place.model)
    done = place.run("-p", "-c", "two", "--model", place.model, "--output-format", "json")
    [denied] = json.loads(done.stdout)["denied"]
    assert denied.startswith("sub-agent: bash was not executed: ")
    assert "--allow 'bash(install" in done.stderr


@pytest.mark.parametrize("was_read", [False, True])
def test_what_is_refused_as_busy_is_not_answered_later(
    place: Place, monkeypatch: pytest.MonkeyPatch, was_read: bool
) -> None:
    """Another process takes the session between our look at it and our turn."""
    place.says(reply("First."))
    name = json.loads(place.run("-p", "x", "--model", place.model, "--output-format", "json").stdout)["session_id"]
    with open_store(f"sqlite:///{place.home}/outlast.db") as store:
        lease = store.commit(Claim(session_id=name, token="another", holder=holder()))[0].lease
        monkeypatch.setattr(print_mode, "driven_by", _nobody)
        if was_read:
            monkeypatch.setattr(Agent, "resume", _taken_by(store, name, lease))
        refused = place.run("-p", "y", "-r", name, "--model", place.model)
        assert refused.returncode == 4
        assert ("answers it" in refused.stderr) is was_read
        assert store.head(name).pending_count == was_read


def _nobody(store: LogStore, session_id: str) -> None:
    return None


def _taken_by(store: LogStore, session_id: str, lease: Lease | None) -> Any:
    async def resume(self: Agent) -> str:
        """Whoever has the lease is faster."""
        began = NewEvent(event=TurnStarted(inputs=[store.head(session_id).last_seq]), turn="theirs")
        await store.commit_async(Append(session_id=session_id, events=(began,), lease=lease))
        raise SessionBusy("another process drives it")

    return resume


def test_who_goes_on_in_another_folder_is_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.says(reply("Here."), reply("There."))
    started = json.loads(place.run("-p", "x", "--model", place.model, "--output-format", "json").stdout)
    first, other = place.project, place.project.parent / "another"
    first.rename(other)
    monkeypatch.chdir(other)
    done = place.run("-p", "y", "--resume", started["session_id"], "--model", place.model)
    assert done.stdout == "There.\n"
    assert done.stderr == f"outlast: Its folder {first} is gone; it continues in {other}.\n"


def test_an_ended_session_is_refused_with_a_remedy_and_its_fork_is_not(place: Place) -> None:
    place.says(reply("First."))
    name = json.loads(place.run("-p", "x", "--model", place.model, "--output-format", "json").stdout)["session_id"]
    with open_store(f"sqlite:///{place.home}/outlast.db") as store:
        ConversationSession.resume(name, store=store).end()
    refused = place.run("-p", "y", "-r", name[:8], "--model", place.model)
    assert refused.returncode == 4
    assert f"outlast sessions reopen {name[:8]}" in refused.stderr
    assert place.run("-p", "y", "-r", name[:8], "--fork", "--model", place.model).returncode == 0


# --- how a turn ended, as an exit code


@pytest.mark.usefixtures("asks_first")
def test_a_denied_command_is_reported_once_and_the_turn_is_completed(place: Place) -> None:
    """Defect 10 of the terminal trial: one denial, one answer, exit code 0."""
    denied = call("bash", command="install /dev/null made.txt")
    place.says(denied, denied, reply("I may not install it."))
    done = place.run("-p", "remove the build folder", "--model", place.model, "--output-format", "json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["exit_code"], told["outcome"]) == (0, 0, "completed")
    assert told["answer"] == "I may not install it."
    assert len(done.stderr.splitlines()) == len(told["denied"]) == 1
    assert "(--allow 'bash(install /dev/null made.txt)' allows it)" in done.stderr
    assert "in your answer" not in done.stderr, "that is for the model"


@pytest.mark.parametrize(
    ("prompt", "answer"),
    [
        ("Translate 'good night' to French", "Bonne nuit"),
        ("Don't change anything, just tell me how you would fix div", "I would check for zero."),
        ("Improve the code", "Which part of it do you mean?"),
        ("Can you add type hints?", "They are there already."),
    ],
)
def test_stdout_is_the_answer_to_the_prompt_and_no_other_request_is_made(
    place: Place, prompt: str, answer: str
) -> None:
    """Defect 3 of the terminal trial."""
    place.says(reply(answer), reply("There is nothing left to do with tools."))
    done = place.run("-p", prompt, "--model", place.model)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{answer}\n", "")


def test_a_spent_budget_is_exit_code_6_with_the_last_answer(place: Place) -> None:
    (place.project / "a.txt").write_text("x")
    place.says(call("read", file_path="a.txt"), reply("It says x; nothing else was read."))
    done = place.run("-p", "read", "--model", place.model, "--max-steps", "1")
    assert (done.returncode, done.stdout) == (6, "It says x; nothing else was read.\n")
    assert done.stderr == "outlast: stopped: the step budget of 1 is used up\n"


def test_a_stopped_turn_is_exit_code_5(place: Place) -> None:
    place.says(reply(""), reply(""), reply(""), reply(""))
    done = place.run("-p", "go", "--model", place.model, "--output-format", "json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["exit_code"], told["outcome"]) == (5, 5, "stopped")
    assert done.stderr == "outlast: stopped: the model's replies were empty\n"


def test_a_question_that_nobody_can_answer_is_exit_code_7(place: Place) -> None:
    place.says(call("ask_user", question="Which database?"), reply("I need to know which database."))
    done = place.run("-p", "migrate it", "--model", place.model, "--output-format", "json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["exit_code"], told["outcome"]) == (7, 7, "waiting")
    assert told["answer"] == "I need to know which database."
    assert "no user could answer its question here: Which database?" in done.stderr


def test_a_question_after_which_the_model_goes_on_by_itself_is_exit_code_0(place: Place) -> None:
    place.says(
        call("ask_user", question="Which name?"), call("write", file_path="a.txt", content="x"), reply("I chose a.txt.")
    )
    done = place.run("-p", "write it", "--model", place.model)
    assert (done.returncode, done.stdout, done.stderr) == (0, "I chose a.txt.\n", "")


def test_a_session_that_waits_for_an_answer_is_not_waited_for(place: Place) -> None:
    """Its turn was left open at a question of the terminal; nothing is queued behind it."""
    place.says(reply("First."))
    name = json.loads(place.run("-p", "x", "--model", place.model, "--output-format", "json").stdout)["session_id"]
    with open_store(f"sqlite:///{place.home}/outlast.db") as store:
        lease = store.commit(Claim(session_id=name, token="died", holder=holder()))[0].lease
        assert lease is not None
        asks = ToolCall(id="c1", name="bash", arguments={"command": "make"})
        last = store.head(name).last_seq
        left = (
            InputAdmitted(parts=(TextPart("build"),)),
            TurnStarted(inputs=[last + 1]),
            AssistantReplied(attempt_seq=0, parts=(asks,), usage=Usage(), model="scripted"),
            ApprovalRequested(call_id="c1", name="bash", arguments={"command": "make"}, call_digest="d"),
        )
        events = tuple(NewEvent(event=event, turn="theirs") for event in left)
        store.commit(Append(session_id=name, events=events, lease=lease))
        store.commit(Release(lease=lease))
        before = store.head(name).last_seq
        done = place.run("-p", "hello", "--resume", name, "--model", place.model)
        assert (done.returncode, done.stdout) == (7, "")
        assert "waits for your answer (bash)" in done.stderr
        assert store.head(name).last_seq == before


# --- plan mode


PLAN = "# Steps\n- write a.txt with all that is needed in it, and run the tests afterwards\n"


@pytest.mark.parametrize(("last", "printed"), [(PLAN, PLAN), ("Here it is.", f"{PLAN}\nHere it is.\n")])
def test_with_plan_the_plan_is_the_answer_and_nothing_is_written(place: Place, last: str, printed: str) -> None:
    place.says(
        call("write", file_path="a.txt", content="x"),
        call("exit_plan", plan=PLAN),
        reply(last),
        reply("Still planning."),
    )
    words = ["--model", place.model, "--permission-mode", "allow"]
    done = place.run("-p", "make it", "--plan", *words)
    assert (done.returncode, done.stdout) == (0, printed)
    assert not (place.project / "a.txt").exists()
    assert done.stderr.count("plan mode is on") == 1
    with open_store(f"sqlite:///{place.home}/outlast.db") as store:
        [header] = ConversationSession.list(store=store)
        assert header.plan_mode, "a resume is in plan mode, too"


@pytest.mark.parametrize("words", [["--workflow", "guided"], ["--workflow", "plain"], []])
def test_the_workflow_of_the_flag_leads_the_turn(
    place: Place, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    led: list[str] = []
    built = Agent._turn_context

    def seen(self: Agent, *given: Any) -> Any:
        context = built(self, *given)
        led.append(context.policy.__name__)
        return context

    monkeypatch.setattr(Agent, "_turn_context", seen)
    place.says(reply("Four."))
    assert place.run("-p", "two plus two?", "--model", place.model, *words).stdout == "Four.\n"
    assert set(led) == {"GuidedPolicy" if "guided" in words else "PlainPolicy"}
