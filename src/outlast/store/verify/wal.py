"""Finds commits in a SQLite write-ahead log that SQLite would silently drop when it next opens the database.

SQLite's recovery ends at the first frame that does not verify and leaves a consistent database, so the loss is
invisible through a connection. Therefore the log is read as a file, independently of the database.
"""

from __future__ import annotations

from outlast.core.errors import OutlastError
from outlast.store import place_of
from outlast.store.verify.report import DamageKind, Finding

LOOKS = 3


def log_findings(url: str) -> list[Finding]:
    """Problems of the store's write-ahead log; empty if it has none."""
    scheme, path = place_of(url)
    if scheme != "sqlite" or path is None:
        return []
    from outlast.store.sqlite.wal import examine_elsewhere

    log = path.resolve().with_name(path.resolve().name + "-wal")
    if not log.exists() or not log.stat().st_size:
        return []
    try:
        looks = [examine_elsewhere(log)]
        # A frame that is just being written looks damaged too; only repeated looks tell the difference.
        while looks[-1].lost_commits and len(looks) < LOOKS:
            looks.append(examine_elsewhere(log))
    except OutlastError as error:
        return [Finding(what=DamageKind.STORE, text=str(error))]
    if not looks[-1].lost_commits or len({wal.recovered for wal in looks}) > 1:
        return []
    text = (
        f"{looks[-1].lost_commits} commits lie after a damaged frame of {log.name}, and the next write drops them; "
        "stop every Outlast and copy the database and its log aside, then restore a backup"
    )
    return [Finding(what=DamageKind.STORE, text=text)]
