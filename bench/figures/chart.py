"""The ratios as a picture: one bar a figure, a mark where its goal is. Plain SVG, written here."""

from __future__ import annotations

from html import escape

from bench.figures.figure import TIMES, Figure

WIDTH, LEFT, RIGHT, ROW, TOP = 900, 400, 70, 26, 46
REACHED, MISSED, TOLD, MARK, INK, GRID = "#2e7d5b", "#b3402a", "#6b7a8f", "#1c2733", "#3a4653", "#d8dee6"
STYLE = "font-family: system-ui, sans-serif; font-size: 13px"


def chart(figures: list[Figure]) -> str:
    shown = [figure for figure in figures if figure.unit == TIMES]
    most = max((max(figure.value, figure.goal or 0) for figure in shown), default=1.0)
    scale = (WIDTH - LEFT - RIGHT) / (most * 1.02)
    height = TOP + ROW * len(shown) + 34
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="Ratios, with goals" style="{STYLE}">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="10" y="24" fill="{INK}" font-weight="600">Times the limit it is compared with</text>',
        *_grid(most, scale, height),
    ]
    for number, figure in enumerate(shown):
        parts += _bar(figure, TOP + ROW * number, scale)
    return "\n".join([*parts, _legend(height), "</svg>", ""])


def _grid(most: float, scale: float, height: int) -> list[str]:
    step = 0.5 if most <= 4 else 1.0 if most <= 10 else 5.0
    lines: list[str] = []
    for number in range(int(most / step) + 1):
        at = LEFT + number * step * scale
        lines.append(f'<line x1="{at:.1f}" y1="{TOP - 6}" x2="{at:.1f}" y2="{height - 30}" stroke="{GRID}"/>')
        lines.append(f'<text x="{at:.1f}" y="{TOP - 10}" fill="{TOLD}" text-anchor="middle">{number * step:g}</text>')
    return lines


def _bar(figure: Figure, top: int, scale: float) -> list[str]:
    colour = TOLD if figure.goal is None else REACHED if figure.reached else MISSED
    length = figure.value * scale
    middle = top + ROW / 2 + 4
    title = escape(figure.title.replace("`", ""))
    parts = [
        f'<text x="{LEFT - 10}" y="{middle:.1f}" fill="{INK}" text-anchor="end">{title}</text>',
        f'<rect x="{LEFT}" y="{top + 5}" width="{length:.1f}" height="{ROW - 10}" rx="2" fill="{colour}"/>',
        f'<text x="{LEFT + length + 8:.1f}" y="{middle:.1f}" fill="{INK}">{figure.value:.2f}</text>',
    ]
    if figure.goal is not None:
        at = LEFT + figure.goal * scale
        # The flag points to the side on which the goal is reached.
        flag = 5 if figure.at_least else -5
        parts.append(
            f'<path d="M{at:.1f} {top + 1} V{top + ROW - 1} M{at:.1f} {top + 1} l{flag} 4 l{-flag} 4" '
            f'fill="{MARK}" stroke="{MARK}" stroke-width="2"/>'
        )
    return parts


def _legend(height: int) -> str:
    text = "mark: the goal, its flag on the side where it is reached; green: reached, red: missed, grey: no goal"
    return f'<text x="10" y="{height - 10}" fill="{TOLD}">{text}</text>'
