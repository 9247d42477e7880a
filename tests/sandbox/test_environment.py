"""Which variables a sandboxed command gets."""

import pytest

from outlast.runtime.sandbox.environment import ALLOWED, DEFAULT_PATH, sandbox_environment, search_path


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OUTLAST_HOME", "AWS_ACCESS_KEY_ID", "GITHUB_TOKEN",
        "SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "TMUX", "STY", "DISPLAY",
        "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "XDG_SESSION_ID", "DOCKER_HOST", "CONTAINER_HOST",
        "KUBECONFIG", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "LD_PRELOAD", "BASH_ENV", "ENV", "PROMPT_COMMAND",
        "BASH_FUNC_ls%%", "GIT_DIR", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "EDITOR", "VISUAL", "DATABASE_URL",
        "MY_OWN_SETTING", "CONDA_TOKEN", "POETRY_PYPI_TOKEN_X", "POETRY_HTTP_BASIC_X_PASSWORD", "CARGO_REGISTRY_TOKEN",
        "GIT_CONFIG_VALUE_0",
    ],
)  # fmt: skip
def test_variable_that_is_not_on_the_list_is_dropped(name: str) -> None:
    assert name not in sandbox_environment({name: "value"})


@pytest.mark.parametrize(
    "name", ["HOME", "USER", "TZ", "CI", "NODE_ENV", "JAVA_HOME", "GOPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CFLAGS",
             "PKG_CONFIG_PATH", "CARGO_HOME", "GIT_AUTHOR_NAME", "PYTHONPATH", "CMAKE_PREFIX_PATH"]
)  # fmt: skip
def test_variable_that_builds_need_is_kept(name: str) -> None:
    assert sandbox_environment({name: "value"})[name] == "value"


def test_password_inside_an_address_is_dropped() -> None:
    assert "GOFLAGS" not in sandbox_environment({"GOFLAGS": "-x=https://me:secret@host/"})


def test_user_adds_names_and_patterns() -> None:
    found = sandbox_environment(
        {"DATABASE_URL": "postgres://a:b@c/", "MYAPP_MODE": "x"}, added=["DATABASE_URL", "MYAPP_*"]
    )
    assert found["DATABASE_URL"] == "postgres://a:b@c/"
    assert found["MYAPP_MODE"] == "x"


def test_path_has_only_absolute_elements() -> None:
    found = sandbox_environment({"PATH": ":.:bin:/usr/bin::/bin:./x:/usr/bin:~/bin"})
    assert found["PATH"] == "/usr/bin:/bin"
    assert search_path("") == DEFAULT_PATH


def test_locale_is_always_utf8() -> None:
    found = sandbox_environment({"LC_ALL": "zh_CN.GBK", "LC_CTYPE": "ja_JP.SJIS", "LANG": "de_DE.UTF-8"})
    assert {name: value for name, value in found.items() if name.startswith("LC_")} == {"LC_ALL": "C.UTF-8"}


def test_shell_finds_no_user_to_ask() -> None:
    found = sandbox_environment({"TERM": "xterm", "PAGER": "less"}, session_id="s1")
    assert (found["TERM"], found["PAGER"], found["GIT_TERMINAL_PROMPT"]) == ("dumb", "cat", "0")
    assert found["OUTLAST_SESSION_ID"] == "s1"


def test_list_has_no_name_twice() -> None:
    assert len(ALLOWED) == len(set(ALLOWED))


def test_package_indexes_of_the_user_are_kept_unless_they_hold_a_login() -> None:
    index = {
        "PIP_INDEX_URL": "https://packages.example.org/simple",
        "npm_config_registry": "https://registry.example.org",
        "GOPROXY": "https://modules.example.org,direct",
        "CARGO_REGISTRIES_OURS_INDEX": "sparse+https://crates.example.org/",
    }
    assert index.items() <= sandbox_environment(index).items()
    for name in index:
        for login in ("me:secret", "a-token", ":secret"):
            assert name not in sandbox_environment({name: f"https://{login}@packages.example.org/"})
