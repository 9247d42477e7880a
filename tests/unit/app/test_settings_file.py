"""Changing one setting and leaving the rest of the file as its user wrote it."""

from pathlib import Path

import pytest

from outlast.app.settings import SETTING_NAMES, load_settings
from outlast.app.settings_file import change_setting, shown_settings
from outlast.core.errors import ConfigError


@pytest.fixture(autouse=True)
def _no_sandbox_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTLAST_SANDBOX")


def test_a_setting_is_added_changed_and_removed_and_comments_stay(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('# mine\nmodel = "a:b" # for now\npersona = "p"\n')
    change_setting(tmp_path, "model", "local")
    assert path.read_text() == '# mine\nmodel = "local" # for now\npersona = "p"\n'
    change_setting(tmp_path, "context_window", "64000")
    assert load_settings(home=tmp_path).context_window == 64000
    change_setting(tmp_path, "model", "")
    assert path.read_text() == 'context_window = 64000\n# mine\npersona = "p"\n'


def test_a_value_that_does_not_fit_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    change_setting(tmp_path, "model", "local")
    with pytest.raises(ConfigError, match="unknown"):
        change_setting(tmp_path, "permission_mode", "everything")
    assert (tmp_path / "config.toml").read_text() == 'model = "local"\n'
    with pytest.raises(ConfigError, match="unknown setting 'colour'"):
        change_setting(tmp_path, "colour", "red")


def test_a_token_is_never_shown(tmp_path: Path) -> None:
    settings = load_settings(home=tmp_path, token="x" * 40)
    assert shown_settings(settings)["token"] == "(set)"


FILE = """\
# how I like it
"model" = 'a:b'   # quoted, and for now
allowed_hosts = [ # behind a proxy
    "one.example", # the first
    "two.example",
] # that is all
gateway.home.platform = "telegram"
gateway.home.token = "1:x"  # dotted

[gateway.work] # a table
platform = "webhook"
"secret" = "it's long enough for anyone who asks"
callback_url = "https://example.org/hook"
model = "x:y"
"""


@pytest.mark.parametrize(
    ("name", "value", "before", "after"),
    [
        ("model", 'say "hi" \\ o', "'a:b'   # quoted", '"say \\"hi\\" \\\\ o"   # quoted'),
        ("model", "", "\"model\" = 'a:b'   # quoted, and for now\n", ""),
        ("allowed_hosts", "", FILE[FILE.index("allowed_hosts") : FILE.index("gateway.home")], ""),
        ("persona", "p", "# how", 'persona = "p"\n# how'),
        ("context_window", "64000", "# how", "context_window = 64000\n# how"),
        ("resume_on_start", "True", "# how", "resume_on_start = true\n# how"),
    ],
)
def test_everything_but_the_one_setting_stays_to_the_letter(
    tmp_path: Path, name: str, value: str, before: str, after: str
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(FILE)
    change_setting(tmp_path, name, value)
    assert path.read_text() == FILE.replace(before, after, 1)


def test_an_array_over_several_lines_is_changed_and_the_comment_behind_it_stays(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(FILE)
    change_setting(tmp_path, "allowed_hosts", "three.example, four.example")
    array = FILE[FILE.index("allowed_hosts") : FILE.index("gateway.home")]
    changed = 'allowed_hosts = ["three.example", "four.example"] # that is all\n'
    assert path.read_text() == FILE.replace(array, changed)
    assert load_settings(home=tmp_path).allowed_hosts == ("three.example", "four.example")


def test_line_ends_of_another_system_stay(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b'model = "a:b" # x\r\npersona = "p"\r\n')
    change_setting(tmp_path, "model", "local")
    assert path.read_bytes() == b'model = "local" # x\r\npersona = "p"\r\n'


@pytest.mark.parametrize(
    "text", ["model = local\n", 'model = "a\n', "[gateway\n", 'model = "a"\nmodel = "b"\n', "\x00"]
)
def test_a_malformed_file_is_refused_in_one_sentence_and_stays(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        change_setting(tmp_path, "persona", "p")
    told = str(caught.value)
    assert told.startswith(f"{path}: is not valid TOML (")
    assert "\n" not in told
    assert path.read_text() == text


@pytest.mark.parametrize("value", ["٣", "007", "1e3", "-1", "9" * 30, "many"])
def test_a_number_is_written_as_the_file_wants_it_or_not_at_all(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError):
        change_setting(tmp_path, "context_window", value)
    assert not (tmp_path / "config.toml").exists()


def test_a_link_stays_a_link_and_its_folder_gets_no_lock(tmp_path: Path) -> None:
    home, kept = tmp_path / "home", tmp_path / "kept"
    home.mkdir()
    kept.mkdir()
    (kept / "config.toml").write_text('persona = "p"\n')
    (home / "config.toml").symlink_to(kept / "config.toml")
    change_setting(home, "model", "local")
    assert (home / "config.toml").is_symlink()
    assert (kept / "config.toml").read_text() == 'model = "local"\npersona = "p"\n'
    assert [one.name for one in kept.iterdir()] == ["config.toml"]


GIVEN = {
    "store": "memory://",
    "model": "local",
    "persona": "default-interactive",
    "workflow": "guided",
    "base_url": "http://127.0.0.1:1/v1",
    "token": "t" * 32,
    "permission_mode": "read-only",
    "allowed_hosts": "localhost:1",
    "allowed_projects": "/srv/p",
    "context_window": "64000",
    "parallel_calls": "2",
    "verify_commands": "pytest -q, then more",
    "resume_on_start": "false",
    "dialect": "text",
    "local_model": "/srv/m.gguf",
    "first_token_timeout": "900",
    "stream_idle_timeout": "60",
    "sandbox": "external",
    "network": "off",
    "sandbox_hidden": "~/vault",
    "sandbox_variables": "MY_FLAG",
}


@pytest.mark.parametrize("name", SETTING_NAMES)
def test_every_setting_can_be_set_shown_and_removed(tmp_path: Path, name: str) -> None:
    before = shown_settings(load_settings(home=tmp_path, project_root=tmp_path))[name]
    change_setting(tmp_path, name, GIVEN[name])
    assert shown_settings(load_settings(home=tmp_path, project_root=tmp_path))[name] != before
    change_setting(tmp_path, name, "")
    assert shown_settings(load_settings(home=tmp_path, project_root=tmp_path))[name] == before
