"""The OpenAPI document says what is true: schemathesis asks a running server for everything in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.http.inside import Inside
from tests.support.http_server import Server

NAMES = {
    "SessionSummary", "MessageInfo", "SessionDetail", "CreateSessionRequest", "PostMessageRequest", "SessionAck",
}  # fmt: skip


# A cursor is not made up: one that does not come from us is refused, whatever its shape. A stream that is followed does
# not end.
CONFIG = """
[[operations]]
include-operation-id = "listSessions"
checks.positive_data_acceptance.enabled = false
"""


def _asked(server: Server, folder: Path, examples: int, seconds: int) -> str:
    for n in range(3):
        server.post(server.create(title=f"Session {n}"), f"hello {n}")
    (folder / "schemathesis.toml").write_text(CONFIG)
    words = ["run", f"{server.url}/api/openapi.json", "--header", f"Authorization: Bearer {server.token}"]
    more = [
        "--max-examples",
        str(examples),
        "--request-timeout",
        "10",
        "--seed",
        "1",
        "--no-color",
        "--generation-database",
        "none",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", *words, *more, "--exclude-operation-id", "streamSession"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def test_the_document_names_what_the_contract_names(server: Server) -> None:
    document = server.api("GET", "/api/openapi.json")
    assert set(document["components"]["schemas"]) >= NAMES
    for name in ("CreateSessionRequest", "PostMessageRequest"):
        assert document["components"]["schemas"][name]["additionalProperties"] is False
    assert {"/api/sessions", "/api/sessions/{session_id}", "/api/sessions/{session_id}/stream"} <= set(
        document["paths"]
    )
    for path, item in document["paths"].items():
        for operation in item.values():
            assert path == "/healthz" or {"401", "403"} <= set(operation["responses"])


async def test_a_path_with_nothing_at_it_is_told_in_json_beside_the_document_too(door: Inside) -> None:
    for method in ("GET", "POST"):
        for path in ("/api/nothing", "/api/openapi.yaml", "/api/nothing/more", "/nothing"):
            assert "nothing at this path" in (await door.api(method, path, status=404))["detail"]


@pytest.mark.slow
@pytest.mark.timeout(450)
def test_no_request_gets_a_server_error_or_an_answer_that_the_document_does_not_tell(
    tmp_path: Path,
) -> None:
    with Server(tmp_path / "served", model="none") as server:
        assert "Tested: 37" in _asked(server, tmp_path, examples=2, seconds=400)
        assert server.stop()[1].count("failed") == 0


@pytest.mark.soak
def test_the_same_for_much_longer(tmp_path: Path) -> None:
    with Server(tmp_path / "served", model="none") as server:
        _asked(server, tmp_path, examples=300, seconds=3000)
