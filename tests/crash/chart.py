"""A run as a picture: faults as they came, turns that ended meanwhile, turns that were taken over. Plain SVG."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tests.crash.laboratory import Outcome

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900, 320, 60, 60, 40, 46
BUCKETS = 60
FAULTS, ANSWERED, TAKEN, INK, GRID = "#8d6bb8", "#2e7d5b", "#b3602a", "#3a4653", "#d8dee6"
STYLE = "font-family: system-ui, sans-serif; font-size: 13px"

Points = Sequence[tuple[float, float]]


def chart(outcome: Outcome) -> str:
    """Bars: faults that began in that piece of time. Lines: answered turns and take-overs so far."""
    entries = outcome.diary.entries
    whole = max((entry.at for entry in entries), default=1.0) or 1.0
    answered = [(entry.at, float(entry.facts["ended"])) for entry in entries if entry.what == "progress"]
    faults = Counter(min(BUCKETS - 1, int(entry.at / whole * BUCKETS)) for entry in entries if entry.what == "fault")
    taken = _take_overs(outcome)
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="A run" style="{STYLE}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="22" fill="{FAULTS}">bars: faults that began</text>',
        f'<text x="{LEFT + 220}" y="22" fill="{ANSWERED}">line: turns ended, in all</text>',
        f'<text x="{LEFT + 440}" y="22" fill="{TAKEN}">line: turns taken over, in all</text>',
        *_bars(faults),
        *_axis(whole),
        *_line(answered, whole, ANSWERED, LEFT - 6, "end"),
        *_line(taken, whole, TAKEN, WIDTH - RIGHT + 6, "start"),
    ]
    return "\n".join([*parts, "</svg>", ""])


def _take_overs(outcome: Outcome) -> list[tuple[float, float]]:
    """When a client first heard of each, counted up."""
    seen: dict[tuple[str, int], float] = {}
    for log in outcome.evidence.logs:
        for heard in log.heard:
            if heard.kind == "RuntimeStateChanged" and "turn_recovered" in str(heard.body):
                place = (log.session_id, heard.seq)
                seen[place] = min(heard.when, seen.get(place, heard.when))
    return [(at, float(n + 1)) for n, at in enumerate(sorted(seen.values()))]


def _bars(faults: Counter[int]) -> Iterator[str]:
    most, width = max(faults.values(), default=1), (WIDTH - LEFT - RIGHT) / BUCKETS
    for bucket, count in sorted(faults.items()):
        high = count / most * (HEIGHT - TOP - BOTTOM) * 0.4
        place = f'x="{LEFT + bucket * width:.1f}" y="{HEIGHT - BOTTOM - high:.1f}"'
        yield f'<rect {place} width="{width * 0.8:.1f}" height="{high:.1f}" fill="{FAULTS}" opacity="0.5"/>'


def _line(points: Points, whole: float, colour: str, label: float, anchor: str) -> Iterator[str]:
    top = max((value for _, value in points), default=1.0)
    across, up = (WIDTH - LEFT - RIGHT) / whole, (HEIGHT - TOP - BOTTOM) / top
    placed = " ".join(f"{LEFT + at * across:.1f},{HEIGHT - BOTTOM - value * up:.1f}" for at, value in points)
    yield f'<polyline points="{placed}" fill="none" stroke="{colour}" stroke-width="2"/>'
    yield f'<text x="{label}" y="{TOP + 5}" text-anchor="{anchor}" fill="{colour}">{top:.0f}</text>'


def _axis(whole: float) -> Iterator[str]:
    floor = HEIGHT - BOTTOM
    yield f'<line x1="{LEFT}" y1="{floor}" x2="{WIDTH - RIGHT}" y2="{floor}" stroke="{GRID}"/>'
    for n in range(7):
        x = LEFT + n / 6 * (WIDTH - LEFT - RIGHT)
        yield f'<text x="{x:.0f}" y="{floor + 18}" text-anchor="middle" fill="{INK}">{whole * n / 6 / 60:.1f}</text>'
    yield f'<text x="{WIDTH / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle" fill="{INK}">minutes</text>'
