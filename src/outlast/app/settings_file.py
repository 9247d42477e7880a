"""`config.toml` in the Outlast home: changing one setting of it, and leaving the rest as the user wrote it."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

from outlast.app.settings import Settings, load_settings
from outlast.core.errors import ConfigError
from outlast.runtime import private_file

NAMES = (
    "store",
    "model",
    "persona",
    "base_url",
    "token",
    "permission_mode",
    "allowed_hosts",
    "context_window",
    "resume_on_start",
)
_PASSWORD = re.compile(r"(?<=://)([^/@:]*):[^/@]*(?=@)")


def config_path(home: Path) -> Path:
    return home / "config.toml"


def shown_settings(settings: Settings) -> dict[str, object]:
    """The settings in force, as they may be shown: a token is only said to be there, a password is left out."""
    shown: dict[str, object] = {"home": str(settings.home), "project_root": str(settings.project_root)}
    for name in NAMES:
        value: object = getattr(settings, name)
        value = _PASSWORD.sub(r"\1:(set)", value) if isinstance(value, str) else value
        shown[name] = "(set)" if name == "token" and value else value
    return shown


def change_setting(home: Path, name: str, value: str) -> Path:
    """Set one value, or remove it when it is empty; the file is replaced whole. `ConfigError` when it would not fit."""
    if name not in NAMES:
        raise ConfigError(f"there is no setting '{name}'; there are {', '.join(NAMES)}")
    if not value.isprintable():
        raise ConfigError(f"the value of {name} has characters that cannot be seen; give plain text")
    path = config_path(home)
    after = _changed(_text(path), name, _written(name, value) if value else None)
    _refuse_bad(path, after)
    try:
        private_file.replace(path.resolve(), after.encode())  # it may be a link into a folder of such files
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}); correct its permissions") from error
    return path


def _refuse_bad(path: Path, text: str) -> None:
    """`ConfigError` when that text would not do as the file; nobody has seen it then."""
    with tempfile.TemporaryDirectory() as folder:
        tried = config_path(Path(folder))
        tried.write_text(text, "utf-8")
        try:
            load_settings(home=folder, project_root=folder)
        except ConfigError as error:
            raise ConfigError(str(error).replace(str(tried), str(path))) from error


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
    if name == "resume_on_start":
        return value.lower() if value.lower() in {"true", "false"} else json.dumps(value)
    if name == "allowed_hosts":
        return json.dumps([host.strip() for host in value.split(",") if host.strip()])
    return json.dumps(value, ensure_ascii=False)


def _changed(text: str, name: str, written: str | None) -> str:
    """The file's text with that one top-level line replaced, added or left out. Tables, which come last, may have lines
    of the same name."""
    line = re.compile(rf"^[ \t]*{re.escape(name)}[ \t]*=.*(\n|\Z)", re.MULTILINE)
    new = "" if written is None else f"{name} = {written}\n"
    table = re.search(r"^[ \t]*\[", text, re.MULTILINE)
    top, rest = (text[: table.start()], text[table.start() :]) if table else (text, "")
    if line.search(top):
        return line.sub(lambda _: new, top, count=1) + rest
    return f"{new}{text}"
