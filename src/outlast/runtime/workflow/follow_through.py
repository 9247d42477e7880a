"""What is still missing before an answer can be believed: the rules, each of which names its evidence."""

from __future__ import annotations

from outlast.runtime.workflow.asking import (
    actions,
    hands_back,
    is_broad,
    is_informational,
    wants_a_check,
    wants_a_run,
    wants_an_install,
)
from outlast.runtime.workflow.commands import installs, looks_like_a_test
from outlast.runtime.workflow.done import DefinitionOfDone
from outlast.runtime.workflow.evidence import EvidenceProvenance, Status

BROAD_ACTIONS = 3


def missing_evidence(task: str, answer: str, done: DefinitionOfDone, performed: int) -> list[EvidenceProvenance]:
    """The evidence that this answer lacks; none for a task that only asks. `performed` counts finished tool calls."""
    pending = [_missing("plan", "dod.pending_items", f"the open item: {item}", item) for item in done.pending_items]
    if is_informational(task):
        return pending if not answer.strip() else []
    worked = done.mutated or bool(done.successful_commands)
    found = list(pending)
    if not worked:
        found.append(
            _missing(
                "work", "dod.mutating_actions", "showing the requested work was actually carried out", actions(task)[0]
            )
        )
    if wants_an_install(task) and not any(installs(command) for command in done.successful_commands):
        found.append(_missing("install", "dod.successful_commands", "a successful installation command", "install"))
    found += _checks(task, done)
    if is_broad(task) and performed < BROAD_ACTIONS:
        text = f"work across the whole project (only {performed} actions so far)"
        found.append(_missing("work", "dod.mutating_actions", text, "whole project"))
    if hands_back(answer, worked=worked):
        text = "doing the step itself instead of handing it back to the user"
        found.append(_missing("answer", "assistant.reply", text, "hand-back"))
    return found


def _checks(task: str, done: DefinitionOfDone) -> list[EvidenceProvenance]:
    failing = [command for command in done.failed_commands if looks_like_a_test(command)]
    if failing:
        return [_needs_a_pass(command, Status.FAILED) for command in failing]
    if done.last_verification_result == Status.PASSED or done.successful_commands:
        return []
    if not wants_a_run(task) and (done.mutated or not wants_a_check(task)):  # what was changed is verified anyway
        return []
    if done.verification_commands:
        return [_needs_a_pass(command, Status.MISSING) for command in done.verification_commands]
    return [_missing("verification", "dod.evidence", "a command that shows that it works", "verification")]


def _needs_a_pass(command: str, status: Status) -> EvidenceProvenance:
    return EvidenceProvenance(
        category="verification",
        source="dod.verification_commands" if status is Status.MISSING else "dod.failed_commands",
        summary=f"a passing verification result from `{command}`",
        status=str(status),
        subject=command,
    )


def _missing(category: str, source: str, summary: str, subject: str) -> EvidenceProvenance:
    return EvidenceProvenance(
        category=category, source=source, summary=summary, status=str(Status.MISSING), subject=subject
    )
