"""skill: returns the text of a skill and the names of its files, or one of these files.

A user's skill lies outside the project, where `read` asks; this tool reads inside the folders of listed skills only.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

from msgspec import Meta

from outlast.core.events import EffectClass
from outlast.core.text import show_invisible
from outlast.runtime.prompt.skills import FILE, MOST_FILES, Skill
from outlast.runtime.tools.builtin_tool import BuiltinTool, ToolArguments
from outlast.runtime.tools.output_limit import bounded
from outlast.runtime.tools.port import ToolContext, ToolFault, ToolOutcome

LIMIT = 256 * 1024
SHOWN = 60_000


class SkillArguments(ToolArguments, frozen=True, kw_only=True):
    name: Annotated[
        str, Meta(description="The skill's name, or its name, a slash and the path of one of its files.", min_length=1)
    ]


async def skill(arguments: SkillArguments, context: ToolContext) -> ToolOutcome:
    return await asyncio.to_thread(_skill, arguments.name.strip(), context)


def _skill(wanted: str, context: ToolContext) -> ToolOutcome:
    name, _, file = wanted.partition("/")
    found = context.skills.get(name)
    if found is None:
        listed = ", ".join(one.name for one in context.skills.skills[:50]) or "none"
        raise ToolFault(f"there is no skill '{show_invisible(name[:80])}'; there are: {listed}")
    return _file(found, file) if file else _body(found)


def _body(found: Skill) -> ToolOutcome:
    text = found.text()
    if text is None:
        raise ToolFault(f"the file {FILE} of skill '{found.name}' can no longer be read; go on without the skill")
    files = found.files()
    more = f" (the first {MOST_FILES})" if len(files) == MOST_FILES else ""
    listed = [f"- {show_invisible(name)}" for name in files]
    place = f"\n\nThe skill's folder is {show_invisible(str(found.root / found.folder))}."
    told = [f"Its files{more}; skill('{found.name}/PATH') returns one:", *listed] if listed else []
    whole = f"{bounded(show_invisible(text.strip()), SHOWN)}{place}\n" + "\n".join(told)
    return ToolOutcome(text=whole.rstrip(), facts={"skill": found.name, "files": len(files)})


def _file(found: Skill, name: str) -> ToolOutcome:
    data = found.file(name, LIMIT + 1)
    if data is None:
        raise ToolFault(
            f"skill '{found.name}' has no readable file '{show_invisible(name[:200])}'; "
            f"skill('{found.name}') lists its files"
        )
    if b"\0" in data:
        raise ToolFault(f"the file '{show_invisible(name[:200])}' is not text, so it cannot be shown")
    text = data[:LIMIT].decode("utf-8", "replace")
    cut = f"\n[only the first {LIMIT // 1024} KiB]" if len(data) > LIMIT else ""
    return ToolOutcome(text=bounded(text, SHOWN) + cut or "(the file is empty)", facts={"skill": found.name})


SKILL = BuiltinTool(
    "skill",
    "Get the instructions of a skill that the system prompt lists, and the names of its files; with name/path the "
    "text of one file.",
    SkillArguments,
    EffectClass.READ,
    skill,
)
