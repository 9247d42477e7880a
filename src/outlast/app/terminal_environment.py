"""What the environment says about the terminal that this process runs in."""

from __future__ import annotations

from outlast.app.settings import whole_environment


def rewraps_lines() -> bool:
    """Whether this terminal breaks long lines into several when it gets narrower. Nearly all do; these only cut."""
    found = whole_environment()
    return found.get("TERM") != "linux" and "XTERM_VERSION" not in found and "STY" not in found


def wants_colours() -> bool:
    """Not where `NO_COLOR` is set to anything: https://no-color.org."""
    return not whole_environment().get("NO_COLOR")
