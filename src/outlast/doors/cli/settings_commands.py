"""`outlast config get | set | path` and `outlast models`: the user's settings, and the model that results from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from outlast.app import load_settings
from outlast.app.settings import own_home
from outlast.app.settings_file import change_setting, config_path, shown_settings
from outlast.core.errors import ConfigError
from outlast.doors.cli.options import Json
from outlast.doors.cli.output import print_json
from outlast.doors.terminal_text import plain

if TYPE_CHECKING:
    from outlast.app.models import ModelOverview

app = typer.Typer()
config = typer.Typer(name="config", help="Show and change your settings.")
app.add_typer(config)

Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="One setting; default: all.")]


@config.command("get")
def get(name: Name = None, json: Json = False) -> None:
    """Show the effective settings: flags, environment, project file, your file, defaults, in this order."""
    settings = shown_settings(load_settings())
    if name is not None and name not in settings:
        raise ConfigError(f"unknown setting '{name}'; known settings are {', '.join(settings)}")
    wanted = settings if name is None else {name: settings[name]}
    if json:
        print_json(wanted)
    elif name is not None:
        print(_told(wanted[name]))
    else:
        for key, value in wanted.items():
            print(f"{key:<16} {_told(value)}")


@config.command("set")
def set_(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Which setting.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="The new value; '' removes the setting.")],
    json: Json = False,
) -> None:
    """Write a setting into config.toml of your Outlast home; the rest of that file does not change."""
    path = change_setting(own_home(), name, value)
    if json:
        print_json({"name": name, "path": str(path), "set": bool(value)})
    else:
        print(f"{plain(name)} {'is removed from' if not value else 'is set in'} {plain(str(path))}")


@config.command("path")
def path(json: Json = False) -> None:
    """Show the path of your settings file, even if it cannot be read."""
    found = config_path(own_home())
    if json:
        print_json({"path": str(found), "exists": found.is_file()})
    else:
        print(plain(str(found)))


def _told(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, tuple):
        return ", ".join(map(str, cast("tuple[object, ...]", value))) or "-"
    return plain(str(value))


# ---- models ----------------------------------------------------------------------------------------------------------


@app.command("models")
def models(json: Json = False) -> None:
    """Show providers, Ollama and the local model, and which one is used when none is named."""
    from outlast.app.models import overview

    found = overview(load_settings())
    if json:
        print_json(found)
    else:
        _print_models(found)


def _print_models(found: ModelOverview) -> None:
    for row in found.rows:
        mark = "*" if found.used is not None and found.used.partition(":")[0] == row.name else " "
        default = f"  ({plain(row.default)})" if row.default else ""
        print(f"{mark} {'ready' if row.ready else '-':<6} {row.name:<12} {plain(row.note)}{default}")
        for name in row.models:
            print(f"                      {plain(name)}")
    window = ""
    if found.context_window:
        source = f" (source: {plain(found.window_source)})" if found.window_source else ""
        window = f"; context window of {found.context_window:,} tokens{source}"
    print(f"\n{plain(found.used) if found.used else 'none'}: {plain(found.reason)}{window}")
