"""Decides a tool call, from the call and the policy only. The first step that applies wins:

    deny rule > hook deny > plan mode > writing in read-only mode > already approved > walls to lift > hook ask >
    ask rule > hook allow > allow rule or grant > prompt mode asks > allow and full-access modes allow >
    the mode's level > ask, or deny

Where a sandbox holds, a shell command runs unasked inside it; in read-only and plan mode nothing that it writes
remains. The user is asked about walls that the command needs lifted, and about work that could not be brought back.
Without a sandbox the text of the command decides (`shell.judge`).

In plan mode every other call that does more than read is denied after the deny rules, whatever the permission mode. In
read-only mode, what a user allowed in another mode permits no call that could write: rules and hook answers do not
count for shell commands and unknown tools there, grants only if they were given in that mode, and `--allow` only in a
process that was started read-only.

If no user can be asked, "ask" becomes "deny". A reason is for the model and names no command line flag; `remedy` is for
the user and names the flag that would have allowed the call.
"""

from __future__ import annotations

import os
import shlex
from typing import Any

import msgspec

from outlast.core.messages import ToolCall
from outlast.runtime.permissions.call_paths import named_paths, reads_stored_output
from outlast.runtime.permissions.decision import Decision, Grant, Policy, Verdict, effective_mode
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.permissions.needs import refusal, requested_needs, unmet_needs
from outlast.runtime.permissions.paths import reading_fault, writing_fault
from outlast.runtime.permissions.rule_match import call_digest, strictly_fits, widely_fits
from outlast.runtime.permissions.rules import FLAG, NO_RULES
from outlast.runtime.permissions.shell.destructive import destroyed_work
from outlast.runtime.permissions.shell.judge import Judgement, head_words, judge

__all__ = ["Decision", "Grant", "Policy", "Verdict", "call_digest", "decide", "effective_mode"]

QUIET = frozenset({"todo", "ask_user", "recall", "enter_plan", "exit_plan"})
"""Tools that touch only the session: every mode allows them without asking."""
READING = frozenset({"read", "glob", "search", "task", "skill"})
"""`task` starts a sub-agent; each of the sub-agent's calls is decided separately. `skill` reads listed skills."""
JOBS = frozenset({"bash_output", "bash_kill"})
"""Tools for the background jobs of the session itself, whose start was decided upon."""
TALKING = frozenset({"web_fetch"}) | JOBS
"""Tools that write no file."""
WRITING = frozenset({"write", "edit", "apply_patch"})
HARMLESS = "shell-harmless"
"""The code of a decision that allows a shell command because of what it says alone."""
SANDBOXED = "sandboxed"
"""The code of a decision that allows a shell command because the sandbox keeps it inside."""
PLANNING = QUIET | READING | {"bash_output", "web_fetch"}
"""Tools that only read, so that plan mode leaves them to the permission mode."""
PLAN_MODE = "plan mode is on: only reading is allowed; call exit_plan(plan) to ask the user to approve the plan"
NOBODY = "nobody can be asked here, so do without it and name it in your answer if it is needed"


def decide(call: ToolCall, policy: Policy) -> Decision:
    policy = _as_far_as_the_mode(call, policy)
    judged = judge(_command(call.arguments), policy) if call.name == "bash" else None
    decision = _ruled(call, policy, judged) or _by_mode(call, policy, judged)
    if decision.verdict is Verdict.ASK and not policy.prompting:
        return Decision(
            verdict=Verdict.DENY,
            code=decision.code,
            reason=f"{decision.reason}; {NOBODY}",
            rule=decision.rule,
            remedy=decision.remedy or _flag(call, judged),
        )
    return decision


def _as_far_as_the_mode(call: ToolCall, policy: Policy) -> Policy:
    """Return the policy without the permissions, and without the sandbox, that do not count in this mode."""
    is_looking = policy.planning or policy.mode is PermissionMode.READ_ONLY
    if is_looking and not policy.read_only_holds:
        policy = msgspec.structs.replace(policy, sandboxed=False)
    if policy.mode is not PermissionMode.READ_ONLY or call.name in QUIET | READING | TALKING:
        return policy
    flags = policy.rules.allow if policy.ceiling is PermissionMode.READ_ONLY else ()
    hook = policy.hook
    return msgspec.structs.replace(
        policy,
        rules=msgspec.structs.replace(policy.rules, allow=tuple(rule for rule in flags if rule.origin == FLAG)),
        grants=tuple(grant for grant in policy.grants if grant.mode == PermissionMode.READ_ONLY),
        hook=hook if hook is not None and hook.verdict is not Verdict.ALLOW else None,
    )


def _command(arguments: dict[str, Any]) -> str:
    command = arguments.get("command")
    return command if isinstance(command, str) else ""


def _ruled(call: ToolCall, policy: Policy, judged: Judgement | None) -> Decision | None:
    """Return the decision of rules, hooks and the user's answers; None if none of them applies."""
    for rule in policy.rules.deny:
        if widely_fits(rule, call, policy):
            return _decision(Verdict.DENY, "rule-deny", f"a deny rule forbids this: {rule}", str(rule))
    hook = policy.hook
    if hook is not None and hook.verdict is Verdict.DENY:
        return hook
    is_sandboxed = judged is not None and policy.sandboxed
    if policy.planning and not is_sandboxed and not _only_reads(call, policy):
        return _decision(Verdict.DENY, "plan-mode", PLAN_MODE)
    writes = call.name in WRITING or (judged is not None and judged.writes)
    if policy.mode is PermissionMode.READ_ONLY and writes and not is_sandboxed:
        reason = f"{call.name} would write, and the permission mode is read-only: nothing can be changed here"
        return _decision(Verdict.DENY, "read-only", reason, remedy="--permission-mode workspace-write")
    if call_digest(call.name, call.arguments, policy.cwd) in policy.approved:
        return _decision(Verdict.ALLOW, "approved", "the user has approved this very call")
    walls = _walls(call, policy) if is_sandboxed else None
    if walls is not None:
        return walls
    if hook is not None and hook.verdict is Verdict.ASK:
        return hook
    for rule in policy.rules.ask:
        if widely_fits(rule, call, policy):
            return _decision(Verdict.ASK, "rule-ask", f"an ask rule wants this to be asked: {rule}", str(rule))
    if hook is not None:
        return hook
    return _allowed(call, policy, judged)


def _walls(call: ToolCall, policy: Policy) -> Decision | None:
    """Return the decision about walls that the command needs lifted and that stand; None if there are none."""
    try:
        unmet = unmet_needs(requested_needs(call, policy.cwd or policy.project), policy)
    except ValueError as error:
        return _decision(Verdict.DENY, "need", str(error))
    for need, verdict in unmet.items():
        if verdict is Verdict.DENY:
            return _decision(Verdict.DENY, "wall", refusal(need, policy))
    if not unmet:
        return None
    why: object = call.arguments.get("why")
    said = f'; the model says: "{why[:300]}"' if isinstance(why, str) and why.strip() else ""
    reasons = "; ".join(need.reason() for need in unmet)
    flags = " ".join(f"--allow {shlex.quote(str(need))}" for need in unmet)
    return _decision(Verdict.ASK, "wall", f"{reasons}{said}", remedy=flags)


def _only_reads(call: ToolCall, policy: Policy) -> bool:
    """Whether the call only reads. A command counts only if it is known to be harmless without any rule or grant."""
    if call.name != "bash":
        return call.name in PLANNING
    strict = msgspec.structs.replace(policy, mode=PermissionMode.READ_ONLY, rules=NO_RULES, grants=())
    return judge(_command(call.arguments), strict).verdict is Verdict.ALLOW


def _allowed(call: ToolCall, policy: Policy, judged: Judgement | None) -> Decision | None:
    for rule in policy.rules.allow:
        if strictly_fits(rule, call, policy):
            return _decision(Verdict.ALLOW, "rule-allow", f"an allow rule permits this: {rule}", str(rule))
    if any(
        grant.tool == call.name and grant.digest == call_digest(call.name, call.arguments, policy.cwd)
        for grant in policy.grants
    ):
        return _decision(Verdict.ALLOW, "granted", "the user has allowed this for the session")
    if judged is not None and judged.verdict is Verdict.ALLOW and judged.by_rule:
        return _decision(Verdict.ALLOW, "rule-allow", "allow rules or grants cover every part of the command")
    return None


def _by_mode(call: ToolCall, policy: Policy, judged: Judgement | None) -> Decision:
    if call.name in QUIET or reads_stored_output(call.name, call.arguments):
        return _decision(Verdict.ALLOW, "no-effect", f"{call.name} touches nothing outside the session")
    match policy.mode:
        case PermissionMode.PROMPT:
            remedy = "--permission-mode workspace-write" if judged is not None and policy.sandboxed else None
            return _decision(Verdict.ASK, "mode-prompt", "in prompt mode every call is asked about", remedy=remedy)
        case PermissionMode.ALLOW | PermissionMode.DANGER_FULL_ACCESS:
            return _decision(Verdict.ALLOW, f"mode-{policy.mode}", f"the mode is {policy.mode}")
        case _:
            return _by_level(call, policy, judged)


def _by_level(call: ToolCall, policy: Policy, judged: Judgement | None) -> Decision:
    if judged is not None and policy.sandboxed:
        lost = destroyed_work(_command(call.arguments)) if policy.mode is not PermissionMode.READ_ONLY else None
        if lost is not None and not policy.planning:
            return _decision(Verdict.ASK, "destroys", f"the command {lost}")
        return _decision(Verdict.ALLOW, SANDBOXED, "the sandbox keeps the command inside the project")
    if judged is not None:
        if judged.verdict is Verdict.ALLOW:
            return _decision(Verdict.ALLOW, HARMLESS, "every part of the command is known to be harmless")
        return _decision(Verdict.ASK, "shell-unknown", "; ".join(judged.reasons))
    if call.name in READING or call.name in WRITING:
        fault = _path_fault(call, policy)
        if fault is None:
            return _decision(Verdict.ALLOW, f"mode-{policy.mode}", f"{call.name} inside the project needs no more")
        return _decision(Verdict.ASK, "path", f"{call.name} {fault}")
    if call.name in JOBS:
        return _decision(Verdict.ALLOW, "own-job", f"{call.name} touches only a job of this session")
    if call.name == "web_fetch":
        return _decision(Verdict.ASK, "network", "web_fetch talks to another machine")
    if policy.mode is PermissionMode.READ_ONLY:
        reason = f"{call.name} may do anything, and the permission mode is read-only: nothing can be changed here"
        return _decision(Verdict.DENY, "level", reason, remedy="--permission-mode danger-full-access")
    return _decision(Verdict.ASK, "level", f"{call.name} may do anything, which needs danger-full-access")


def _path_fault(call: ToolCall, policy: Policy) -> str | None:
    look = writing_fault if call.name in WRITING else reading_fault
    given = named_paths(call.name, call.arguments)
    pattern = call.arguments.get("pattern") if call.name == "glob" else None
    if isinstance(pattern, str):
        given.append(_start_of(os.path.join(given[0] if given else "", pattern)))
    faults = (
        look(os.path.expanduser(raw) if raw.startswith("~") else raw, str(policy.project), policy.roots)
        for raw in given
    )
    return next((fault for fault in faults if fault), None)


def _start_of(pattern: str) -> str:
    """Return the path a pattern starts from, including every `..` in it, since that could lead out of the project."""
    kept = [part for part in pattern.split("/") if not set(part) & set("*?[{")]
    return "/".join(kept) or ("/" if pattern.startswith("/") else ".")


def _flag(call: ToolCall, judged: Judgement | None) -> str:
    if judged is None:
        return f"--allow {call.name}"
    if not judged.asked:
        return "--permission-mode danger-full-access"
    patterns = dict.fromkeys(_pattern(simple.argv) for simple in judged.asked)
    if any(pattern is None for pattern in patterns):
        return "--permission-mode danger-full-access"
    return " ".join(f"--allow 'bash({pattern})'" for pattern in patterns)


def _pattern(argv: tuple[str, ...]) -> str | None:
    """Return the narrowest pattern of --allow for this command: its first words where they tell what it does, as in
    `pytest *`, else all its words, else the first two. None if not even those can be written in a pattern."""
    head = head_words(argv)
    if head is None and all(map(_is_plain, argv)):
        return " ".join(argv)
    head = head or argv[:2]
    return f"{' '.join(head)} *" if all(map(_is_plain, head)) else None


def _is_plain(word: str) -> bool:
    return word.isprintable() and not set(word) & set(" '*?;|&<>`$(){}\"\\")


def _decision(
    verdict: Verdict, code: str, reason: str, rule: str | None = None, *, remedy: str | None = None
) -> Decision:
    return Decision(verdict=verdict, code=code, reason=reason, rule=rule, remedy=remedy)
