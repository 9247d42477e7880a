"""Definition of done of a task: its criteria, the work done, and the results of the commands that verify it.

It is an immutable value: every function returns a new one. Its size is limited, because `DefinitionOfDoneUpdated`
stores it whole. Every change of the work begins a new attempt, so the evidence of the active attempt is always newer
than the last change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from outlast.core.workflow_mode import WorkflowMode
from outlast.core.workflow_records import (
    DefinitionOfDone,
    DoneStatus,
    EvidenceStatus,
    TaskSize,
    VerificationEvidence,
    VerificationObservation,
)
from outlast.runtime.tools.port import ToolOutcome
from outlast.workflow.artifacts import Brief, WorkPlan
from outlast.workflow.tool_effect import ToolEffect, is_conclusive, normal_command

MAX_FILES, MAX_COMMANDS, MAX_ITEMS, MAX_EVIDENCE, MAX_NAMED = 500, 100, 100, 24, 10
MAX_OUTPUT = 2_000
MAX_TEXT = 500
NOT_RUNNABLE = frozenset({126, 127})
"""Exit codes of a shell for a program that is missing or not executable; they say nothing about the work."""


def size_of(files: int, lines: int) -> TaskSize:
    if files <= 3 and lines < 100:
        return TaskSize.SMALL
    return TaskSize.STANDARD if files <= 15 and lines < 500 else TaskSize.LARGE


def begun(
    task: str,
    mode: WorkflowMode,
    *,
    brief: Brief | None = None,
    plan: WorkPlan | None = None,
    commands: Sequence[str] = (),
) -> DefinitionOfDone:
    """Return the definition for a new task. Only its plan and the settings (`commands`) name verification commands."""
    criteria = [*(plan.acceptance_criteria if plan else ()), *(brief.acceptance_criteria if brief else ())]
    planned = list(plan.verification_commands) if plan else []
    return DefinitionOfDone(
        task_statement=task,
        acceptance_criteria=_latest((), criteria, MAX_ITEMS),
        verification_commands=_named([*planned, *commands]),
        planned_commands=planned,
        current_mode=str(mode),
        mode_history=[str(mode)],
    )


def planned(done: DefinitionOfDone, plan: WorkPlan) -> DefinitionOfDone:
    """Take over the plan that was approved while the turn runs, and go on in execute mode."""
    named = [*plan.verification_commands, *done.verification_commands]
    return msgspec.structs.replace(
        entered(done, WorkflowMode.EXECUTE),
        acceptance_criteria=_latest(done.acceptance_criteria, plan.acceptance_criteria, MAX_ITEMS),
        verification_commands=_named(named),
        planned_commands=list(plan.verification_commands),
    )


def _named(commands: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(normal_command(command) for command in commands if command.strip()))[:MAX_NAMED]


def entered(done: DefinitionOfDone, mode: WorkflowMode) -> DefinitionOfDone:
    if done.current_mode == mode:
        return done
    history = [*done.mode_history, str(mode)][-MAX_ITEMS:]
    return msgspec.structs.replace(done, current_mode=str(mode), mode_history=history)


def worked(done: DefinitionOfDone, work: ToolEffect) -> DefinitionOfDone:
    """Record one tool call. A change makes earlier evidence stale."""
    if work.items is not None:
        pending, completed = work.items
        done = msgspec.structs.replace(
            done, pending_items=list(pending[:MAX_ITEMS]), completed_items=list(completed[:MAX_ITEMS])
        )
    if work.command is not None:
        done = _ran(done, work.command[:MAX_TEXT], work.succeeded)
    if not (work.succeeded and work.changed):
        return done
    files = _latest(done.touched_files, work.touched, MAX_FILES)
    lines = done.line_changes + work.lines
    was_verified = done.last_verification_result is not None
    return _next_attempt(
        msgspec.structs.replace(
            done,
            touched_files=files,
            line_changes=lines,
            task_size=str(size_of(len(files), lines)),
            mutating_actions=[*done.mutating_actions, work.label[:MAX_TEXT]][-MAX_ITEMS:],
            last_verification_result=str(EvidenceStatus.STALE) if was_verified else None,
            status=str(DoneStatus.IN_PROGRESS) if done.status != DoneStatus.FIXING else done.status,
        )
    )


def _next_attempt(done: DefinitionOfDone) -> DefinitionOfDone:
    """Begin the next attempt, unless the active one has no evidence yet."""
    if done.active_verification_attempt_id is not None and not done.of_attempt():
        return done
    number = done.verification_attempt_counter + 1
    return msgspec.structs.replace(
        done,
        verification_attempt_counter=number,
        active_verification_attempt_id=f"attempt-{number}",
        active_verification_attempt_number=number,
    )


def _ran(done: DefinitionOfDone, command: str, succeeded: bool) -> DefinitionOfDone:
    others_good = [known for known in done.successful_commands if known != command]
    others_bad = [known for known in done.failed_commands if known != command]
    good, bad = ([*others_good, command], others_bad) if succeeded else (others_good, [*others_bad, command])
    return msgspec.structs.replace(done, successful_commands=good[-MAX_COMMANDS:], failed_commands=bad[-MAX_COMMANDS:])


def _latest(known: Sequence[str], more: Sequence[str], most: int) -> list[str]:
    return list(dict.fromkeys([*known, *more]))[-most:]


# --- verification ------------------------------------------------------------------------------------------------


def evidence_of(command: str, outcome: ToolOutcome, status: str, *, by_model: bool) -> VerificationEvidence:
    """Build the evidence of a finished command; it is skipped if the command did not run to its end, or if its exit
    code proves nothing."""
    code = outcome.facts.get("exit_code")
    has_code = isinstance(code, int) and status in {"executed", "failed"} and is_conclusive(command)
    return VerificationEvidence(
        command=normal_command(command),
        passed=has_code and code == 0,
        exit_code=code if has_code else None,
        stdout=_tail(outcome.text),
        skipped=not has_code or code in NOT_RUNNABLE,
        by_model=by_model,
    )


def observed(done: DefinitionOfDone, evidence: VerificationEvidence) -> DefinitionOfDone:
    """Record the result of one named command in the active attempt; it replaces an earlier result of that command."""
    if done.active_verification_attempt_id is None:
        done = _next_attempt(done)
    seen = msgspec.structs.replace(
        evidence,
        attempt_id=done.active_verification_attempt_id,
        attempt_number=done.active_verification_attempt_number,
    )
    others = [item for item in done.evidence if (item.attempt_id, item.command) != (seen.attempt_id, seen.command)]
    return msgspec.structs.replace(done, evidence=[*others, seen][-MAX_EVIDENCE:])


def _tail(text: str) -> str:
    return text if len(text) <= MAX_OUTPUT else f"[... {len(text) - MAX_OUTPUT} characters]\n{text[-MAX_OUTPUT:]}"


def next_command(done: DefinitionOfDone) -> str | None:
    """Return the first named command without a result since the last change. A command whose exit code proves nothing
    is never run. After a crash this is also where the verification resumes."""
    seen = {item.command for item in done.of_attempt()}
    return next((name for name in done.verification_commands if name not in seen and is_conclusive(name)), None)


def verifying(done: DefinitionOfDone) -> DefinitionOfDone:
    done = _next_attempt(done) if done.active_verification_attempt_id is None else done
    return msgspec.structs.replace(
        entered(done, WorkflowMode.VERIFY),
        status=str(DoneStatus.VERIFYING),
        last_verification_result=str(EvidenceStatus.PENDING),
    )


def fixing(done: DefinitionOfDone) -> DefinitionOfDone:
    """Return to execute mode after a failed verification, and count one retry."""
    return msgspec.structs.replace(
        entered(done, WorkflowMode.EXECUTE),
        status=str(DoneStatus.FIXING),
        retry_count=done.retry_count + 1,
        last_verification_result=str(EvidenceStatus.FAILED),
    )


_CONFIDENCE = {EvidenceStatus.PASSED: "high", EvidenceStatus.FAILED: "low"}


def finished(done: DefinitionOfDone, result: EvidenceStatus) -> DefinitionOfDone:
    """Complete the task with this verification result; skipped if no command was named or nothing was changed."""
    status = DoneStatus.FAILED if result is EvidenceStatus.FAILED else DoneStatus.DONE
    changes: dict[str, Any] = {"status": str(status), "last_verification_result": str(result)}
    return msgspec.structs.replace(done, confidence=_CONFIDENCE.get(result, "medium"), **changes)


def result_of(done: DefinitionOfDone) -> EvidenceStatus:
    """Return what the evidence since the last change says as a whole."""
    seen = {item.status for item in done.of_attempt()}
    if EvidenceStatus.FAILED in seen:
        return EvidenceStatus.FAILED
    return EvidenceStatus.PASSED if EvidenceStatus.PASSED in seen else EvidenceStatus.SKIPPED


def verification_note(done: DefinitionOfDone) -> str:
    """Return one line for the user about the named commands; empty if none was named."""
    results = {item.command: item for item in done.of_attempt()}
    return "; ".join(f"`{name}` {_told(name, results.get(name))}" for name in done.verification_commands)


def _told(command: str, result: VerificationEvidence | None) -> str:
    if not is_conclusive(command):
        return "was not run as a check: the exit code of a pipeline or a list of commands proves nothing"
    if result is None or result.status is EvidenceStatus.SKIPPED:
        return "could not be run"
    return "passed" if result.passed else f"failed (exit code {result.exit_code})"


def observations(done: DefinitionOfDone) -> list[VerificationObservation]:
    """Return the current verification status of each named command."""
    return [_observation(done, command) for command in done.verification_commands]


def _observation(done: DefinitionOfDone, command: str) -> VerificationObservation:
    shown = [item for item in done.evidence if item.command == command]
    active = done.active_verification_attempt_id
    current = next((item for item in reversed(shown) if item.attempt_id == active), None)
    older = [item.attempt_id for item in shown if item.attempt_id != active]
    if current is not None:
        status = current.status
    elif done.status == DoneStatus.VERIFYING:
        status = EvidenceStatus.PENDING if is_conclusive(command) else EvidenceStatus.SKIPPED
    else:
        status = EvidenceStatus.STALE if shown else EvidenceStatus.MISSING
    return VerificationObservation(
        command=command,
        status=str(status),
        summary=_SAYS[status].format(command=f"`{command}`"),
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
