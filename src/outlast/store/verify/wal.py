"""Commits in a SQLite store's write-ahead log that the next opening would drop without a word.

Recovery ends at the first frame that does not verify, and what it leaves is perfectly consistent: nobody who has opened
the database can know. So the log is looked at as a file, before and beside the database.
"""

from __future__ import annotations

from outlast.core.errors import OutlastError
from outlast.store import place_of
from outlast.store.verify.report import DamageKind, Finding

LOOKS = 3


def log_findings(url: str) -> list[Finding]:
    """What is wrong with the log of this store; nothing, where it has none."""
    scheme, path = place_of(url)
    if scheme != "sqlite" or path is None:
        return []
    from outlast.store.sqlite.wal import examine_elsewhere

    log = path.resolve().with_name(path.resolve().name + "-wal")
    if not log.exists() or not log.stat().st_size:
        return []
    try:
        looks = [examine_elsewhere(log)]
        # A frame that is being written looks damaged too; only one that stays so is.
        while looks[-1].lost_commits and len(looks) < LOOKS:
            looks.append(examine_elsewhere(log))
    except OutlastError as error:
        return [Finding(what=DamageKind.STORE, text=str(error))]
    if not looks[-1].lost_commits or len({wal.recovered for wal in looks}) > 1:
        return []
    text = (
        f"{looks[-1].lost_commits} commits lie behind a damaged frame of {log.name}, and the next write drops them; "
        "stop every Outlast and copy the database and its log aside, then restore a backup"
    )
    return [Finding(what=DamageKind.STORE, text=text)]
