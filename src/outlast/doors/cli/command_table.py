"""Table of the `outlast` commands, for dispatch, help and completion without importing them."""

from collections.abc import Mapping

COMMANDS: Mapping[str, str] = {
    "sessions": "outlast.doors.cli.sessions",
    "serve": "outlast.doors.cli.serve",
    "worker": "outlast.doors.cli.worker",
    "gateway": "outlast.doors.cli.gateway",
    "config": "outlast.doors.cli.settings_commands",
    "models": "outlast.doors.cli.settings_commands",
    "sandbox": "outlast.doors.cli.sandbox",
    "demo": "outlast.doors.cli.demo",
    "verify": "outlast.doors.cli.maintenance",
    "doctor": "outlast.doors.cli.maintenance",
    "backup": "outlast.doors.cli.maintenance",
    "db": "outlast.doors.cli.maintenance",
    "bench": "outlast.doors.cli.bench",
}
"""Every command and the module that holds it."""

ABOUT: Mapping[str, str] = {
    "sessions": "List, show, search, export, fork, rewind and delete sessions.",
    "serve": "The HTTP API and the web page, on this machine.",
    "worker": "Run the turns that wait in a shared store.",
    "gateway": "Chat platforms: Telegram, Matrix, webhooks.",
    "config": "Show and change your settings.",
    "models": "What can answer here, which one would, and why.",
    "sandbox": "What confines shell commands here, and their caches.",
    "demo": "A turn with tools, a real kill -9 and the resume; no key needed.",
    "verify": "Prove that nothing stored has changed, or name what has.",
    "doctor": "Check everything that the promises rest on.",
    "backup": "Copy the store while others go on writing, and verify the copy.",
    "db": "The schema of a store.",
    "bench": "Measure this machine, as ratios to the bare driver.",
}
"""A short description of every command, so that help does not import them."""
