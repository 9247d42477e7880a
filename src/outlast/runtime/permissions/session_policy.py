"""The gate that a driver asks: the policy of this process, the approvals of a session, one decision.

Rights come from this process (its ceiling, its rules) and from the user's answers in the log. What a session says about
its mode can lower what is in force and never raise it, and of its grants only those count that could have been given.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import msgspec

from outlast.core.messages import ToolCall
from outlast.core.state import SessionState
from outlast.core.workflow_mode import WorkflowMode
from outlast.runtime.permissions.evaluate import Decision, Grant, Policy, call_digest, decide, effective_mode
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.permissions.rule_files import save_grant
from outlast.runtime.permissions.rules import NO_RULES, PermissionRule, RuleSet
from outlast.runtime.permissions.shell.judge import grantable, head_words, judge

_ALL = "always, in this process"
LOOKING = frozenset({WorkflowMode.CLARIFY, WorkflowMode.PLAN})
"""Lanes that only look: nothing may be written in them, whatever the mode."""


class SessionPolicy:
    def __init__(
        self,
        *,
        project: Path,
        roots: tuple[Path, ...],
        ceiling: PermissionMode = PermissionMode.WORKSPACE_WRITE,
        rules: RuleSet = NO_RULES,
        prompting: bool = False,
        search_path: str = "",
        home: Path | None = None,
        project_key: str = "",
    ) -> None:
        self.ceiling = ceiling
        self.rules = rules
        self.prompting = prompting
        self._project, self._roots, self._search_path = project, roots, search_path
        self._home, self._project_key = home, project_key
        self._mode = ceiling

    @property
    def mode(self) -> PermissionMode:
        return self._mode

    def request(self, mode: PermissionMode) -> PermissionMode:
        """Ask for a mode, as a session, a persona or a user may; the mode that is in force then."""
        self._mode = effective_mode(mode, self.ceiling)
        return self._mode

    def policy(self, grants: tuple[Grant, ...] = (), hook: Decision | None = None) -> Policy:
        return Policy(
            mode=self._mode,
            ceiling=self.ceiling,
            project=self._project,
            roots=self._roots,
            rules=self.rules,
            grants=grants,
            prompting=self.prompting,
            hook=hook,
            search_path=self._search_path,
        )

    def judge(self, call: ToolCall, state: SessionState, hook: Decision | None = None) -> Decision:
        """The verdict. A call that was asked about before is asked again, not refused, though nobody is here now."""
        policy = self.policy(session_grants(state.runtime.get("grants")), hook)
        if state.runtime.get("workflow_mode") in LOOKING:
            policy = msgspec.structs.replace(policy, mode=PermissionMode.READ_ONLY)
        digest = call_digest(call.name, call.arguments)
        if any(found.call_id == call.id and found.call_digest == digest for found in state.approvals):
            policy = msgspec.structs.replace(policy, prompting=True)
        return decide(call, policy)

    def grant(self, call: ToolCall) -> dict[str, Any]:
        """What is remembered when a call was approved for the session."""
        return Grant(tool=call.name, digest=call_digest(call.name, call.arguments), commands=self._heads(call)).facts()

    def always(self, call: ToolCall) -> None:
        """Remember in the user's own rules for this project, durably where there is a home, that it may run."""
        heads = self._heads(call)
        rules = tuple(PermissionRule(tool="bash", command=words, origin=_ALL) for words in heads) or (
            PermissionRule(tool=call.name, digest=call_digest(call.name, call.arguments), origin=_ALL),
        )
        if self._home is not None and self._project_key:
            save_grant(self._home, self._project_key, *rules)
        self.rules += RuleSet(allow=rules)

    def facts(self) -> dict[str, Any]:
        """What a session records of the policy in force."""
        return {
            "permission_mode": str(self._mode),
            "permission_prompting_enabled": self.prompting,
            "permission_rule_counts": self.rules.counts(),
            "permission_rules_source": self.rules.source or None,
        }

    def _heads(self, call: ToolCall) -> tuple[tuple[str, ...], ...]:
        command = call.arguments.get("command") if call.name == "bash" else None
        return grantable(judge(command, self.policy()).asked) if isinstance(command, str) else ()


def session_grants(stored: object) -> tuple[Grant, ...]:
    """The grants that a session's log holds. First words that no answer could have given are left out."""
    found: list[Grant] = []
    for one in cast("list[object]", stored) if isinstance(stored, list) else []:
        try:
            grant = msgspec.convert(one, Grant)
        except msgspec.ValidationError:
            continue
        real = tuple(words for words in grant.commands if head_words(words) == words)
        found.append(msgspec.structs.replace(grant, commands=real))
    return tuple(found)
