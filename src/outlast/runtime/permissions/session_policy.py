"""The permission gate of a driver: combines the policy of this process with a session's approvals into a decision.

Rights come from this process (its ceiling, its rules) and from the user's answers in the log. The mode stored in a
session can lower the mode in force but never raise it, and a stored grant counts only if an answer could have given it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import msgspec

from outlast.core.messages import ToolCall
from outlast.core.state import SessionState
from outlast.runtime.permissions.evaluate import Decision, Grant, Policy, Verdict, call_digest, decide, effective_mode
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.permissions.needs import has_lifted, judge_need, requested_needs
from outlast.runtime.permissions.rule_files import save_grant
from outlast.runtime.permissions.rules import NO_RULES, PermissionRule, RuleSet
from outlast.runtime.permissions.shell.judge import grantable, head_words, judge
from outlast.runtime.sandbox.port import Need

_ALL = "always, in this process"


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
        sandboxed: bool = False,
        read_only_holds: bool = True,
        network: str = "ask",
    ) -> None:
        self.ceiling = ceiling
        self.rules = rules
        self.prompting = prompting
        self._project, self._roots, self._search_path = project, roots, search_path
        self._home, self._project_key = home, project_key
        self._sandboxed, self._read_only_holds, self._network = sandboxed, read_only_holds, network
        self._mode = ceiling
        self._judged_in = ceiling

    @property
    def mode(self) -> PermissionMode:
        return self._mode

    def request(self, mode: PermissionMode) -> PermissionMode:
        """Request a mode for a session, a persona or a user; return the mode that is then in force."""
        self._mode = effective_mode(mode, self.ceiling)
        return self._mode

    def policy(self, grants: tuple[Grant, ...] = (), hook: Decision | None = None, cwd: Path | None = None) -> Policy:
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
            cwd=cwd,
            sandboxed=self._sandboxed and self._mode is not PermissionMode.DANGER_FULL_ACCESS,
            read_only_holds=self._read_only_holds,
            network=self._network,
            closed=(self._home,) if self._home is not None else (),
        )

    def judge(
        self, call: ToolCall, state: SessionState, hook: Decision | None = None, cwd: Path | None = None
    ) -> Decision:
        """Decide a call. `cwd` is the folder where a shell command starts; None: the project.

        A call that already has an approval request in the log is asked again rather than denied, even if no user can be
        asked in this process.
        """
        policy = self._for_session(state, hook, cwd)
        self._judged_in = PermissionMode.READ_ONLY if state.plan_mode else policy.mode
        digest = call_digest(call.name, call.arguments, cwd)
        if any(found.call_id == call.id and found.call_digest == digest for found in state.approvals):
            policy = msgspec.structs.replace(policy, prompting=True)
        return decide(call, policy)

    def judge_need(self, need: Need, state: SessionState) -> Verdict:
        """Decide about a wall that a running command meets."""
        verdict = judge_need(need, self._for_session(state))
        return Verdict.DENY if verdict is Verdict.ASK and not self.prompting else verdict

    def has_lifted(self, need: Need, state: SessionState) -> bool:
        """Whether a rule or an answer of the user names this wall."""
        return has_lifted(need, self._for_session(state))

    def _for_session(self, state: SessionState, hook: Decision | None = None, cwd: Path | None = None) -> Policy:
        policy = self.policy(session_grants(state.runtime.get("grants")), hook, cwd)
        return msgspec.structs.replace(policy, planning=True) if state.plan_mode else policy

    def grant(self, call: ToolCall, cwd: Path | None = None) -> dict[str, Any]:
        """Return the grant to store when the user approves a call for the session."""
        digest, looking = call_digest(call.name, call.arguments, cwd), self._judged_in is PermissionMode.READ_ONLY
        mode = str(PermissionMode.READ_ONLY) if looking else ""
        needs = tuple(str(need) for need in requested_needs(call, cwd or self._project))
        return Grant(tool=call.name, digest=digest, commands=self._heads(call, cwd), needs=needs, mode=mode).facts()

    def always(self, call: ToolCall, cwd: Path | None = None) -> None:
        """Add allow rules for this call to the user's own rules of the project; durable only if there is a home."""
        needs, heads = requested_needs(call, cwd or self._project), self._heads(call, cwd)
        rules = (
            tuple(PermissionRule(tool="bash", need=str(need), origin=_ALL) for need in needs)
            or tuple(PermissionRule(tool="bash", command=words, origin=_ALL) for words in heads)
            or (PermissionRule(tool=call.name, digest=call_digest(call.name, call.arguments, cwd), origin=_ALL),)
        )
        if self._home is not None and self._project_key:
            save_grant(self._home, self._project_key, *rules)
        self.rules += RuleSet(allow=rules)

    def facts(self) -> dict[str, Any]:
        """The policy in force, as a session records it."""
        return {
            "permission_mode": str(self._mode),
            "permission_prompting_enabled": self.prompting,
            "permission_rule_counts": self.rules.counts(),
            "permission_rules_source": self.rules.source or None,
        }

    def _heads(self, call: ToolCall, cwd: Path | None) -> tuple[tuple[str, ...], ...]:
        command = call.arguments.get("command") if call.name == "bash" else None
        return grantable(judge(command, self.policy(cwd=cwd)).asked) if isinstance(command, str) else ()


def session_grants(stored: object) -> tuple[Grant, ...]:
    """Parse the grants in a session's log, dropping first words that no answer could have granted."""
    found: list[Grant] = []
    for one in cast("list[object]", stored) if isinstance(stored, list) else []:
        try:
            grant = msgspec.convert(one, Grant)
        except msgspec.ValidationError:
            continue
        real = tuple(words for words in grant.commands if head_words(words) == words)
        found.append(msgspec.structs.replace(grant, commands=real))
    return tuple(found)
