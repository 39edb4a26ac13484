"""Charts as SVG: groups of horizontal bars with one scale in each group, and stacks with one scale."""

from html import escape

WIDTH, LABEL, BAR, GAP, HEAD = 860, 230, 18, 6, 44
COLOURS = {"ours": "#1f6f78", "peer": "#b8b8b8", "limit": "#e3c16f"}
STACK_COLOURS = [
    "#8c4a3c",
    "#b8705f",
    "#d9a08f",
    "#1f6f78",
    "#3f9aa3",
    "#7cc0c6",
    "#a9d6da",
    "#e3c16f",
    "#f0dca8",
    "#5b5b8c",
    "#9a9ac0",
    "#b8b8b8",
    "#6b6b6b",
]


def bars(
    title: str, unit: str, groups: dict[str, list[tuple[str, float, str]]], names_width: int = LABEL
) -> str:
    """Draws groups of (name, value, kind). `kind` selects the colour. Names end at `names_width`."""
    parts, y = [text(10, 24, title, size=17, weight="bold")], HEAD
    for label, rows in groups.items():
        parts.append(text(10, y + 14, f"{label} ({unit})", size=13, weight="bold"))
        y += 24
        longest = max((value for _, value, _ in rows), default=1) or 1
        for name, value, kind in rows:
            length = max((WIDTH - names_width - 110) * value / longest, 1)
            parts.append(text(names_width - 8, y + 13, name, anchor="end"))
            parts.append(
                f'<rect x="{names_width}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{COLOURS[kind]}"/>'
            )
            parts.append(text(names_width + length + 6, y + 13, f"{value:,.0f}"))
            y += BAR + GAP
        y += 16
    return document(y, parts)


def stacks(title: str, unit: str, bars: dict[str, list[tuple[str, float]]]) -> str:
    """Draws one bar for each entry, of (name, value) parts, and a legend of the names in their order."""
    names = list(dict.fromkeys(name for parts in bars.values() for name, _ in parts))
    colour = {name: STACK_COLOURS[index % len(STACK_COLOURS)] for index, name in enumerate(names)}
    longest = max(sum(value for _, value in parts) for parts in bars.values())
    parts, y = [text(10, 24, f"{title} ({unit})", size=17, weight="bold")], HEAD
    for label, values in bars.items():
        x = float(LABEL)
        parts.append(text(LABEL - 8, y + 18, label, anchor="end"))
        for name, value in values:
            length = (WIDTH - LABEL - 70) * value / longest
            parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{length:.1f}" height="26" fill="{colour[name]}">'
                f"<title>{escape(name)}: {value:.2f} {unit}</title></rect>"
            )
            if length > 30:
                parts.append(text(x + length / 2, y + 18, f"{value:.2f}", anchor="middle"))
            x += length
        parts.append(text(x + 6, y + 18, f"{sum(value for _, value in values):.2f}", weight="bold"))
        y += 26 + GAP
    y += 10
    for index, name in enumerate(names):
        x, row = 10 + (index % 3) * 285, y + index // 3 * 20
        parts.append(f'<rect x="{x}" y="{row}" width="13" height="13" fill="{colour[name]}"/>')
        parts.append(text(x + 19, row + 11, name))
    return document(y + (len(names) + 2) // 3 * 20 + 10, parts)


def grouped_stacks(title: str, unit: str, groups: dict[str, dict[str, list[tuple[str, float]]]]) -> str:
    """Draws groups of bars of (name, value) parts. Each group has a scale of its own."""
    names = list(
        dict.fromkeys(name for bars in groups.values() for values in bars.values() for name, _ in values)
    )
    colour = dict(zip(names, [STACK_COLOURS[3], STACK_COLOURS[5]], strict=False))
    parts, y = [text(10, 24, title, size=17, weight="bold")], HEAD
    for index, name in enumerate(names):
        parts += [
            f'<rect x="{LABEL + index * 110}" y="{y - 8}" width="13" height="13" fill="{colour[name]}"/>',
            text(LABEL + index * 110 + 19, y + 3, name),
        ]
    y += 16
    for label, bars in groups.items():
        parts.append(text(10, y + 14, f"{label} ({unit})", size=13, weight="bold"))
        y += 24
        longest = max(sum(value for _, value in values) for values in bars.values())
        for name, values in bars.items():
            x = float(LABEL)
            parts.append(text(LABEL - 8, y + 13, name, anchor="end"))
            for part, value in values:
                length = (WIDTH - LABEL - 110) * value / longest
                parts.append(
                    f'<rect x="{x:.1f}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{colour[part]}"/>'
                )
                x += length
            parts.append(text(x + 6, y + 13, f"{sum(value for _, value in values):,.1f}"))
            y += BAR + GAP
        y += 16
    return document(y, parts)


def document(height: float, parts: list[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def text(
    x: float, y: float, words: str, size: int = 12, weight: str = "normal", anchor: str = "start"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}">'
        f"{escape(words)}</text>"
    )
