"""apply_patch: changes, adds, deletes and moves several files by one patch, all of them or none.

Offered to models that are trained on this form (`prefers_patch`). Every file is checked before the first one is
changed; if a later one fails all the same, those already changed are put back.
"""

from __future__ import annotations

import os
import re
import threading
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from outlast.core.events import EffectClass
from outlast.runtime.tools.builtin.edit import text_of
from outlast.runtime.tools.builtin.write import content_bytes
from outlast.runtime.tools.builtin_tool import BuiltinTool, ToolArguments
from outlast.runtime.tools.files.atomic_write import (
    ABSENT,
    LARGEST,
    CurrentFile,
    digest_of,
    now,
    remove,
    replace,
    settled,
)
from outlast.runtime.tools.files.diff import DIFF_LIMIT, difference
from outlast.runtime.tools.files.patch import MalformedPatch, PatchSection, applied, parsed_patch
from outlast.runtime.tools.files.sandboxed_path import ResolvedPath, locate
from outlast.runtime.tools.files.write_targets import joint_target
from outlast.runtime.tools.output_limit import bounded
from outlast.runtime.tools.port import Target, ToolContext, ToolFault, ToolOutcome

MOST_FILES = 200
PATCH_MODELS = re.compile(r"(?:^|[/:])(?:gpt-5(?!\d)|gpt-4\.1|codex)", re.IGNORECASE)
"""Names of models that know this form of patches: OpenAI's GPT-5, GPT-4.1 and Codex, and what is derived from them."""


def prefers_patch(model: str | None) -> bool:
    """Whether a model of this name, with or without its provider, is trained on this form of patches."""
    return PATCH_MODELS.search(model or "") is not None


class PatchArguments(ToolArguments, frozen=True, kw_only=True):
    patch: Annotated[
        str, Meta(description="The patch, from *** Begin Patch to *** End Patch; paths relative to the project.")
    ]


class PlannedFile(msgspec.Struct, kw_only=True):
    """A file that the patch touches: what is there now, and what it will be (None: no file). `mode` is that of the file
    that is moved here."""

    place: ResolvedPath
    found: CurrentFile
    after: bytes | None
    mode: int | None = None

    @property
    def digest_after(self) -> str:
        return ABSENT if self.after is None else digest_of(self.after)


class PatchPlan:
    """The files after each section of a patch, computed without changing anything."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._files: dict[str, PlannedFile] = {}
        self.told: list[str] = []
        self.notes: list[str] = []

    def add(self, section: PatchSection) -> None:
        match section.kind:
            case "Add File":
                self._add(section)
            case "Delete File":
                self._existing(section.path).after = None
                self.told.append(f"deleted {section.path}")
            case _:
                self._update(section)

    def changes(self) -> list[PlannedFile]:
        """Return the files that differ, writes before removals: a crash in between leaves a file twice, never gone."""
        changed = [file for file in self._files.values() if file.digest_after != file.found.digest]
        if not changed:
            raise ToolFault("the patch changes nothing: the files are already as it asks")
        if sum(file.found.size for file in changed) > LARGEST:
            raise ToolFault(f"the patch changes files of more than {LARGEST} bytes together; split it")
        return sorted(changed, key=lambda file: file.after is None)

    def _add(self, section: PatchSection) -> None:
        data = content_bytes("".join(f"{line}\n" for line in section.content), "patch")
        self._free(section.path).after = data
        self.told.append(f"added {section.path}")

    def _update(self, section: PatchSection) -> None:
        file = self._existing(section.path)
        data = file.after or b""
        text = text_of(file.place, CurrentFile(digest=digest_of(data), data=data), "apply_patch")
        result = applied(text, section)
        self.notes += result.notes
        after = result.text.encode("utf-8", "surrogateescape")
        if section.move_to is None:
            file.after = after
            self.told.append(f"changed {section.path}")
            return
        target = self._free(section.move_to)
        target.after, target.mode, file.after = after, file.mode or file.found.mode, None
        self.told.append(f"moved {section.path} to {section.move_to}")

    def _existing(self, path: str) -> PlannedFile:
        if os.path.islink(self._context.project / path):
            raise ToolFault(f"{path} is a link; name the file that it leads to")
        file = self._planned(path)
        if file.after is None:
            if file.found.digest != ABSENT and file.found.data is None:
                raise ToolFault(f"{path} is larger than {LARGEST} bytes; change it with a command")
            raise ToolFault(f"{path} does not exist; look for it with glob, or create it with Add File")
        return file

    def _free(self, path: str) -> PlannedFile:
        file = self._planned(path)
        if file.after is not None or (file.found.digest != ABSENT and file.found.data is None):
            raise ToolFault(f"{path} exists already; change it with Update File, or delete it first")
        return file

    def _planned(self, path: str) -> PlannedFile:
        place = locate(path, self._context)
        key = str(place.path)
        if key not in self._files:
            if len(self._files) >= MOST_FILES:
                raise ToolFault(f"the patch names more than {MOST_FILES} files; split it")
            found = now(place)
            self._files[key] = PlannedFile(place=place, found=found, after=found.data)
        return self._files[key]


def planned(arguments: PatchArguments, context: ToolContext) -> tuple[PatchPlan, list[PlannedFile]]:
    """Return what the patch would do now. Raises ToolFault if it cannot be applied."""
    content_bytes(arguments.patch, "patch")
    plan = PatchPlan(context)
    try:
        for section in parsed_patch(arguments.patch):
            plan.add(section)
    except MalformedPatch as error:
        raise ToolFault(str(error)) from error
    return plan, plan.changes()


def _target(changes: list[PlannedFile], context: ToolContext) -> Target:
    files = [
        Target(
            path=file.place.recorded(context.project),
            digest_before=file.found.digest,
            digest_after=file.digest_after,
            before=file.found.data,
        )
        for file in changes
    ]
    return joint_target(files)


async def aim(arguments: PatchArguments, context: ToolContext) -> Target:
    return await settled(lambda _: _target(planned(arguments, context)[1], context))


async def apply_patch(arguments: PatchArguments, context: ToolContext) -> ToolOutcome:
    def put(given_up: threading.Event) -> ToolOutcome:
        plan, changes = planned(arguments, context)
        if context.expected not in (None, _target(changes, context).digest_before):
            raise ToolFault("a file of the patch changed meanwhile, and nothing was done; read the files again")
        _carry_out(changes, context, given_up)
        told = [f"Applied the patch: {'; '.join(plan.told)}.", *plan.notes]
        return ToolOutcome(text="\n".join(told), facts=_facts(changes, context))

    return await settled(put)


def _carry_out(changes: list[PlannedFile], context: ToolContext, given_up: threading.Event) -> None:
    done: list[PlannedFile] = []
    try:
        for file in changes:
            if file.after is None:
                remove(file.place, file.found.digest, context, given_up)
            else:
                replace(file.place, file.after, file.found.digest, context, given_up, mode=file.mode)
            done.append(file)
    except (ToolFault, OSError) as error:
        left = [file.place.asked for file in reversed(done) if not _put_back(file, context)]
        state = f"{', '.join(left)} stayed changed" if left else "no file was changed"
        raise ToolFault(f"the patch failed, and {state}: {error}") from error


def _put_back(file: PlannedFile, context: ToolContext) -> bool:
    """Undo the change of one file if nothing else has changed it since; return whether that was done."""
    try:
        if file.found.data is None:
            remove(file.place, file.digest_after, context, threading.Event())
        else:
            replace(file.place, file.found.data, file.digest_after, context, threading.Event(), mode=file.found.mode)
    except (ToolFault, OSError):
        return False
    return True


def _facts(changes: list[PlannedFile], context: ToolContext) -> dict[str, Any]:
    each = [
        difference(
            file.place.recorded(context.project),
            file.found.data,
            file.after or b"",
            created=file.found.digest == ABSENT,
        )
        for file in changes
    ]
    facts: dict[str, Any] = {"paths": [one["path"] for one in each], "bytes": sum(one["bytes"] for one in each)}
    diffs = [one["diff"] for one in each if "diff" in one]
    if diffs:
        added, removed = (sum(one.get(name, 0) for one in each) for name in ("added", "removed"))
        facts |= {"added": added, "removed": removed, "diff": bounded("\n".join(diffs), DIFF_LIMIT)}
    return facts


async def patch_preview(arguments: dict[str, Any], context: ToolContext) -> str:
    """Return the diff that the patch would make now. Raises ToolFault if it cannot be applied."""
    typed = msgspec.convert(arguments, PatchArguments)
    facts = await settled(lambda _: _facts(planned(typed, context)[1], context))
    return facts.get("diff") or f"{', '.join(facts['paths'])}: cannot be compared as text"


APPLY_PATCH = BuiltinTool(
    "apply_patch",
    "Change several files by one patch, all or none. Between '*** Begin Patch' and '*** End Patch' stand sections: "
    "'*** Update File: PATH' (perhaps with '*** Move to: PATH') and hunks, each an '@@' line and lines that begin with "
    "a space, - or +; '*** Add File: PATH' and lines that begin with +; '*** Delete File: PATH'. Give three lines of "
    "context around a change; where they are not unique, name the function or class after @@.",
    PatchArguments,
    EffectClass.VERIFIABLE,
    apply_patch,
    aim,
)
