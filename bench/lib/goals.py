"""The goals of the design, and whether a run met them: ratios of requests per second or of processor time.

A ratio compares two rows of the same round. A goal is met when at least one round reaches it.
"""

from dataclasses import dataclass

from lib.paired import Share, range_of

PIPELINED, ONE, TEN, PLAIN = "pipelined 16 deep", "1 connection", "10 connections", "64 connections"
NGINX, LIGHTTPD, BARE, SYNC = (
    "nginx + Lua",
    "lighttpd + mod_magnet",
    "bare epoll loop",
    "bare write + fdatasync loop",
)
WRITTEN, SYNCED = "tollgate, written", "tollgate, synced"
RATE, CPU = "requests/s", "CPU per request"


@dataclass(frozen=True)
class Goal:
    """A comparison of `ours` with `other` under one load of one case.

    `goal` is the lowest share of a rate, or the highest share of a cost.
    """

    ours: str
    load: str
    measure: str
    goal: float
    other: str
    case: str = "recorded"

    def share(self, rows) -> Share | None:
        found = {row.server.name: row for row in rows if row.load == self.load}
        if self.ours not in found or self.other not in found:
            return None
        ours, other = found[self.ours], found[self.other]
        if self.measure == RATE:
            return range_of(ours.rates, other.rates)
        cpu_us = lambda turn: turn.cpu_us
        return range_of(ours.each(cpu_us), other.each(cpu_us))

    def is_met(self, share: Share) -> bool:
        return round(share.high, 2) >= self.goal if self.measure == RATE else round(share.low, 2) <= self.goal


GOALS = [
    *(Goal(WRITTEN, load, RATE, 0.95, NGINX) for load in (ONE, TEN, PLAIN)),
    *(Goal(WRITTEN, load, CPU, 1, NGINX) for load in (ONE, TEN, PLAIN)),
    Goal(WRITTEN, PLAIN, CPU, 1.5, BARE),
    Goal(SYNCED, ONE, RATE, 0.95, SYNC),
    Goal(SYNCED, TEN, RATE, 1.5, f"before: {SYNCED}"),
    Goal(SYNCED, PLAIN, RATE, 1, LIGHTTPD),
    Goal(WRITTEN, PIPELINED, RATE, 4, NGINX),
    Goal(WRITTEN, PIPELINED, RATE, 6, LIGHTTPD),
    Goal(SYNCED, PIPELINED, RATE, 3, NGINX),
]


def section(results) -> str:
    lines = []
    for goal in GOALS:
        share = goal.share(results[goal.case][1]) if goal.case in results else None
        if share is not None:
            bound = "at least" if goal.measure == RATE else "at most"
            verdict = "met" if goal.is_met(share) else "**missed**"
            lines.append(
                f"| {goal.ours}, {goal.load} | {goal.measure} | {goal.other} | {bound} "
                f"{goal.goal:g} | {share} | {verdict} |"
            )
    if not lines:
        return ""
    columns = (
        "| scripted reply with its record | measure | against | goal | this run (lowest to highest round) | |"
    )
    return "\n".join(["## Goals", "", columns, "| --- | --- | --- | --- | --- | --- |", *lines, ""])
