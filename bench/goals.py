"""What the design asks for, and what this run gave: requests a second, or processor time per request, as ratios."""

from dataclasses import dataclass

PIPELINED, PLAIN = "pipelined 16 deep", "64 connections"
NGINX, LIGHTTPD, BARE = "nginx + Lua", "lighttpd + mod_magnet", "bare epoll loop"
RATE, CPU = "requests/s", "CPU per request"


@dataclass(frozen=True)
class Goal:
    """`ours` against `other` under one load of one case. The ratio is at least `goal`; of processor time, at most."""

    ours: str
    load: str
    measure: str
    goal: float
    other: str
    case: str = "recorded"

    def ratio(self, rows) -> float | None:
        found = {row.server.name: row for row in rows if row.load == self.load}
        if self.ours not in found or self.other not in found:
            return None
        ours, other = found[self.ours], found[self.other]
        return ours.rate / other.rate if self.measure == RATE else ours.cpu_us / other.cpu_us

    def is_met(self, ratio: float) -> bool:
        return round(ratio, 2) >= self.goal if self.measure == RATE else round(ratio, 2) <= self.goal


GOALS = [
    Goal("tollgate, written", PIPELINED, RATE, 4, NGINX),
    Goal("tollgate, written", PIPELINED, RATE, 6, LIGHTTPD),
    Goal("tollgate, synced", PIPELINED, RATE, 2.5, NGINX),
    Goal("tollgate, written", PLAIN, CPU, 1, NGINX),
    Goal("tollgate, written", PLAIN, CPU, 1.5, BARE),
    Goal("tollgate, synced", PLAIN, RATE, 1, LIGHTTPD),
]


def section(results) -> str:
    lines = []
    for goal in GOALS:
        ratio = goal.ratio(results[goal.case][1]) if goal.case in results else None
        if ratio is not None:
            bound = "at least" if goal.measure == RATE else "at most"
            verdict = "met" if goal.is_met(ratio) else "**missed**"
            lines.append(f"| {goal.ours}, {goal.load} | {goal.measure} | {goal.other} | {bound} {goal.goal:g}x | {ratio:.2f}x | {verdict} |")
    if not lines:
        return ""
    columns = "| scripted reply with its record | measure | against | goal | this run | |"
    return "\n".join(["## Goals", "", columns, "| --- | --- | --- | --- | --- | --- |", *lines, ""])
