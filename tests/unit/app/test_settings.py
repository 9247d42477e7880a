"""Where settings come from, who wins, and what a mistake says."""

from collections.abc import Callable
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from outlast.app import Settings, load_settings
from outlast.app.settings import in_project
from outlast.core.errors import ConfigError, OutlastError
from outlast.runtime.permissions.consent import Consents, content_digest
from outlast.runtime.permissions.mode import PermissionMode

TOKEN = "t" * 32


@pytest.fixture(autouse=True)
def _no_sandbox_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTLAST_SANDBOX")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    monkeypatch.setenv("OUTLAST_HOME", str(path))
    return path


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "project"
    (path / ".outlast").mkdir(parents=True)
    monkeypatch.chdir(path)
    return path


def of_home(home: Path, text: str) -> Path:
    path = home / "config.toml"
    path.write_text(text)
    return path


def of_project(project: Path, text: str) -> Path:
    path = project / ".outlast" / "config.toml"
    path.write_text(text)
    return path


def refusal(load: Callable[[], Settings]) -> str:
    with pytest.raises(ConfigError) as caught:
        load()
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def test_defaults_without_any_source(home: Path, project: Path) -> None:
    settings = load_settings()
    assert settings == Settings(home=home, project_root=project, store=f"sqlite:///{home}/outlast.db")
    assert settings.store.startswith("sqlite:////")  # three slashes and an absolute path
    assert settings.permission_mode is PermissionMode.WORKSPACE_WRITE


def test_default_home_is_below_the_users_home(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTLAST_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_settings().home == tmp_path / ".outlast"


@pytest.mark.parametrize("value", [None, ""])
def test_without_home_variable_the_password_file_is_asked(
    value: str | None, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OUTLAST_HOME")
    monkeypatch.delenv("HOME") if value is None else monkeypatch.setenv("HOME", value)
    found = load_settings().home
    assert found.is_absolute()
    assert found.name == ".outlast"


def test_flags_beat_environment_beats_home_beats_project(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_home(home, 'persona = "home"\nmodel = "home"\nstore = "files:///home"\n')
    assert load_settings().persona == "home"
    of_project(project, 'persona = "project"\n')
    assert load_settings().persona == "home"
    monkeypatch.setenv("OUTLAST_PERSONA", "environment")
    monkeypatch.setenv("OUTLAST_MODEL", "environment")
    assert load_settings().persona == "environment"
    settings = load_settings(model="flag")
    assert (settings.model, settings.persona, settings.store) == ("flag", "environment", "files:///home")


def test_project_names_a_model_only_where_the_user_has_chosen_none(
    home: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chosen(settings: Settings) -> tuple[str | None, str]:
        return settings.model, settings.model_source

    assert chosen(load_settings()) == (None, "")
    of_project(project, 'model = "openai:project"\n')
    assert chosen(load_settings()) == (None, "")
    path = project / ".outlast" / "config.toml"
    Consents(home).give(path, content_digest(path.read_bytes()))
    assert chosen(load_settings()) == ("openai:project", "project")
    assert chosen(in_project(load_settings(), tmp_path)) == (None, "")
    assert chosen(in_project(load_settings(project_root=tmp_path), project)) == ("openai:project", "project")
    of_home(home, 'model = "openai:home"\n')
    assert chosen(load_settings()) == ("openai:home", "home")
    assert chosen(in_project(load_settings(project_root=tmp_path), project)) == ("openai:home", "home")
    monkeypatch.setenv("OUTLAST_MODEL", "openai:environment")
    assert chosen(load_settings()) == ("openai:environment", "environment")
    assert chosen(load_settings(model="openai:flag")) == ("openai:flag", "flag")


def test_every_variable_is_read(home: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"STORE": "files:///s", "MODEL": "m", "BASE_URL": "http://h/v1", "TOKEN": TOKEN}.items():
        monkeypatch.setenv(f"OUTLAST_{name}", value)
    settings = load_settings()
    assert (settings.store, settings.model) == ("files:///s", "m")
    assert (settings.base_url, settings.token) == ("http://h/v1", TOKEN)


def test_every_flag_is_taken(home: Path, tmp_path: Path) -> None:
    settings = load_settings(
        home=tmp_path / "other",
        store="files:///s",
        model="m",
        base_url="https://h/v1",
        token=TOKEN,
        project_root=tmp_path,
        permission_mode="prompt",
        allowed_hosts=["a:1", "b"],
    )
    assert settings == Settings(
        home=tmp_path / "other",
        project_root=tmp_path,
        store="files:///s",
        model="m",
        model_source="flag",
        base_url="https://h/v1",
        token=TOKEN,
        permission_mode=PermissionMode.PROMPT,
        allowed_hosts=("a:1", "b"),
    )


def test_empty_variable_counts_as_unset(home: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_home(home, 'model = "home"\n')
    monkeypatch.setenv("OUTLAST_MODEL", "")
    assert load_settings().model == "home"


def test_settings_are_frozen_and_do_not_show_the_token(home: Path, project: Path) -> None:
    settings = load_settings(token=TOKEN)
    assert TOKEN not in repr(settings)
    with pytest.raises(FrozenInstanceError):
        settings.model = "other"  # pyright: ignore[reportAttributeAccessIssue]


def test_home_file_may_set_every_key(home: Path, project: Path) -> None:
    of_home(
        home,
        f'store = "files:///s"\nmodel = "m"\npersona = "p"\nbase_url = "http://h/v1"\ntoken = "{TOKEN}"\n'
        'permission_mode = "danger-full-access"\nallowed_hosts = ["h:1"]\n',
    )
    assert load_settings() == Settings(
        home=home,
        project_root=project,
        store="files:///s",
        model="m",
        model_source="home",
        persona="p",
        base_url="http://h/v1",
        token=TOKEN,
        permission_mode=PermissionMode.DANGER_FULL_ACCESS,
        allowed_hosts=("h:1",),
    )


@pytest.mark.parametrize(
    "line",
    [
        'store = "files:///s"',
        'base_url = "http://evil/v1"',
        f'token = "{TOKEN}"',
        'allowed_hosts = ["evil"]',
    ],
)
def test_project_file_may_not_add_endpoints(home: Path, project: Path, line: str) -> None:
    path = of_project(project, line)
    sentence = refusal(load_settings)
    assert str(path) in sentence
    assert f"may not set '{line.split()[0]}'" in sentence


def test_project_file_may_lower_the_permission_mode(home: Path, project: Path) -> None:
    of_project(project, 'permission_mode = "read-only"\n')
    assert load_settings().permission_mode is PermissionMode.READ_ONLY


@pytest.mark.parametrize("mode", ["danger-full-access", "allow", "prompt"])
def test_project_file_may_not_raise_the_permission_mode(home: Path, project: Path, mode: str) -> None:
    path = of_project(project, f'permission_mode = "{mode}"\n')
    sentence = refusal(load_settings)
    assert str(path) in sentence
    assert mode in sentence


def test_project_file_may_not_raise_above_the_home_file(home: Path, project: Path) -> None:
    of_home(home, 'permission_mode = "read-only"\n')
    of_project(project, 'permission_mode = "workspace-write"\n')
    assert "read-only" in refusal(load_settings)


def test_permission_flag_beats_the_project_file(home: Path, project: Path) -> None:
    of_project(project, 'permission_mode = "read-only"\n')
    assert load_settings(permission_mode="allow").permission_mode is PermissionMode.ALLOW


def test_permission_variable_beats_the_project_file(home: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_project(project, 'permission_mode = "allow"\n')  # beaten, so nothing is raised
    monkeypatch.setenv("OUTLAST_PERMISSION_MODE", "read-only")
    assert load_settings().permission_mode is PermissionMode.READ_ONLY
    monkeypatch.setenv("OUTLAST_PERMISSION_MODE", "anything")
    assert "OUTLAST_PERMISSION_MODE: permission_mode 'anything' is unknown" in refusal(load_settings)


def test_modes_that_cannot_be_compared_are_not_lower() -> None:
    assert not PermissionMode.PROMPT.is_at_most(PermissionMode.WORKSPACE_WRITE)
    assert not PermissionMode.WORKSPACE_WRITE.is_at_most(PermissionMode.PROMPT)
    assert all(mode.is_at_most(PermissionMode.ALLOW) for mode in PermissionMode)
    assert all(PermissionMode.READ_ONLY.is_at_most(mode) for mode in PermissionMode)


def test_home_directory_as_project_keeps_its_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTLAST_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".outlast").mkdir()
    of_project(tmp_path, 'store = "files:///s"\n')
    assert load_settings(project_root=tmp_path).store == "files:///s"


@pytest.mark.parametrize("write", [of_home, of_project])
def test_unknown_key_names_file_key_and_known_keys(
    home: Path, project: Path, write: Callable[[Path, str], Path]
) -> None:
    path = write(home if write is of_home else project, 'modle = "x"\n')
    sentence = refusal(load_settings)
    assert str(path) in sentence
    assert "'modle'" in sentence
    assert "model" in sentence


@pytest.mark.parametrize("text", ["model = \n", "[", "= 1", 'model = "a"\nmodel = "b"\n'])
def test_malformed_toml_names_the_file(home: Path, project: Path, text: str) -> None:
    path = of_home(home, text)
    assert f"{path}: is not valid TOML" in refusal(load_settings)


def test_file_that_is_not_utf8_names_the_file(home: Path, project: Path) -> None:
    (home / "config.toml").write_bytes(b'model = "\xff"\n')
    assert "UTF-8" in refusal(load_settings)


def test_directory_in_place_of_the_file_is_not_taken_for_absent(home: Path, project: Path) -> None:
    (home / "config.toml").mkdir()
    assert str(home / "config.toml") in refusal(load_settings)


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("model = 1", "model"),
        ('model = ""', "model"),
        ('base_url = "example"', "base_url"),
        ('token = "short"', "token"),
        ('permission_mode = "root"', "permission_mode"),
        ('allowed_hosts = "h"', "allowed_hosts"),
        ("allowed_hosts = [1]", "allowed_hosts"),
    ],
)
def test_wrong_value_names_file_and_key(home: Path, project: Path, line: str, key: str) -> None:
    path = of_home(home, line)
    sentence = refusal(load_settings)
    assert str(path) in sentence
    assert key in sentence


def test_short_token_is_refused_without_showing_it(home: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_TOKEN", "hunter2")
    sentence = refusal(load_settings)
    assert "OUTLAST_TOKEN" in sentence
    assert "hunter2" not in sentence


def test_config_error_is_a_outlast_error_with_exit_code_one() -> None:
    assert issubclass(ConfigError, OutlastError)
    assert ConfigError("x").exit_code == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('allowed_projects = "x"\n', "must be a list of folders"),
        ('allowed_projects = ["work"]\n', "must hold whole paths"),
        ("allowed_projects = [1]\n", "must be text"),
    ],
)
def test_list_of_projects_holds_whole_paths(home: Path, project: Path, text: str, told: str) -> None:
    of_home(home, text)
    with pytest.raises(ConfigError, match=told):
        load_settings()


def test_list_of_projects_is_the_user_s_own(home: Path, project: Path) -> None:
    of_home(home, 'allowed_projects = ["~/work", "/srv/shop"]\n')
    assert load_settings().allowed_projects == (str(Path.home() / "work"), "/srv/shop")
    of_project(project, 'allowed_projects = ["/"]\n')
    with pytest.raises(ConfigError, match="a project file may not set 'allowed_projects'"):
        load_settings()
