"""A question about a wall of the sandbox, as each door words it."""

from __future__ import annotations

from outlast.app.sessions.pending_approvals import command_details, opened_walls
from outlast.core.outbox import OpenQuestion
from outlast.doors.gateway.message_text import call_text
from outlast.doors.repl.approval_panel import ApprovalPanel, ApprovalQuestion

ASKED: dict[str, object] = {
    "command": "curl https://example.org",
    "needs": ["network:example.org"],
    "why": "to read the page",
}
REASON = 'needs the network: example.org; the model says: "to read the page"'


def _drawn(arguments: dict[str, object], reason: str) -> str:
    panel = ApprovalPanel()
    asked = ApprovalQuestion(
        session_id="s",
        seq=1,
        name="bash",
        arguments=arguments,
        call_digest="d",
        reason=reason,
        scope="the network to example.org, for every command",
    )
    panel.ask(asked)
    return "".join(str(piece[1]) for piece in panel.drawn(20, 120))


def test_walls_are_named_in_words() -> None:
    needs = ["network:example.org", "write:/srv/a:b", "read:/x", "localhost:5432", "socket:/run/s"]
    told = opened_walls(needs)
    assert told == (
        "the network to example.org and writing to /srv/a:b and reading /x and port 5432 of this machine "
        "and the socket /run/s"
    )
    assert opened_walls(["nonsense"]) == "nonsense"


def test_model_words_are_quoted_once() -> None:
    assert command_details(ASKED, REASON) == ["opens the network to example.org"]
    assert command_details(ASKED, "needs the network: example.org") == [
        "opens the network to example.org",
        'the model says: "to read the page"',
    ]
    assert command_details({"command": "x", "timeout": 5, "needs": []}, None) == ["timeout = 5"]


def test_panel_shows_reason_then_command_and_no_raw_list() -> None:
    drawn = _drawn(ASKED, REASON)
    assert drawn.index("Allow bash?") < drawn.index("needs the network") < drawn.index("curl https")
    assert "['network" not in drawn
    assert "needs =" not in drawn
    assert "2 and 3 cover the network to example.org, for every command" in drawn


def test_panel_of_a_command_without_needs_asks_about_bash() -> None:
    assert "Allow bash?" in _drawn({"command": "git clean -x"}, "the command deletes ignored files")


def test_chat_shows_reason_then_command_and_no_raw_list() -> None:
    told = call_text(OpenQuestion(name="bash", arguments=ASKED, call_digest="d", reason=REASON))
    assert told.index("Allow bash?") < told.index("needs the network") < told.index("curl https")
    assert "['network" not in told
