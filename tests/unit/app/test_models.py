"""Which model a process gets."""

import tomllib
from pathlib import Path

import pytest

from outlast.app import load_settings
from outlast.app import models as app_models
from outlast.app.models import choice_for, key_variables, model_for, overview, price_for, remember_model
from outlast.app.settings import Settings
from outlast.core.errors import ConfigError, InvalidInput, MissingExtra
from outlast.core.messages import Usage
from outlast.models.local import LocalModel
from outlast.models.providers import ProviderModel
from outlast.models.scripted import ScriptedFile


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in [*key_variables(), "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_BASE_URL"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(app_models, "ollama_models", lambda url: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    return load_settings(home=tmp_path / "home", project_root=tmp_path)


def with_url(settings: Settings, url: str) -> Settings:
    return load_settings(home=settings.home, project_root=settings.project_root, base_url=url)


def test_none_is_no_model(settings: Settings) -> None:
    assert model_for(settings, "none") is None


def test_a_script_is_named_by_its_file(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text("[]")
    assert isinstance(model_for(settings, f"scripted:{tmp_path}/s.json"), ScriptedFile)


def test_a_missing_key_names_its_variable(settings: Settings) -> None:
    with pytest.raises(ConfigError, match="set ANTHROPIC_API_KEY"):
        model_for(settings, "anthropic:claude-sonnet-5-5")


def test_a_base_url_needs_no_key_and_speaks_for_no_provider(settings: Settings) -> None:
    model = model_for(with_url(settings, "http://127.0.0.1:1/v1"), "openai:anything")
    assert isinstance(model, ProviderModel)
    assert (model.name, model.provider) == ("openai:anything", "openai-compatible")


def test_a_base_url_without_a_model_says_what_is_missing(settings: Settings) -> None:
    with pytest.raises(ConfigError, match="--model openai:NAME"):
        model_for(with_url(settings, "http://127.0.0.1:1/v1"))


def test_a_key_chooses_its_provider(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    model = model_for(settings)
    assert model is not None
    assert model.name.startswith("google:")


def test_without_anything_it_is_the_local_model(settings: Settings) -> None:
    model = model_for(settings)
    assert isinstance(model, LocalModel)
    assert model.abilities.chat_profile


def test_without_the_local_part_it_is_one_line(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(**_: object) -> bool:
        return False

    monkeypatch.setattr("outlast.models.local.installed", absent)
    monkeypatch.setattr(app_models, "installed", absent)
    with pytest.raises(MissingExtra, match=r"outlast\[local\]"):
        model_for(settings, "local")
    with pytest.raises(ConfigError, match="no model is available"):
        model_for(settings)


def test_a_gguf_file_in_the_settings_is_the_local_model(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.gguf"
    path.write_bytes(b"GGUF" + (3).to_bytes(4, "little") + bytes(16))
    monkeypatch.setenv("OUTLAST_LOCAL_MODEL", str(path))
    own = load_settings(home=settings.home, project_root=settings.project_root)
    model = model_for(own, "local")
    assert isinstance(model, LocalModel)
    assert not model.abilities.chat_profile
    choice = choice_for(own)
    assert (choice.model, choice.reason) == ("local", f"local_model is {path}")
    [row] = [row for row in overview(own).rows if row.name == "local"]
    assert (row.ready, row.note) == (True, f"{path} (tool calls as text)")
    path.write_text("no model")
    with pytest.raises(ConfigError, match="is not a GGUF model"):
        model_for(own, "local")
    assert not next(row for row in overview(own).rows if row.name == "local").ready


def test_local_model_is_a_whole_path_and_not_a_project_setting(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.home.mkdir()
    (settings.home / "config.toml").write_text('local_model = "models/mine.gguf"\n')
    with pytest.raises(ConfigError, match="local_model must be a whole path"):
        load_settings(home=settings.home, project_root=tmp_path)
    (settings.home / "config.toml").write_text('local_model = "~/mine.gguf"\ndialect = "text"\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    loaded = load_settings(home=settings.home, project_root=tmp_path)
    assert (loaded.local_model, loaded.dialect) == (f"{tmp_path}/mine.gguf", "text")
    (settings.home / "config.toml").write_text('dialect = "klingon"\n')
    with pytest.raises(ConfigError, match="dialect 'klingon' is unknown; use one of native, text, auto"):
        load_settings(home=settings.home, project_root=tmp_path)
    (settings.home / "config.toml").write_text("stream_idle_timeout = 1\n")
    with pytest.raises(ConfigError, match="stream_idle_timeout must be a number of seconds, from 10 to 86400"):
        load_settings(home=settings.home, project_root=tmp_path)
    (settings.home / "config.toml").unlink()
    (tmp_path / ".outlast").mkdir()
    (tmp_path / ".outlast" / "config.toml").write_text('local_model = "/models/mine.gguf"\n')
    with pytest.raises(ConfigError, match="a project file may not set 'local_model'"):
        load_settings(home=settings.home, project_root=tmp_path)


def test_a_choice_is_remembered_in_the_home_file(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    choice = choice_for(settings)
    assert len(choice.options) == 2
    settings.home.mkdir()
    (settings.home / "config.toml").write_text('persona = "p"\n')
    path = remember_model(settings, choice.options[1])
    assert tomllib.loads(path.read_text()) == {"model": choice.options[1], "persona": "p"}
    assert load_settings(home=settings.home).model == choice.options[1]
    with pytest.raises(InvalidInput, match="already names a model"):
        remember_model(settings, "x")


def test_prices_hold_only_at_the_providers_own_address(settings: Settings) -> None:
    usage = Usage(input_tokens=1000)
    assert price_for(settings)("openai:gpt-4o", usage) == 2500
    assert price_for(with_url(settings, "http://127.0.0.1:1/v1"))("openai:gpt-4o", usage) is None
    assert price_for(settings)("local", usage) == 0


def test_the_overview_says_what_is_used_and_why(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "very-secret")
    monkeypatch.setattr(app_models, "ollama_models", lambda url: ["qwen3:8b"])  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    found = overview(settings)
    assert found.used is not None
    assert found.used.startswith("anthropic:")
    ready = {row.name: row.ready for row in found.rows}
    assert ready == {"anthropic": True, "openai": False, "google": False, "ollama": True, "local": True}
    assert "very-secret" not in repr(found)


def test_the_setting_context_window_reaches_the_model(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_CONTEXT_WINDOW", "50000")
    model = model_for(with_url(settings, "http://127.0.0.1:1/v1"), "openai:anything")
    assert model is not None
    assert model.abilities.context_window == 50_000
    monkeypatch.setenv("OUTLAST_CONTEXT_WINDOW", "many")
    with pytest.raises(ConfigError, match="OUTLAST_CONTEXT_WINDOW"):
        load_settings()
