"""The environment of a command: nothing that opens a door."""

import pytest

from outlast.runtime.tools.process.environment import clean_environment


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GITHUB_TOKEN", "GH_TOKEN",
        "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "OUTLAST_TOKEN", "OUTLAST_STORE",
        "CLIENT_SECRET", "PGPASSWORD", "MY_password", "AZURE_X",
        "GOOGLE_APPLICATION_CREDENTIALS", "NPM_TOKEN", "SIGNING_KEY", "SENTRY_DSN", "GEMINI_API_KEY", "APIKEY",
        "api_key", "BASH_ENV", "ENV", "BASH_FUNC_x%%", "LD_PRELOAD", "PROMPT_COMMAND", "TOKEN", "SSH_PASSPHRASE",
    ],
)  # fmt: skip
def test_secrets_and_meddlers_are_dropped(name: str) -> None:
    assert name not in clean_environment({name: "x"})


@pytest.mark.parametrize("name", ["PATH", "HOME", "LANG", "USER", "VIRTUAL_ENV", "EDITOR", "TERM_PROGRAM", "CI"])
def test_ordinary_names_are_kept(name: str) -> None:
    assert clean_environment({name: "x"})[name] == "x"


def test_address_with_a_password_is_dropped_under_any_name() -> None:
    cleaned = clean_environment({"DATABASE_URL": "postgresql://me:pw@host/db", "HTTP_PROXY": "http://proxy:3128"})
    assert "DATABASE_URL" not in cleaned
    assert cleaned["HTTP_PROXY"] == "http://proxy:3128"


def test_terminal_is_dumb_and_the_session_is_named() -> None:
    cleaned = clean_environment({"TERM": "xterm", "OUTLAST_SESSION_ID": "other"}, "mine")
    assert (cleaned["TERM"], cleaned["OUTLAST_SESSION_ID"], cleaned["GIT_TERMINAL_PROMPT"]) == ("dumb", "mine", "0")


def test_given_environment_is_left_as_it_is() -> None:
    given = {"A_TOKEN": "x"}
    clean_environment(given)
    assert given == {"A_TOKEN": "x"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"LANG": "de_DE.UTF-8"}, None),
        ({"LC_ALL": "C"}, "C"),
        ({"LC_ALL": "ja_JP.utf8"}, "ja_JP.utf8"),
        ({"LANG": "zh_CN.GBK"}, "C.UTF-8"),
        ({"LC_ALL": "zh_TW.Big5", "LANG": "C.UTF-8"}, "C.UTF-8"),
        ({"LC_CTYPE": "ja_JP.SJIS", "LANG": "C.UTF-8"}, "C.UTF-8"),
        ({"LANG": "zh_HK"}, "C.UTF-8"),
    ],
)
def test_a_locale_in_which_a_backslash_may_be_half_a_character_is_replaced(
    given: dict[str, str], expected: str | None
) -> None:
    assert clean_environment(given).get("LC_ALL") == expected


def test_empty_elements_of_path_which_mean_the_current_folder_are_left_out() -> None:
    assert clean_environment({"PATH": ":/usr/bin::/bin:"})["PATH"] == "/usr/bin:/bin"


@pytest.mark.parametrize(
    "name",
    [
        "SSH_AUTH_SOCK", "SSH_AGENT_PID", "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS", "TMUX", "TMUX_PANE",
        "STY", "DOCKER_HOST", "CONTAINER_HOST", "XDG_RUNTIME_DIR", "DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY",
        "WAYLAND_SOCKET", "NVIM", "VSCODE_IPC_HOOK_CLI", "GPG_AGENT_INFO",
    ],
)  # fmt: skip
def test_m6_programs_that_act_for_any_client_are_not_named(name: str) -> None:
    assert name not in clean_environment({name: "x"})
