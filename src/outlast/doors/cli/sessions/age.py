"""Times as people read them."""

from datetime import UTC, datetime

_STEPS = ((60, "s", 1), (3600, "min", 60), (86_400, "h", 3600), (86_400 * 60, "d", 86_400))


def age(at: int, now: int) -> str:
    """How long ago, roughly; `at` and `now` are microseconds UTC."""
    seconds = max(0, (now - at) // 1_000_000)
    for limit, unit, size in _STEPS:
        if seconds < limit:
            return f"{seconds // size} {unit} ago"
    return day(at)


def day(at: int) -> str:
    return _moment(at).strftime("%Y-%m-%d")


def moment(at: int) -> str:
    """To the second, UTC."""
    return _moment(at).strftime("%Y-%m-%d %H:%M:%S UTC")


def _moment(at: int) -> datetime:
    try:
        return datetime.fromtimestamp(at / 1_000_000, UTC)
    except (ValueError, OverflowError, OSError):  # a writer's clock may have been anywhere
        return datetime.fromtimestamp(0, UTC)
