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
    "serve": "Serve the HTTP API and the web page on this machine.",
    "worker": "Run the pending turns of a shared store.",
    "gateway": "Connect chat platforms: Telegram, Matrix, webhooks.",
    "config": "Show and change your settings.",
    "models": "List the available models, the one in use, and why.",
    "sandbox": "Show the sandbox of shell commands, and their caches.",
    "demo": "Run a scripted turn, kill -9 it and resume it; no key needed.",
    "verify": "Verify that no stored event has changed, or name the damage.",
    "doctor": "Check the machine, the settings and the store.",
    "backup": "Copy the store while other processes write, and verify it.",
    "db": "Show or upgrade the schema of a store.",
    "bench": "Measure this machine, as ratios to the plain driver.",
}
"""A short description of every command, so that help does not import them."""
