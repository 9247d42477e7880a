"""Values of the project's secret files do not appear in what commands put out."""

from __future__ import annotations

from pathlib import Path

import pytest

from outlast.runtime.tools.process.secret_mask import SecretMask, secret_mask, secret_values

KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("API_KEY=sk-abcdef123456", "sk-abcdef123456"),
        ("export TOKEN='correcthorse'", "correcthorse"),
        ('  "password": "hunter2hunter2",', "hunter2hunter2"),
        ("DATABASE_URL=postgres://user:s3cretpass@localhost/db", "s3cretpass"),
        ("SALT = a1b2c3d4e5 # comment", "a1b2c3d4e5"),
        ("OTHER=9f8a7b6c5d4e3f2a", "9f8a7b6c5d4e3f2a"),
    ],
)
def test_a_secret_value_is_found(line: str, value: str) -> None:
    assert [found for _, found in secret_values(line)] == [value]


@pytest.mark.parametrize(
    "line",
    [
        "MODE=development",
        "PORT=30000000",
        "URL=http://localhost:3000/api",
        "DIR=/usr/local/share",
        "# API_KEY=sk-abcdef123456",
        "API_KEY=short",
        "API_KEY=your-key-goes-here",
        "no setting at all",
    ],
)
def test_what_is_no_secret_is_left_alone(line: str) -> None:
    assert list(secret_values(line)) == []


def test_files_of_the_project_are_read_and_examples_are_not(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("API_KEY=sk-abcdef123456\n")
    (tmp_path / ".env.example").write_text("API_KEY=sk-example-000000\n")
    (tmp_path / "certs").mkdir()
    (tmp_path / "certs/server.key").write_text(KEY)
    mask = secret_mask((tmp_path,))
    assert mask.text("it is sk-abcdef123456!") == "it is [value of API_KEY in .env, hidden]!"
    assert mask.text("sk-example-000000") == "sk-example-000000"
    assert mask.text(KEY).count("[value of a private key in certs/server.key, hidden]") == 2


def test_a_link_to_a_file_outside_is_not_read(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "elsewhere").write_text("API_KEY=sk-abcdef123456\n")
    (project / ".env").symlink_to(tmp_path / "elsewhere")
    assert not secret_mask((project,))


def test_a_stream_hides_a_value_that_comes_in_pieces() -> None:
    told: list[str] = []
    tell = SecretMask({"sk-abcdef123456": "[hidden]"}).stream(told.append)
    for piece in ("a sk-abc", "def123", "456 b sk-", "no"):
        tell(piece)
    assert "".join(told) == "a [hidden] b sk-no"


def test_a_file_is_rewritten_without_the_values(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * 2_000_000 + b"\nsk-abcdef123456\n\xff\n")
    SecretMask({"sk-abcdef123456": "[hidden]"}).file(log)
    assert log.read_bytes() == b"x" * 2_000_000 + b"\n[hidden]\n\xff\n"
    SecretMask({"sk-abcdef123456": "[hidden]"}).file(tmp_path / "none")
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
