"""`config.toml` in the Holdfast home: changing one setting of it, and leaving the rest as the user wrote it."""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path

from holdfast.app.settings import Settings, load_settings
from holdfast.core.errors import ConfigError

NAMES = ("store", "model", "persona", "base_url", "token", "permission_mode", "allowed_hosts", "context_window")


def config_path(home: Path) -> Path:
    return home / "config.toml"


def shown_settings(settings: Settings) -> dict[str, object]:
    """The settings in force, as they may be shown: a token is only said to be there."""
    shown: dict[str, object] = {"home": str(settings.home), "project_root": str(settings.project_root)}
    for name in NAMES:
        value: object = getattr(settings, name)
        shown[name] = "(set)" if name == "token" and value else value
    return shown


def change_setting(home: Path, name: str, value: str) -> Path:
    """Set one value, or remove it when it is empty; the file is replaced whole. `ConfigError` when it would not fit."""
    if name not in NAMES:
        raise ConfigError(f"there is no setting '{name}'; there are {', '.join(NAMES)}")
    path = config_path(home)
    before = _text(path)
    after = _changed(before, name, _written(name, value) if value else None)
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(path, after)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}); correct its permissions") from error
    try:
        load_settings(home=home)
    except ConfigError:
        _replace(path, before)  # what it said before was at least readable
        raise
    return path


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}); correct or remove it") from error


def _written(name: str, value: str) -> str:
    if name == "context_window":
        return value if value.isdecimal() else json.dumps(value)
    if name == "allowed_hosts":
        return json.dumps([host.strip() for host in value.split(",") if host.strip()])
    return json.dumps(value, ensure_ascii=False)


def _changed(text: str, name: str, written: str | None) -> str:
    """The file's text with that one top-level line replaced, added or left out. All our keys are top-level."""
    line = re.compile(rf"^[ \t]*{re.escape(name)}[ \t]*=.*(\n|\Z)", re.MULTILINE)
    new = "" if written is None else f"{name} = {written}\n"
    if line.search(text):
        return line.sub(lambda _: new, text, count=1)
    return f"{new}{text}"


def _replace(path: Path, text: str) -> None:
    with tempfile.NamedTemporaryFile("w", dir=path.parent, encoding="utf-8", delete=False) as new:
        new.write(text)
        new.flush()
        os.fsync(new.fileno())
    os.replace(new.name, path)
