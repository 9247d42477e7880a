"""The user's consent to files a project brings along, bound to the exact content that was shown.

A repository is third-party text: its allow rules and hooks take effect only after the user has consented to this file,
at this path, with these bytes. If the content changes, the user is asked again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from outlast.core.errors import ConfigError
from outlast.runtime.private_file import Table, read_json, update_locked


def content_digest(*contents: bytes) -> str:
    """SHA-256 over all contents, each prefixed with its length so that bytes cannot shift from one to the next."""
    hashed = hashlib.sha256()
    for content in contents:
        hashed.update(len(content).to_bytes(8, "big") + content)
    return hashed.hexdigest()


class Consents:
    """The user's consents, in `$OUTLAST_HOME/consents.json`: digests, keyed by the file they were given for."""

    def __init__(self, home: Path) -> None:
        self.path = home / "consents.json"

    def covers(self, path: Path, digest: str) -> bool:
        table = read_json(self.path)
        return table is not None and digest in self._digests(table, os.path.realpath(path))

    def give(self, path: Path, digest: str) -> None:
        """Consent to this content of this file only; replaces an earlier consent for the file."""
        real = os.path.realpath(path)
        update_locked(self.path, lambda table: {**table, real: [digest]})

    def withdraw(self, path: Path) -> None:
        real = os.path.realpath(path)
        update_locked(self.path, lambda table: {name: value for name, value in table.items() if name != real})

    def _digests(self, table: Table, real: str) -> Sequence[str]:
        found = table.get(real, [])
        if not isinstance(found, list) or not all(isinstance(one, str) for one in cast("list[object]", found)):
            raise ConfigError(
                f"{self.path}: the entry '{real}' must be a list of digests; correct it or remove the file"
            )
        return cast("list[str]", found)
