"""`config.toml` in the Outlast home: changes one setting and leaves the rest as the user wrote it."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import tomlkit
from tomlkit.exceptions import TOMLKitError

from outlast.app.settings import SETTING_NAMES, Settings, load_settings
from outlast.core.errors import ConfigError
from outlast.runtime import private_file

_NUMBERS = frozenset({"context_window", "first_token_timeout", "stream_idle_timeout", "parallel_calls"})
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
_PASSWORD = re.compile(r"(?<=://)([^/@:]*):[^/@]*(?=@)")


def config_path(home: Path) -> Path:
    return home / "config.toml"


def shown_settings(settings: Settings) -> dict[str, object]:
    """The effective settings, safe to show: a token appears as `(set)`, passwords are masked."""
    shown: dict[str, object] = {"home": str(settings.home), "project_root": str(settings.project_root)}
    for name in SETTING_NAMES:
        value: object = getattr(settings, name)
        value = _PASSWORD.sub(r"\1:(set)", value) if isinstance(value, str) else value
        shown[name] = "(set)" if name == "token" and value else value
    return shown


def change_setting(home: Path, name: str, value: str) -> Path:
    """Set one value, or remove it if `value` is empty; the file is replaced atomically. Raises `ConfigError` if the
    result would not be valid."""
    if name not in SETTING_NAMES:
        raise ConfigError(f"unknown setting '{name}'; known settings are {', '.join(SETTING_NAMES)}")
    if not value.isprintable():
        raise ConfigError(f"the value of {name} contains invisible characters; use plain text")
    path = config_path(home)
    try:
        with private_file.locked(path):
            after = _changed(path, _text(path), name, _written(name, value) if value else None)
            _refuse_bad(path, after)
            private_file.replace(path.resolve(), after.encode())  # it may be a link into a folder of dotfiles
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}); correct its permissions") from error
    return path


def is_written(home: Path, name: str) -> bool:
    """Whether the file sets this value."""
    path = config_path(home)
    return name in _document(path, _text(path))


def _refuse_bad(path: Path, text: str) -> None:
    """Raise `ConfigError` if the text is not a valid file; the real file is still unchanged."""
    with tempfile.TemporaryDirectory() as folder:
        tried = config_path(Path(folder))
        tried.write_text(text, "utf-8")
        try:
            load_settings(home=folder, project_root=folder)
        except ConfigError as error:
            raise ConfigError(str(error).replace(str(tried), str(path))) from error


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}); correct or remove it") from error


def _written(name: str, value: str) -> str | int | bool | list[str]:
    """The value in the setting's type; a value that does not fit stays text, which `_refuse_bad` rejects."""
    if name in _NUMBERS and _NUMBER.fullmatch(value):
        return int(value)
    if name == "resume_on_start" and value.lower() in {"true", "false"}:
        return value.lower() == "true"
    if name in {"allowed_hosts", "allowed_projects", "sandbox_hidden", "sandbox_variables"}:
        return [host.strip() for host in value.split(",") if host.strip()]
    if name == "verify_commands":  # a command may hold any character, so several are written in the file itself
        return [value]
    return value


def _changed(path: Path, text: str, name: str, value: str | int | bool | list[str] | None) -> str:
    """The file's text with that top-level value changed, removed, or added at the top."""
    document = _document(path, text)
    if name in document and value is None:
        document.remove(name)
    elif name in document:
        document[name] = value
    elif value is not None:
        return f"{name} = {tomlkit.item(value).as_string()}\n{text}"
    return document.as_string()


def _document(path: Path, text: str) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(text)
    except (TOMLKitError, RecursionError) as error:
        raise ConfigError(f"{path}: is not valid TOML ({error}); correct that line or remove the file") from error
