"""Bar charts as SVG: one group of horizontal bars for each load, all to one scale within the group."""

from html import escape

WIDTH, LABEL, BAR, GAP, HEAD = 860, 230, 18, 6, 44
COLOURS = {"ours": "#1f6f78", "peer": "#b8b8b8", "limit": "#e3c16f"}


def bars(title: str, unit: str, groups: dict[str, list[tuple[str, float, str]]]) -> str:
    """Draws groups of (name, value, kind); `kind` picks the colour."""
    parts, y = [text(10, 24, title, size=17, weight="bold")], HEAD
    for label, rows in groups.items():
        parts.append(text(10, y + 14, f"{label} ({unit})", size=13, weight="bold"))
        y += 24
        longest = max((value for _, value, _ in rows), default=1) or 1
        for name, value, kind in rows:
            length = max((WIDTH - LABEL - 110) * value / longest, 1)
            parts.append(text(LABEL - 8, y + 13, name, anchor="end"))
            parts.append(f'<rect x="{LABEL}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{COLOURS[kind]}"/>')
            parts.append(text(LABEL + length + 6, y + 13, f"{value:,.0f}"))
            y += BAR + GAP
        y += 16
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}" '
        f'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def text(x: float, y: float, words: str, size: int = 12, weight: str = "normal", anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}">{escape(words)}</text>'
    )
