"""The kernel's table of file locks: what a process really holds, whatever it believes."""

from pathlib import Path

TABLE = Path("/proc/locks")


def locks_of(pid: int) -> list[tuple[str, ...]]:
    """The POSIX locks of a process: kind, inode, range. SQLite's are of this sort; closing a file drops them all."""
    rows = [line.split() for line in TABLE.read_text().splitlines()]
    held = [row for row in rows if len(row) >= 8 and row[1] == "POSIX" and row[4] == str(pid)]
    return sorted((row[3], row[5], row[6], row[7]) for row in held)
