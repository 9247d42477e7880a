"""What the runtime says to a model that stopped too early. Never in the user's name: it says who is speaking."""

from __future__ import annotations

from collections.abc import Sequence

from outlast.runtime.invisible import fenced
from outlast.runtime.workflow.evidence import VerificationEvidence

LABEL = "[Outlast runtime]"
MAX_OUTPUT = 1_200

EMPTY = f"{LABEL} Your last response was empty. Go on with the task: call a tool, or give your final answer as text."
RAW_TEXT = (
    f"{LABEL} You wrote a tool call as text. It was understood this time; use the tool-calling interface from now on."
)


def nudge_for(missing: Sequence[str]) -> str:
    """One more round, with what is missing and a way out."""
    listed = "\n".join(f"- {text}" for text in missing)
    return (
        f"{LABEL} The task does not look finished. There is no evidence yet for:\n{listed}\n"
        "Do what is left now, with tools. If it cannot or should not be done, say so plainly and why."
    )


def repair_for(bad: Sequence[VerificationEvidence]) -> str:
    """What failed, with the end of its output, fenced: it is data."""
    shown = "\n\n".join(_failure(item) for item in bad)
    return f"{LABEL} Verification failed. Find the cause, correct the work, then answer again.\n\n{shown}"


def _failure(item: VerificationEvidence) -> str:
    output = "\n".join(text for text in (item.stdout.rstrip(), item.stderr.rstrip()) if text)[-MAX_OUTPUT:]
    return f"`{item.command}` ended with exit code {item.exit_code}:\n{fenced(output or '(no output)')}"
