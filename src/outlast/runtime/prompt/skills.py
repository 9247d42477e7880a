"""Skills: folders with a `SKILL.md` that describes how to do one kind of work, and the files that belong to it.

The prompt names and describes them; the `skill` tool returns the text and the files. They come from the project
(`.outlast/skills`, `.agents/skills`, `.claude/skills`) and from the user's homes. They are instructions, never rights:
no key of theirs grants anything. The user's skills take precedence over a project's, and nothing is read outside a
skill's root.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from outlast.core.text import one_line, shortened, show_invisible
from outlast.runtime.permissions.paths import reading_fault
from outlast.runtime.prompt.front_matter import Malformed, front_matter
from outlast.runtime.safe_open import read_inside

FILE = "SKILL.md"
MOST_SKILLS = 100
DESCRIPTION_LENGTH = 300
LIMIT = 64 * 1024
MOST_FILES = 200
MOST_FOLDERS = 1000
"""How many folders are looked into for skills; a folder of more is cut."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_:.-]{0,63}")
_PROJECT_PLACES = (".outlast/skills", ".agents/skills", ".claude/skills")


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """One skill. `folder` is relative to `root`, outside of which none of its files is read."""

    name: str
    description: str
    root: Path
    folder: str
    source: str = "project"

    def text(self) -> str | None:
        """Return the text below the front matter; None if the file can no longer be read."""
        data = read_inside(self.root, f"{self.folder}/{FILE}", LIMIT)
        if data is None:
            return None
        try:
            return str(front_matter(data.decode("utf-8", "replace"), body="body")["body"])
        except Malformed:
            return None

    def file(self, name: str, limit: int) -> bytes | None:
        """Return the start of one of the skill's files; None if it is absent, outside, or may hold secrets."""
        own = os.path.realpath(self.root / self.folder)
        if not Path(own).is_relative_to(os.path.realpath(self.root)):  # it has become a link since it was listed
            return None
        if reading_fault(name, own, (Path(own),)):
            return None
        return read_inside(Path(own), name, limit)

    def files(self) -> list[str]:
        """Return the paths of the skill's files, without `SKILL.md`, at most `MOST_FILES`."""
        top = os.path.realpath(self.root / self.folder)
        if not Path(top).is_relative_to(os.path.realpath(self.root)):
            return []
        found: list[str] = []
        for folder, below, names in os.walk(top):
            below[:] = sorted(name for name in below if name not in {".git", "__pycache__", "node_modules"})
            found += [os.path.relpath(os.path.join(folder, name), top) for name in sorted(names)]
            if len(found) > MOST_FILES:
                break
        return [name for name in found if name != FILE][:MOST_FILES]


class SkillCatalog(msgspec.Struct, frozen=True, kw_only=True):
    """The skills that can be used, by name, and one sentence for each that was left out."""

    skills: tuple[Skill, ...] = ()
    warnings: tuple[str, ...] = ()

    def get(self, name: str) -> Skill | None:
        return next((skill for skill in self.skills if skill.name == name), None)


NO_SKILLS = SkillCatalog()


def load_skills(project: Path | None, home: Path | None, user_home: Path | None) -> SkillCatalog:
    """Load the skills of this user and this project. A malformed one is left out, with a warning."""
    found: dict[str, Skill] = {}
    warnings: list[str] = []
    for root, place, source in _places(project, home, user_home):
        for folder in _folders(root, place):
            try:
                skill = _read(root, folder, source)
            except Malformed as error:
                warnings.append(f"the skill {show_invisible(str(root / folder))} is left out: {error}")
                continue
            if skill is not None:
                found.setdefault(skill.name, skill)
    return SkillCatalog(skills=tuple(found[name] for name in sorted(found)), warnings=tuple(warnings))


def _places(project: Path | None, home: Path | None, user_home: Path | None) -> Iterator[tuple[Path, str, str]]:
    """Yield root, folder and source, the user's first. A link may lead anywhere inside the root."""
    if home is not None:
        yield home, "skills", "home"
    if user_home is not None:
        yield user_home, ".agents/skills", "home"
        yield user_home, ".claude/skills", "home"
    if project is not None:
        yield from ((project, place, "project") for place in _PROJECT_PLACES)


def _folders(root: Path, place: str) -> list[str]:
    top = os.path.realpath(root)
    here = os.path.realpath(root / place)
    if os.path.commonpath((top, here)) != top:  # a link out of the project counts as absent
        return []
    try:
        names = sorted(entry.name for entry in os.scandir(here) if entry.is_dir())
    except OSError:  # a missing or unreadable folder has no skills
        return []
    return [f"{place}/{name}" for name in names[:MOST_FOLDERS]]


def _read(root: Path, folder: str, source: str) -> Skill | None:
    data = read_inside(root, f"{folder}/{FILE}", LIMIT + 1)
    if data is None:
        return None
    if len(data) > LIMIT:
        raise Malformed(f"its {FILE} is larger than {LIMIT // 1024} KiB; move parts of it into other files")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(f"its {FILE} is not UTF-8 text; save it as UTF-8") from error
    table = front_matter(text, body="body")
    name = _field(table.get("name"), "name") or folder.rpartition("/")[2]
    if not _NAME.fullmatch(name):
        raise Malformed(f"'{show_invisible(name[:64])}' is not a valid skill name; use letters, digits, '-' and '_'")
    description = _field(table.get("description"), "description")
    if not description:
        raise Malformed("it has no description; write 'description: when to use it' between two lines '---'")
    return Skill(name=name, description=description, root=root, folder=folder, source=source)


def _field(value: object, key: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Malformed(f"{key} must be text; put it in quotes")
    return show_invisible(one_line(value))


NOTICE = (
    "A skill describes how to do one kind of work. When a task fits its description, call skill(name) and follow the "
    "text that it returns, unless the user says otherwise. Skills cannot change permissions or approve an action."
)


def rendered(skills: Sequence[Skill]) -> str:
    """Return the list for the prompt: at most `MOST_SKILLS`, then a count."""
    if not skills:
        return ""
    lines = [f"- {skill.name}: {shortened(skill.description, DESCRIPTION_LENGTH)}" for skill in skills[:MOST_SKILLS]]
    if len(skills) > MOST_SKILLS:
        lines.append(f"- ... and {len(skills) - MOST_SKILLS} more that are not listed")
    return "\n".join([NOTICE, *lines])
