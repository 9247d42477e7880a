"""Changing one setting and leaving the rest of the file as its user wrote it."""

from pathlib import Path

import pytest

from outlast.app.settings import load_settings
from outlast.app.settings_file import change_setting, shown_settings
from outlast.core.errors import ConfigError


def test_a_setting_is_added_changed_and_removed_and_comments_stay(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('# mine\nmodel = "a:b" # for now\npersona = "p"\n')
    change_setting(tmp_path, "model", "local")
    assert path.read_text() == '# mine\nmodel = "local"\npersona = "p"\n'
    change_setting(tmp_path, "context_window", "64000")
    assert load_settings(home=tmp_path).context_window == 64000
    change_setting(tmp_path, "model", "")
    assert path.read_text() == 'context_window = 64000\n# mine\npersona = "p"\n'


def test_a_value_that_does_not_fit_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    change_setting(tmp_path, "model", "local")
    with pytest.raises(ConfigError, match="unknown"):
        change_setting(tmp_path, "permission_mode", "everything")
    assert (tmp_path / "config.toml").read_text() == 'model = "local"\n'
    with pytest.raises(ConfigError, match="there is no setting 'colour'"):
        change_setting(tmp_path, "colour", "red")


def test_a_token_is_never_shown(tmp_path: Path) -> None:
    settings = load_settings(home=tmp_path, token="x" * 40)
    assert shown_settings(settings)["token"] == "(set)"
