"""Definition of done of a task: its criteria, the work done, the verification results, and the missing evidence.

It is an immutable value: every function returns a new one. Its size is limited, because `DefinitionOfDoneUpdated`
stores it whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from outlast.core.workflow_mode import WorkflowMode
from outlast.core.workflow_records import (
    DefinitionOfDone,
    DoneStatus,
    EvidenceProvenance,
    EvidenceStatus,
    TaskSize,
    VerificationEvidence,
    VerificationObservation,
)
from outlast.workflow.artifacts import Brief, WorkPlan
from outlast.workflow.text_signals import (
    actions,
    hands_back,
    is_broad,
    is_informational,
    wants_a_check,
    wants_a_run,
    wants_an_install,
)
from outlast.workflow.tool_effect import ToolEffect, installs, kind_of, looks_like_a_test

MAX_FILES, MAX_COMMANDS, MAX_ITEMS, MAX_EVIDENCE = 500, 100, 100, 24
MAX_OUTPUT = 2_000
MAX_TEXT = 500


def size_of(files: int, lines: int) -> TaskSize:
    if files <= 3 and lines < 100:
        return TaskSize.SMALL
    return TaskSize.STANDARD if files <= 15 and lines < 500 else TaskSize.LARGE


def begun(
    task: str, mode: WorkflowMode, *, brief: Brief | None = None, plan: WorkPlan | None = None
) -> DefinitionOfDone:
    """Return the definition for a new task, with the criteria and commands of its plan and brief, if any."""
    criteria = [*(plan.acceptance_criteria if plan else ()), *(brief.acceptance_criteria if brief else ())]
    return DefinitionOfDone(
        task_statement=task,
        acceptance_criteria=_latest((), criteria, MAX_ITEMS),
        verification_commands=list(plan.verification_commands) if plan else [],
        planned_commands=list(plan.verification_commands) if plan else [],
        current_mode=str(mode),
        mode_history=[str(mode)],
    )


def entered(done: DefinitionOfDone, mode: WorkflowMode) -> DefinitionOfDone:
    if done.current_mode == mode:
        return done
    history = [*done.mode_history, str(mode)][-MAX_ITEMS:]
    return msgspec.structs.replace(done, current_mode=str(mode), mode_history=history)


def worked(done: DefinitionOfDone, work: ToolEffect) -> DefinitionOfDone:
    """Record one tool call. A change makes an earlier passed verification stale."""
    if work.items is not None:
        pending, completed = work.items
        done = msgspec.structs.replace(
            done, pending_items=list(pending[:MAX_ITEMS]), completed_items=list(completed[:MAX_ITEMS])
        )
    if work.command is not None:
        done = _ran(done, work.command[:MAX_TEXT], work.succeeded)
    if not work.succeeded or not (work.changed or work.command):
        return done
    files = _latest(done.touched_files, work.touched, MAX_FILES)
    lines = done.line_changes + work.lines
    stale = work.changed and done.last_verification_result == EvidenceStatus.PASSED
    return msgspec.structs.replace(
        done,
        touched_files=files,
        line_changes=lines,
        task_size=str(size_of(len(files), lines)),
        mutating_actions=[*done.mutating_actions, work.label[:MAX_TEXT]][-MAX_ITEMS:]
        if work.changed
        else done.mutating_actions,
        last_verification_result=str(EvidenceStatus.STALE) if stale else done.last_verification_result,
        status=str(DoneStatus.IN_PROGRESS) if done.status != DoneStatus.FIXING else done.status,
    )


def _ran(done: DefinitionOfDone, command: str, succeeded: bool) -> DefinitionOfDone:
    others_good = [known for known in done.successful_commands if known != command]
    others_bad = [known for known in done.failed_commands if known != command]
    good, bad = ([*others_good, command], others_bad) if succeeded else (others_good, [*others_bad, command])
    return msgspec.structs.replace(done, successful_commands=good[-MAX_COMMANDS:], failed_commands=bad[-MAX_COMMANDS:])


def _latest(known: Sequence[str], more: Sequence[str], most: int) -> list[str]:
    return list(dict.fromkeys([*known, *more]))[-most:]


# --- verification ------------------------------------------------------------------------------------------------


def verifying(done: DefinitionOfDone, commands: Sequence[str]) -> DefinitionOfDone:
    """Start a new verification attempt, which supersedes older ones."""
    number = done.verification_attempt_counter + 1
    return msgspec.structs.replace(
        entered(done, WorkflowMode.VERIFY),
        verification_commands=list(commands),
        verification_attempt_counter=number,
        active_verification_attempt_id=f"attempt-{number}",
        active_verification_attempt_number=number,
        status=str(DoneStatus.VERIFYING),
        last_verification_result=str(EvidenceStatus.PENDING),
    )


def observed(done: DefinitionOfDone, evidence: VerificationEvidence) -> DefinitionOfDone:
    """Record the result of one command of the active attempt; it replaces an earlier result of the same command."""
    seen = msgspec.structs.replace(
        evidence,
        stdout=_tail(evidence.stdout),
        stderr=_tail(evidence.stderr),
        kind=str(kind_of(evidence.command)),
        attempt_id=done.active_verification_attempt_id,
        attempt_number=done.active_verification_attempt_number,
    )
    others = [item for item in done.evidence if (item.attempt_id, item.command) != (seen.attempt_id, seen.command)]
    return msgspec.structs.replace(done, evidence=[*others, seen][-MAX_EVIDENCE:])


def _tail(text: str) -> str:
    return text if len(text) <= MAX_OUTPUT else f"[... {len(text) - MAX_OUTPUT} characters]\n{text[-MAX_OUTPUT:]}"


def next_command(done: DefinitionOfDone) -> str | None:
    """Return the first command without a result in the active attempt, which is also where to resume after a crash."""
    if done.status != DoneStatus.VERIFYING:
        return None
    seen = {item.command for item in done.of_attempt()}
    return next((command for command in done.verification_commands if command not in seen), None)


def passed(done: DefinitionOfDone) -> DefinitionOfDone:
    return msgspec.structs.replace(
        done, status=str(DoneStatus.DONE), confidence="high", last_verification_result=str(EvidenceStatus.PASSED)
    )


def fixing(done: DefinitionOfDone) -> DefinitionOfDone:
    """Return to execute mode after a failed verification, and count one retry."""
    return msgspec.structs.replace(
        entered(done, WorkflowMode.EXECUTE),
        status=str(DoneStatus.FIXING),
        retry_count=done.retry_count + 1,
        last_verification_result=str(EvidenceStatus.FAILED),
    )


def failed(done: DefinitionOfDone) -> DefinitionOfDone:
    return msgspec.structs.replace(
        done, status=str(DoneStatus.FAILED), confidence="low", last_verification_result=str(EvidenceStatus.FAILED)
    )


def finished(done: DefinitionOfDone, *, verification: EvidenceStatus = EvidenceStatus.SKIPPED) -> DefinitionOfDone:
    """Complete without verification: nothing was changed, no command could check it, or it is switched off."""
    return msgspec.structs.replace(
        done, status=str(DoneStatus.DONE), confidence="medium", last_verification_result=str(verification)
    )


def observations(done: DefinitionOfDone) -> list[VerificationObservation]:
    """Return the current verification status of each command."""
    return [_observation(done, command) for command in done.verification_commands]


def _observation(done: DefinitionOfDone, command: str) -> VerificationObservation:
    shown = [item for item in done.evidence if item.command == command]
    active = done.active_verification_attempt_id
    current = next((item for item in reversed(shown) if item.attempt_id == active), None)
    older = [item.attempt_id for item in shown if item.attempt_id != active]
    if current is not None:
        status = current.status
        if status is EvidenceStatus.PASSED and done.last_verification_result == EvidenceStatus.STALE:
            status = EvidenceStatus.STALE
    elif active is not None and done.status == DoneStatus.VERIFYING:
        status = EvidenceStatus.PENDING
    else:
        status = EvidenceStatus.STALE if shown else EvidenceStatus.MISSING
    return VerificationObservation(
        command=command,
        status=str(status),
        summary=_SAYS[status].format(command=f"`{command}`"),
        kind=str(kind_of(command)),
        exit_code=current.exit_code if current else None,
        attempt_id=active,
        attempt_number=done.active_verification_attempt_number,
        supersedes=older[-1] if older else None,
    )


_SAYS = {
    EvidenceStatus.PENDING: "verification with {command} is pending",
    EvidenceStatus.PASSED: "verification with {command} passed",
    EvidenceStatus.FAILED: "verification with {command} failed",
    EvidenceStatus.MISSING: "verification evidence was still missing for {command}",
    EvidenceStatus.STALE: "what {command} showed is older than the last change",
    EvidenceStatus.SKIPPED: "{command} could not be run",
}


# --- missing evidence ------------------------------------------------------------------------------------------------


BROAD_ACTIONS = 3


def missing_evidence(task: str, answer: str, done: DefinitionOfDone, performed: int) -> list[EvidenceProvenance]:
    """Return the evidence that this answer lacks; none for an answered question. `performed` counts finished calls."""
    pending = [_missing("plan", "dod.pending_items", f"the open item: {item}", item) for item in done.pending_items]
    if is_informational(task):
        return pending if not answer.strip() else []
    has_worked = done.mutated or bool(done.successful_commands)
    found = list(pending)
    if not has_worked:
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
    if hands_back(answer, worked=has_worked):
        text = "doing the step itself instead of handing it back to the user"
        found.append(_missing("answer", "assistant.reply", text, "hand-back"))
    return found


def _checks(task: str, done: DefinitionOfDone) -> list[EvidenceProvenance]:
    failing = [command for command in done.failed_commands if looks_like_a_test(command)]
    if failing:
        return [_needs_a_pass(command, EvidenceStatus.FAILED) for command in failing]
    if done.last_verification_result == EvidenceStatus.PASSED or done.successful_commands:
        return []
    if not wants_a_run(task) and (done.mutated or not wants_a_check(task)):  # changes are verified anyway
        return []
    if done.verification_commands:
        return [_needs_a_pass(command, EvidenceStatus.MISSING) for command in done.verification_commands]
    return [_missing("verification", "dod.evidence", "a command that shows that it works", "verification")]


def _needs_a_pass(command: str, status: EvidenceStatus) -> EvidenceProvenance:
    return EvidenceProvenance(
        category="verification",
        source="dod.verification_commands" if status is EvidenceStatus.MISSING else "dod.failed_commands",
        summary=f"a passing verification result from `{command}`",
        status=str(status),
        subject=command,
    )


def _missing(category: str, source: str, summary: str, subject: str) -> EvidenceProvenance:
    return EvidenceProvenance(
        category=category, source=source, summary=summary, status=str(EvidenceStatus.MISSING), subject=subject
    )
