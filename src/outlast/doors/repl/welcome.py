"""The welcome screen, and the choice of a model when several API keys are set."""

from __future__ import annotations

from pathlib import Path

import msgspec
from rich.console import RenderableType
from rich.text import Text

from outlast._version import __version__
from outlast.app.models import choice_for, remember_model
from outlast.app.settings import Settings
from outlast.core.errors import OutlastError
from outlast.doors.repl.launch import LaunchOptions
from outlast.doors.repl.render.status import short_model
from outlast.doors.repl.session_picker import PickerOption, SessionPicker
from outlast.doors.terminal_text import readable

LOCAL = "a demo model, only for talk; set ANTHROPIC_API_KEY (or OPENAI_API_KEY, GOOGLE_API_KEY) for a real one"


def first_screen(settings: Settings, model: str, store: str, note: str | None = None) -> list[RenderableType]:
    """Three lines: version and project, model, and where sessions are stored; a line that is too long is cut. `note`
    says who chose the model, if it was not the user."""
    what = Text(f"Outlast {__version__}", style="bold cyan", no_wrap=True, overflow="ellipsis")
    what.append("  a coding agent whose sessions cannot be lost", style="default not bold")
    what.append(f" · {readable(short_path(str(settings.project_root)))}", style="dim not bold")
    answers = Text("Model ", style="dim", no_wrap=True, overflow="ellipsis")
    answers.append(readable(short_model(model)), style="bold not dim")
    if note is not None:
        answers.append(f"  {readable(note)}", style="yellow not dim")
    else:
        answers.append(f"  {LOCAL}" if model == "local" else "  /model switches")
    where = Text("Resume with outlast -c or outlast --resume · /help", style="dim", no_wrap=True, overflow="ellipsis")
    where.append(f" · sessions in {readable(short_path(_without_password(store)))}")
    return [what, answers, where]


def short_path(path: str) -> str:
    """The path with `~` for the user's home folder."""
    own = str(Path.home())
    return path.replace(own, "~", 1) if own != "/" and own in path else path


def _without_password(url: str) -> str:
    scheme, _, rest = url.partition("://")
    if scheme == "postgresql":
        return f"{scheme}://{rest.rpartition('@')[2]}"
    return rest.removeprefix("/")


async def settle_model(start: LaunchOptions) -> LaunchOptions:
    """With several API keys, ask the user once which model to use; the choice is saved in the Outlast home."""
    settings = start.settings()
    if settings.model is not None or start.resumes:
        return start
    choice = choice_for(settings)
    if len(choice.options) < 2:
        return start
    picked = await SessionPicker(
        "Several keys are set. Which model", [PickerOption(one, one) for one in choice.options]
    ).choose()
    if picked is None:
        return start
    try:
        remember_model(settings, picked)
    except (OutlastError, OSError) as error:
        print(f"outlast: the choice is not remembered: {readable(str(error))}")
    return msgspec.structs.replace(start, model=picked)
