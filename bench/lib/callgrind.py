"""Counts of instructions in the output of callgrind."""

import re


def total_of_dump(text: str) -> int:
    """Returns the instructions in a file of counts, which `callgrind_control --dump` causes."""
    return int(found(r"^totals: (\d+)", text))


def is_of_worker(text: str) -> bool:
    """Returns whether a file of counts of one thread belongs to a worker: only workers serve connections."""
    return "tollgate_server::conn::" in text


def total_of_run(text: str) -> int:
    """Returns the instructions of a whole run, from the messages that callgrind writes at its end."""
    return int(found(r"^==\d+== Collected : (\d+)", text))


def found(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise ValueError(f"callgrind wrote no line like {pattern!r}: {text[-500:]!r}")
    return match[1]
