"""The walls that a shell command asks to have lifted, and which of them the user has lifted already.

A need is lifted by an answer for the call or the session, by a rule (`need` in a rule file, `--allow network:HOST`), or
by the mode `allow`. In read-only and plan mode no wall is lifted; `network = off` beats the mode, not a named host.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from outlast.core.messages import ToolCall
from outlast.runtime.permissions.decision import Policy, Verdict
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.permissions.paths import inside, writing_fault
from outlast.runtime.sandbox.port import Need, NeedKind, parse_need

MOST_NEEDS = 16
_LIFTING = frozenset({PermissionMode.ALLOW, PermissionMode.DANGER_FULL_ACCESS})


def requested_needs(call: ToolCall, folder: Path) -> tuple[Need, ...]:
    """Return the needs of a bash call; relative paths start at `folder`. Raises ValueError with one sentence."""
    given: Any = call.arguments.get("needs") if call.name == "bash" else None
    if not isinstance(given, list):
        return ()
    texts = cast("list[object]", given)
    if len(texts) > MOST_NEEDS:
        raise ValueError(f"a command may name at most {MOST_NEEDS} needs; name the ones that it cannot do without")
    return tuple(dict.fromkeys(parse_need(text, folder) for text in texts if isinstance(text, str)))


def judge_need(need: Need, policy: Policy) -> Verdict:
    """Decide whether this wall is lifted, has to be asked about, or stays."""
    if _is_forbidden(need, policy) or any(_named(need, rule.need) for rule in policy.rules.deny):
        return Verdict.DENY
    if _is_inside(need, policy):
        return Verdict.ALLOW
    if policy.planning or policy.mode is PermissionMode.READ_ONLY:
        return Verdict.DENY
    if any(_named(need, rule.need) for rule in policy.rules.ask):
        return Verdict.ASK
    if has_lifted(need, policy):
        return Verdict.ALLOW
    if need.kind is NeedKind.NETWORK and policy.network != "ask":
        return Verdict.ALLOW if policy.network == "on" else Verdict.DENY
    if policy.mode in _LIFTING:
        return Verdict.ALLOW
    return Verdict.ASK


def unmet_needs(needs: Iterable[Need], policy: Policy) -> dict[Need, Verdict]:
    """Return the needs that are not lifted, with what has to happen."""
    judged = {need: judge_need(need, policy) for need in needs}
    return {need: verdict for need, verdict in judged.items() if verdict is not Verdict.ALLOW}


def refusal(need: Need, policy: Policy) -> str:
    """Return why this wall stays, in one sentence for the model."""
    if _is_forbidden(need, policy):
        return f"{need} stays closed: it is Outlast's own folder"
    if policy.planning or policy.mode is PermissionMode.READ_ONLY:
        return f"{need.reason()}, and in read-only and plan mode no wall is lifted"
    if need.kind is NeedKind.NETWORK and policy.network == "off":
        return f"{need.reason()}, and the network is switched off (network = off)"
    return f"a deny rule forbids what the command asks for: {need}"


def has_lifted(need: Need, policy: Policy) -> bool:
    """Whether a rule or an answer of the user names this wall."""
    granted = (text for grant in policy.grants if grant.tool == "bash" for text in grant.needs)
    return any(_named(need, text) for text in (*(rule.need for rule in policy.rules.allow), *granted))


def _named(need: Need, text: str) -> bool:
    """Whether the text of a rule or grant, such as `network:*.example.org`, covers this need."""
    kind, separator, value = text.partition(":")
    if not separator or kind != need.kind or not value:
        return False
    if need.kind is NeedKind.NETWORK:
        return value in {"*", need.value} or (value.startswith("*.") and need.value.endswith(value[1:]))
    if need.kind in {NeedKind.WRITE, NeedKind.READ}:
        return Path(need.value).is_relative_to(value)
    return need.value == value


def _is_inside(need: Need, policy: Policy) -> bool:
    """Whether the sandbox permits this anyway."""
    if need.kind is NeedKind.WRITE and policy.mode is not PermissionMode.READ_ONLY:
        return inside(need.value, policy.roots) and writing_fault(need.value, "/", policy.roots) is None
    return need.kind is NeedKind.READ and inside(need.value, policy.roots)


def _is_forbidden(need: Need, policy: Policy) -> bool:
    if need.kind not in {NeedKind.WRITE, NeedKind.READ, NeedKind.SOCKET}:
        return False
    path = Path(need.opened().value)
    return any(
        path.is_relative_to(closed) or (need.kind is not NeedKind.SOCKET and closed.is_relative_to(path))
        for closed in policy.closed
    )
