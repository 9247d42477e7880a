"""Whether two versions store and show the same: one scripted scenario in each, on three stores, compared.

    python bench/equality.py --old PYTHON:NAME --new PYTHON:NAME [--stores sqlite,files,postgresql] [--sabotage]

Exit 0 when everything is equal, 1 with a readable difference otherwise. What may differ by chance is levelled
(`measuring.normal`); what may differ on purpose is accepted by name (`ACCEPTED`).
"""

from __future__ import annotations

import argparse
import difflib
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from measuring.collecting import Seen, seen
from measuring.normal import Normal, lines
from measuring.postgres import Postgres
from measuring.version import Version

STORES = ("sqlite", "files", "postgresql")
SHOWN_LINES = 120
Event = dict[str, Any]
KINDS = (
    "SessionCreated", "SessionForked", "SessionRotated", "SessionRenamed", "SessionEnded", "SessionReopened",
    "SessionArchived", "SessionUnarchived", "ModelChanged", "PersonaChanged", "EventRedacted", "MessageAppended",
    "InputAdmitted", "InputPromoted", "InputWithdrawn", "InterruptRequested", "BoundaryRequested", "TurnStarted",
    "ModelRequested", "AssistantReplied", "ReplyInterrupted", "ToolCallStarted", "ToolProcessSpawned",
    "ToolCallFinished", "ApprovalRequested", "ApprovalAnswered", "CompletionDecided", "TurnEnded", "Compacted",
    "CompactionUndone", "HistoryCleared", "Rewound", "RewindUndone", "RouteOpened", "NoticePosted", "DeliveryBegun",
    "DeliveryMade", "DeliveryClosed", "RuntimeStateChanged", "TimelineRecorded", "TraceRecorded", "LedgerUpdated",
    "PromptRecorded", "DefinitionOfDoneUpdated", "UsageRecorded",
)  # fmt: skip
"""Every kind of event that there is."""


class Levelled(NamedTuple):
    """What is compared: lines under titles; and what is told about it."""

    sections: dict[str, list[str]]
    kinds: Counter[str]
    sessions: int


# --- what may differ on purpose


OWNER = frozenset({"runtime_owner_type", "runtime_owner_path"})


def repeated_owner(event: Event, known: dict[str, Any]) -> bool:
    """The event says only that the session's driver is of the kind that was known: the new version leaves it out."""
    return any_owner(event, known) and event["body"]["changes"].items() <= known.items()


def any_owner(event: Event, known: dict[str, Any]) -> bool:
    """The event says only of which kind the session's driver is, also where that is news."""
    return event["kind"] == "RuntimeStateChanged" and event["body"]["changes"].keys() <= OWNER


ACCEPTED: dict[str, Callable[[Event, dict[str, Any]], bool]] = {
    "repeated-owner": repeated_owner,
    "any-owner": any_owner,
}
"""Events for which such a rule is true are left out on both sides. A rule gets the event and the state before it."""


def ordered(events: list[Event], rules: list[str]) -> list[Event]:
    """The events of one log that are compared, in the order in which they are.

    Those that a rule accepts are left out. Deliveries stand behind the event that they are of: a chat's messages are
    sent beside the turn, so where they stand among its events is a race between two writers.
    """
    known: dict[str, Any] = {}
    kept: list[Event] = []
    deliveries: dict[int, list[Event]] = {}
    for event in events:
        if any(ACCEPTED[rule](event, known) for rule in rules):
            continue
        if event["kind"] == "RuntimeStateChanged":
            known |= event["body"]["changes"]
        if event["kind"].startswith("Delivery"):
            deliveries.setdefault(event["body"]["of_seq"], []).append(event)
        else:
            kept.append(event)
    return [one for event in kept for one in (event, *deliveries.pop(event["seq"], ()))]


# --- levelling


def levelled(version: Version, folder: Path, found: Seen, rules: list[str], store: str) -> Levelled:
    """Everything that one version stored and showed, as lines that can be compared."""
    normal = Normal(version, str(folder))
    for name in found.sessions.values():
        normal.learn(name)
    logs: dict[str, list[Event]] = {}
    gone: set[tuple[str, int]] = set()
    for label, rows in found.events.items():
        events = [row for row in rows if "kind" in row]
        logs[label] = ordered(events, rules)
        normal.renumber(found.sessions[label], {one["seq"]: place for place, one in enumerate(logs[label], 1)})
        gone |= {(one["session_id"], one["seq"]) for one in events} - {
            (one["session_id"], one["seq"]) for one in logs[label]
        }
    sections: dict[str, list[str]] = {}
    for label, events in logs.items():
        name = found.sessions[label]
        sections[f"events of {label}"] = [row for one in events for row in _rows(normal, one, name)]
        blobs = [row for row in found.events[label] if "kind" not in row]
        sections[f"blobs of {label}"] = list(lines(normal.value(blobs)))
    for number, (title, what) in enumerate(found.shown, 1):
        value = normal.value(what, None, _session_of(title, found.sessions))
        sections[f"{number:03} {title}"] = list(lines(_counted(title, value, len(gone), store)))
    kinds = Counter(one["kind"] for events in logs.values() for one in events)
    return Levelled(sections, kinds, len(logs))


def _session_of(title: str, sessions: dict[str, str]) -> str | None:
    """The session that a view is of, by its name in the title."""
    named = [label for label in sessions if f" {label} " in f"{title} "]
    return sessions[max(named, key=len)] if named else None


def _rows(normal: Normal, event: Event, session: str) -> Iterator[str]:
    """One event: a line with its fields, then its body."""
    level = normal.value(event, None, session)
    body = level.pop("body", None)
    yield "# " + " ".join(f"{name}={level[name]}" for name in level if name not in ("at", "hash"))
    yield from lines(body)


def _counted(title: str, value: Any, gone: int, store: str) -> Any:
    """A report of `verify` counts events, and PostgreSQL a key for each commit: what was left out is taken off."""
    out = value.get("out") if isinstance(value, dict) else None
    if title in ("verify", "verify deep") and isinstance(out, dict):
        out["events"] -= gone
        out["keys"] -= gone if store == "postgresql" else 0
    return value


# --- comparing


def differences(old: Levelled, new: Levelled) -> Iterator[str]:
    """A readable diff of every section that is not the same."""
    for title in [*old.sections, *(one for one in new.sections if one not in old.sections)]:
        ours, theirs = old.sections.get(title, []), new.sections.get(title, [])
        if ours == theirs:
            continue
        found = difflib.unified_diff(ours, theirs, f"old: {title}", f"new: {title}", lineterm="", n=4)
        for number, line in enumerate(found):
            if number == SHOWN_LINES:
                yield f"... more of '{title}' differs"
                break
            yield line


def sabotaged(found: Seen) -> None:
    """Alter one body, to show that a difference is seen."""
    label = next(label for label, events in found.events.items() if len(events) > 5)
    event = next(one for one in found.events[label][2:] if one.get("kind") == "MessageAppended")
    event["body"]["parts"][0]["text"] += " (sabotaged)"
    print(f"sabotage: altered event {event['seq']} of '{label}' of the new version")


def emptied(stack: ExitStack, store: str, folder: Path, version: Version) -> Callable[[], str]:
    """What tells the URL of such a store, empty each time: every world gets a new folder."""
    if store == "postgresql":
        server = stack.enter_context(Postgres(version))
        return lambda: server.fresh("world")
    return lambda: f"{store}:///{folder / ('store.db' if store == 'sqlite' else 'store')}"


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--old", required=True, metavar="PYTHON:NAME")
    parser.add_argument("--new", required=True, metavar="PYTHON:NAME")
    parser.add_argument("--stores", default=",".join(STORES), help="which of sqlite, files, postgresql")
    parser.add_argument("--accept", default="repeated-owner", help=f"which of {', '.join(ACCEPTED)}; '' for none")
    parser.add_argument("--sabotage", action="store_true", help="alter one body first, to show that it is seen")
    parser.add_argument("--keep", metavar="DIR", help="write what was compared into this folder")
    return parser.parse_args()


def main() -> int:
    """Play the scenario in both versions on each store and compare."""
    given = parsed()
    stores: list[str] = given.stores.split(",")
    versions = (Version.parse("old", given.old), Version.parse("new", given.new))
    folder = Path(tempfile.mkdtemp(prefix="equality-")) / "world"
    kinds: Counter[str] = Counter()
    sessions = failed = 0
    rules = [rule for rule in given.accept.split(",") if rule]
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder.parent, ignore_errors=True)
        for store in stores:
            fresh = emptied(stack, store, folder, versions[0])
            found = [seen(version, folder, fresh()) for version in versions]
            if given.sabotage:
                sabotaged(found[1])
            pairs = zip(versions, found, strict=True)
            old, new = (levelled(version, folder, one, rules, store) for version, one in pairs)
            if given.keep:
                keep(Path(given.keep), store, old, new)
            different = list(differences(old, new))
            print(
                *different,
                f"{store}: {'DIFFERENT' if different else 'equal'}, {len(old.sections)} views",
                sep="\n",
                flush=True,
            )
            failed += bool(different)
            kinds += old.kinds
            sessions += old.sessions
    report(kinds)
    what = f"{kinds.total()} events of {len(kinds)} kinds in {sessions} sessions on {len(stores)} stores"
    print(f"{what}: {'DIFFERENT' if failed else 'equal'}")
    return 1 if failed else 0


def report(kinds: Counter[str]) -> None:
    """Tell which kinds of events were seen, and which were not."""
    print("covered:", ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())))
    print("not covered:", ", ".join(kind for kind in KINDS if kind not in kinds) or "none")


def keep(folder: Path, store: str, old: Levelled, new: Levelled) -> None:
    """Write both sides as JSON, for a closer look."""
    folder.mkdir(parents=True, exist_ok=True)
    for label, side in (("old", old), ("new", new)):
        (folder / f"{store}-{label}.json").write_text(json.dumps(side.sections, indent=1))


if __name__ == "__main__":
    sys.exit(main())
