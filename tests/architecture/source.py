"""The project's own files, parsed once for all architecture tests."""

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tests.conftest import ROOT, needs

PACKAGE = ROOT / "src" / "outlast"


@dataclass(frozen=True)
class Module:
    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Parsed when it is first looked at: some tests look at a few modules only."""
        return ast.parse(self.text, str(self.path))

    @property
    def where(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def name(self) -> str:
        parts = self.path.relative_to(ROOT / "src").with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def is_in(self, *packages: str) -> bool:
        return any(self.name == package or self.name.startswith(f"{package}.") for package in packages)

    def imports(self) -> Iterator[tuple[int, str]]:
        """Every imported dotted name with its line; `from a import b` gives `a.b`."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def _parse(folder: Path) -> tuple[Module, ...]:
    paths = sorted(folder.rglob("*.py")) if folder.is_dir() else []
    return tuple(Module(path, path.read_text(encoding="utf-8")) for path in paths)


@cache
def modules() -> tuple[Module, ...]:
    return _parse(PACKAGE)


@cache
def all_python() -> tuple[Module, ...]:
    return (*modules(), *_parse(ROOT / "tests"), *_parse(ROOT / "bench"))


@cache
def project_files() -> tuple[Path, ...]:
    """What git tracks or would track: ignored files are nobody's business."""
    command = [needs("git"), "-c", "safe.directory=*", "ls-files", "-z", "-co", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=30).stdout.decode()
    return tuple(path for name in listed.split("\0") if name and (path := ROOT / name).is_file())


def dotted(node: ast.expr) -> str:
    """`a.b.c` for a chain of names, else an empty string."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        left = dotted(node.value)
        return f"{left}.{node.attr}" if left else ""
    return ""
