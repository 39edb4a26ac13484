"""A client that behaves well among clients that do not. Latency counts from the due time of a request."""

import subprocess
import sys

from lib.servers import LOAD_CORE, built

PROBES_S = 1000
CONNECTIONS = 8


class Neighbour:
    """The client `bench/peers/neighbour.c`, which sends requests at random moments.

    No other process can make this client wait. Needs gcc.
    """

    def __init__(self, port: int, seconds: float, path: str):
        command = [
            "taskset",
            "-c",
            LOAD_CORE,
            built("neighbour", "-lm"),
            port,
            path,
            CONNECTIONS,
            PROBES_S,
            seconds,
        ]
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)

    def result(self) -> tuple[list[float], int]:
        """Returns the milliseconds of each 200 reply, in order, and the number of other replies."""
        others, *took = self.process.communicate()[0].split() or ["0"]
        if not took:
            sys.exit("the neighbour was not answered with 200")
        return sorted(map(float, took)), int(others)
