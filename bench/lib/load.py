"""Load from the generators that people use, each run read into the same figures."""

import csv
import json
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lib.servers import LOAD_CORE, PEERS, ROOT


@dataclass
class Figures:
    """What one run came to. Latencies in microseconds."""

    requests: int
    seconds: float
    p50_us: float
    p99_us: float
    p999_us: float
    errors: int

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


@dataclass(frozen=True)
class Load:
    """What is sent: where to, how many connections, how deep the pipeline, what body."""

    path: str
    connections: int = 64
    depth: int = 1
    body: bytes | None = None

    #: Debian's packages that the generator comes in.
    packages = ()
    #: What the generator is run by, and where it finds the server.
    run_by = ["taskset", "-c", LOAD_CORE]
    host = "127.0.0.1"

    def run(self, port: int, seconds: float) -> Figures:
        raise NotImplementedError

    def url(self, port: int) -> str:
        return f"http://{self.host}:{port}{self.path}"


class Wrk(Load):
    """wrk: a closed loop, so a slow server is asked less (coordinated omission). A pipeline's latency is that of its last reply."""

    generator = "wrk"
    packages = ("wrk",)

    def run(self, port, seconds):
        with tempfile.NamedTemporaryFile() as body:
            arguments = [str(self.connections), str(self.depth)]
            if self.body is not None:
                body.write(self.body)
                body.flush()
                arguments.append(body.name)
            output = run(
                [
                    "wrk",
                    "-t1",
                    f"-c{self.connections}",
                    f"-d{max(1, round(seconds))}s",
                    "--timeout",
                    "10s",
                    "-s",
                    str(PEERS / "wrk.lua"),
                    self.url(port),
                    "--",
                    *arguments,
                ]
            )
        result = json.loads(re.search(r"RESULT (.*)", output)[1])
        return Figures(
            result["requests"],
            result["duration_us"] / 1e6,
            result["p50_us"],
            result["p99_us"],
            result["p999_us"],
            result["errors"],
        )


class Ab(Load):
    """ab: a connection for each request."""

    generator = "ab"
    packages = ("apache2-utils",)

    def run(self, port, seconds):
        with tempfile.NamedTemporaryFile("r") as table:
            output = run(
                [
                    "ab",
                    "-q",
                    "-r",
                    "-s",
                    "10",
                    "-c",
                    str(self.connections),
                    "-t",
                    str(max(1, round(seconds))),
                    "-n",
                    "10000000",
                    "-e",
                    table.name,
                    self.url(port),
                ]
            )
            rows = list(csv.reader(table))[1:]
        percentiles = {int(row[0]): float(row[1]) * 1000 for row in rows}
        number = lambda label: float(re.search(rf"{label}:\s+([\d.]+)", output)[1])
        requests, seconds = int(number("Complete requests")), number("Time taken for tests")
        refused = re.search(r"Non-2xx responses:\s+(\d+)", output)
        errors = int(number("Failed requests")) + (int(refused[1]) if refused else 0)
        return Figures(requests, seconds, percentiles[50], percentiles[99], max(percentiles.values()), errors)


@dataclass(frozen=True)
class Oha(Load):
    """oha at a fixed rate: latency counts from when a request was due (coordinated omission corrected)."""

    generator = "oha"
    program = ROOT / "target/bench/oha/bin/oha"
    #: Followed by the folder to install into.
    install = [
        "cargo",
        "install",
        "oha",
        "--locked",
        "--no-default-features",
        "--features",
        "rustls",
        "--root",
    ]
    rate_per_s: int = 20_000

    def run(self, port, seconds):
        output = run(
            [
                str(self.program),
                "--no-tui",
                "--output-format",
                "json",
                "-z",
                f"{max(1, round(seconds))}s",
                "-c",
                str(self.connections),
                "-q",
                str(self.rate_per_s),
                "--latency-correction",
                self.url(port),
            ]
        )
        result = json.loads(output)
        latency = result["latencyPercentiles"]
        requests = sum(result["statusCodeDistribution"].values())
        errors = sum(
            count for status, count in result["statusCodeDistribution"].items() if not status.startswith("2")
        )
        return Figures(
            requests,
            result["summary"]["total"],
            latency["p50"] * 1e6,
            latency["p99"] * 1e6,
            latency["p99.9"] * 1e6,
            errors,
        )


def run(command: list[str]) -> str:
    result = subprocess.run([*Load.run_by, *command], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{Path(command[0]).name} failed: {result.stdout[-500:]}{result.stderr[-500:]}")
    return result.stdout
