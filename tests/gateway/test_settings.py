"""`[gateway.NAME]` tables: what they may say, and one sentence for every mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from outlast.app.chat.pairing_code import credential_of
from outlast.app.models import remember_model
from outlast.app.settings import load_settings
from outlast.app.settings_file import change_setting
from outlast.core.errors import ConfigError
from outlast.core.events import Delivery
from outlast.doors.gateway.platform_factory import platform_for
from outlast.runtime.permissions.mode import PermissionMode

TELEGRAM = '[gateway.home]\nplatform = "telegram"\ntoken = "1:x"\n'


def written(tmp_path: Path, text: str) -> Path:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(text)
    return home


def test_what_is_not_said_is_the_careful_choice(tmp_path: Path) -> None:
    [table] = load_settings(home=written(tmp_path, TELEGRAM)).gateway
    assert (table.name, table.platform) == ("home", "telegram")
    assert table.owners == table.members == frozenset()
    assert table.permission_mode is PermissionMode.READ_ONLY
    assert (table.busy, table.groups, table.per_user, table.per_thread) == (Delivery.QUEUE, "addressed", True, True)
    assert "1:x" not in repr(table)


def test_everything_can_be_said(tmp_path: Path) -> None:
    text = f"""
    [gateway.work]
    platform = "matrix"
    homeserver = "https://example.org/"
    user = "@bot:example.org"
    password_env = "MATRIX_PASSWORD"
    owners = ["@me:example.org", 7]
    members = ["@you:example.org"]
    project = "{tmp_path}"
    permission_mode = "workspace-write"
    model = "openai:gpt-5"
    persona = "default"
    busy = "steer"
    groups = "always"
    per_user = false
    per_thread = false
    edit_seconds = 2
    compaction = "rotate"
    compact_at_tokens = 50000

    [gateway.work.chats]
    "!room:example.org" = "prompt"
    """
    [table] = load_settings(home=written(tmp_path, text)).gateway
    assert table.owners == {"@me:example.org", "7"}
    assert (table.homeserver, table.user) == ("https://example.org", "@bot:example.org")
    assert (table.busy, table.edit_seconds, table.compact_at_tokens) == (Delivery.STEER, 2.0, 50_000)
    assert table.project == tmp_path
    assert table.mode_of("!room:example.org") is PermissionMode.PROMPT
    assert table.mode_of("!other:example.org") is PermissionMode.WORKSPACE_WRITE
    assert table.mode_for(["!room:example.org", "!other:example.org"]) is PermissionMode.READ_ONLY
    assert table.mode_for([]) is PermissionMode.READ_ONLY
    assert table.credential.kind == "password"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("gateway = 3", "must be [gateway.NAME] tables"),
        ("[gateway]\nhome = 1", "must be a table"),
        ('[gateway."Not Good"]\nplatform = "telegram"', "the name must be"),
        ("[gateway.home]", "platform must be one of telegram, matrix, webhook"),
        ('[gateway.home]\nplatform = "irc"', "platform must be one of"),
        ('[gateway.home]\nplatform = "telegram"', "exactly one of token (or token_env)"),
        (f'{TELEGRAM}token_env = "X_TOKEN"', "exactly one of"),
        ('[gateway.home]\nplatform = "telegram"\ntoken_env = "MY_BOT"', "tools would see the variable MY_BOT"),
        (f"{TELEGRAM}colour = 1", "unknown key 'colour'"),
        (f'{TELEGRAM}homeserver = "https://x"', "unknown key 'homeserver'"),
        (f'{TELEGRAM}owners = "1001"', "list of user ids"),
        (f"{TELEGRAM}owners = [true]", "list of user ids"),
        (f'{TELEGRAM}owners = ["@somebody"]', "user name @somebody, which another person can take over"),
        (f'{TELEGRAM}project = "/no/such/folder"', "is not a folder"),
        (f'{TELEGRAM}permission_mode = "everything"', "permission_mode must be one of"),
        (f'{TELEGRAM}chats = ["-1001"]', "chats must be a table of chat ids"),
        (f'{TELEGRAM}[gateway.home.chats]\n"-1001" = "all"', "chats.-1001 must be one of"),
        (f'{TELEGRAM}busy = "panic"', "busy must be one of queue, steer, interrupt"),
        (f'{TELEGRAM}groups = "sometimes"', "groups must be one of"),
        (f'{TELEGRAM}per_user = "yes"', "per_user must be true or false"),
        (f"{TELEGRAM}edit_seconds = -1", "edit_seconds must be a number of seconds"),
        (f"{TELEGRAM}compact_at_tokens = 10", "at least 1000"),
        (f'{TELEGRAM}api_url = "ftp://x"', "api_url must be an address"),
        ('[gateway.m]\nplatform = "matrix"\ntoken = "x"\nuser = "@a:b"', "homeserver is missing"),
        ('[gateway.m]\nplatform = "matrix"\ntoken = "x"\nhomeserver = "https://x"\nuser = "me"', "a Matrix id"),
        ('[gateway.w]\nplatform = "webhook"\nsecret = "short"\ncallback_url = "https://x"', "at least 32 characters"),
        ('[gateway.w]\nplatform = "webhook"\nsecret_env = "X_SECRET"', "callback_url is missing"),
    ],
)
def test_a_mistake_is_one_sentence_with_the_table_and_the_key(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_settings(home=written(tmp_path, text))
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "config.toml" in str(refused.value)


def test_a_projects_file_may_not_open_a_chat(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".outlast").mkdir(parents=True)
    (project / ".outlast" / "config.toml").write_text(TELEGRAM)
    with pytest.raises(ConfigError, match="a project file may not set 'gateway'"):
        load_settings(home=tmp_path / "home", project_root=project)


def test_a_secret_can_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '[gateway.home]\nplatform = "telegram"\ntoken_env = "THE_TOKEN"\n'
    settings = load_settings(home=written(tmp_path, text))
    with pytest.raises(ConfigError, match="THE_TOKEN is not set"):
        platform_for(settings.gateway[0], settings)
    monkeypatch.setenv("THE_TOKEN", "1:secret")
    assert credential_of(settings.gateway[0]) == "1:secret"
    assert platform_for(settings.gateway[0], settings).name == "telegram"


def test_a_webhooks_secret_is_long_wherever_it_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '[gateway.w]\nplatform = "webhook"\nsecret_env = "X_SECRET"\ncallback_url = "https://x"'
    settings = load_settings(home=written(tmp_path, text))
    monkeypatch.setenv("X_SECRET", "short")
    with pytest.raises(ConfigError, match="X_SECRET must have at least 32 characters"):
        platform_for(settings.gateway[0], settings)


def test_setting_a_value_leaves_the_tables_alone(tmp_path: Path) -> None:
    text = f'persona = "default"\n\n{TELEGRAM}model = "openai:gpt-5"\npersona = "default"\n'
    home = written(tmp_path, text)
    change_setting(home, "model", "local")
    settings = load_settings(home=home)
    assert (settings.model, settings.gateway[0].model) == ("local", "openai:gpt-5")
    change_setting(home, "persona", "")
    assert load_settings(home=home).gateway[0].persona == "default"
    change_setting(home, "model", "")
    remember_model(load_settings(home=home), "local")
    assert load_settings(home=home).model == "local"
