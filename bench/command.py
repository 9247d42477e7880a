"""`outlast bench`: what a durable append, a list, a fork cost, as ratios to the bare driver, on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from bench.figures import NAMES, Figure, Lab, Options, Results, Skipped, measure, write_report
from bench.figures.lab import STORES
from bench.figures.report import as_text, value_of, verdict_of
from outlast.core.errors import ConfigError

QUICK = 0.02

app = typer.Typer()


@app.command("bench")
def bench(
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="NAME", help=f"One workload (repeatable): {', '.join(NAMES)}.")
    ] = None,
    store: Annotated[
        list[str] | None, typer.Option("--store", metavar="KIND", help=f"One kind (repeatable): {', '.join(STORES)}.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A short run, to see that it works; not for quoting.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Every figure with its rounds, as JSON.")] = False,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE.md", help="Also write table and chart into this page.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE.json", help="Also write every figure with its rounds there.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 when a goal is missed.")] = False,
    folder: Annotated[
        Path | None, typer.Option("--dir", help="Where the files are made (and removed): a directory on a real disk.")
    ] = None,
    postgres: Annotated[
        str | None, typer.Option("--postgres", metavar="URL", help="A server to use instead of a private one.")
    ] = None,
) -> None:
    """Measure this machine: each workload in turns with the bare driver that is its limit, medians of 5 rounds.

    The full run takes several minutes and about 1 GB of disk for a while.
    """
    kinds = tuple(store or STORES)
    unknown = [kind for kind in kinds if kind not in STORES]
    if unknown:
        raise ConfigError(f"there is no store '{unknown[0]}'; there are {', '.join(STORES)}")
    options = Options(
        stores=kinds, only=tuple(only or ()), folder=folder, postgres_url=postgres, scale=QUICK if quick else 1.0
    )
    results = _run(options)
    print(msgspec.json.encode(results).decode() if as_json else as_text(results))
    if save is not None:
        save.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
    if report is not None:
        for path in write_report(results, report):
            _tell(f"wrote {path}")
    if check and results.missed:
        raise typer.Exit(1)


def _run(options: Options) -> Results:
    results = Results(figures=[], rounds=options.rounds, scale=options.scale)
    with Lab(options, tell=lambda name: _tell(f"{name} ...")) as lab:
        for found in measure(lab):
            match found:
                case Skipped():
                    results.skipped.append(found)
                case Figure():
                    results.figures.append(found)
                    _tell(f"  {found.title}: {value_of(found)} ({verdict_of(found)})")
    return results


def _tell(text: str) -> None:
    """Progress, for a user at a terminal."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)
