"""`outlast bench`: cost of a durable append, a list and a fork on this machine, as ratios to the bare driver.

The benchmarks are not part of the installed package. In a checkout this module takes the command from the `bench`
folder; elsewhere the command says where it can be run.
"""

import sys
from importlib import import_module
from pathlib import Path

import typer

from outlast.core.errors import ConfigError


def command(checkout: Path) -> typer.Typer:
    """The Typer of `bench.command` in that checkout, or one whose command refuses."""
    if (checkout / "bench" / "command.py").is_file():
        if str(checkout) not in sys.path:
            sys.path.insert(0, str(checkout))
        return import_module("bench.command").app
    refusing = typer.Typer()
    refusing.command("bench", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(refuse)
    return refusing


def refuse() -> None:
    """Measure this machine; needs a checkout of the source."""
    raise ConfigError("benchmarks need a checkout of Outlast's source; run `make bench` there")


app = command(Path(__file__).resolve().parents[4])
