"""What can be typed after `holdfast`, for whoever dispatches, helps or completes: no command is imported for it."""

from collections.abc import Mapping

COMMANDS: Mapping[str, str] = {
    "sessions": "holdfast.doors.cli.sessions",
    "serve": "holdfast.doors.cli.serve",
    "worker": "holdfast.doors.cli.worker",
    "gateway": "holdfast.doors.cli.gateway",
    "config": "holdfast.doors.cli.config",
    "models": "holdfast.doors.cli.models",
    "demo": "holdfast.doors.cli.demo",
    "verify": "holdfast.doors.cli.verify",
    "doctor": "holdfast.doors.cli.doctor",
    "backup": "holdfast.doors.cli.backup",
    "db": "holdfast.doors.cli.db",
    "bench": "holdfast.doors.cli.bench",
}
"""What can be typed after `holdfast`, and the module that holds it."""

ABOUT: Mapping[str, str] = {
    "sessions": "List, show, search, export, fork, rewind and delete sessions.",
    "serve": "The HTTP API and the web page, on this machine.",
    "worker": "Run the turns that wait in a shared store.",
    "gateway": "Chat platforms: Telegram, Matrix, webhooks.",
    "config": "Show and change your settings.",
    "models": "What can answer here, which one would, and why.",
    "demo": "A turn with tools, a real kill -9 and the resume; no key needed.",
    "verify": "Prove that nothing stored has changed, or name what has.",
    "doctor": "Check everything that the promises rest on.",
    "backup": "Copy the store while others go on writing, and verify the copy.",
    "db": "The schema of a store.",
    "bench": "Measure this machine, as ratios to the bare driver.",
}
"""The same in a few words, so that help need not import them."""
