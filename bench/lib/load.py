"""Load from common generators. The output of each generator is read into the same figures."""

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
    """The results of one run. Latencies are in microseconds."""

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
    """The requests of a run: the path, the number of connections, the depth of the pipeline, the body."""

    path: str
    connections: int = 64
    depth: int = 1
    body: bytes | None = None
    scheme: str = "http"

    #: Debian's packages of the generator.
    packages = ()
    #: The command that runs the generator on its core.
    run_by = ["taskset", "-c", LOAD_CORE]
    host = "127.0.0.1"

    def run(self, port: int, seconds: float) -> Figures:
        raise NotImplementedError

    def url(self, port: int) -> str:
        return f"{self.scheme}://{self.host}:{port}{self.path}"


class Wrk(Load):
    """wrk: a closed loop, which sends fewer requests to a slow server (coordinated omission).

    The latency of a pipeline is the latency of its last reply.
    """

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
        return wrk_figures(output)


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
            return ab_figures(output, table.read())


@dataclass(frozen=True)
class Oha(Load):
    """oha at a fixed rate: latency counts from the due time of a request (coordinated omission corrected)."""

    generator = "oha"
    program = ROOT / "target/bench/oha/bin/oha"
    #: The command that installs oha, without its last argument, the folder.
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
        return oha_figures(output)


def wrk_figures(output: str) -> Figures:
    """Reads the line that `peers/wrk.lua` prints."""
    match = re.search(r"RESULT (.*)", output)
    if match is None:
        raise ValueError(f"wrk printed no line of results: {output[-500:]!r}")
    result = json.loads(match[1])
    latencies = (result[key] for key in ("p50_us", "p99_us", "p999_us"))
    return Figures(result["requests"], result["duration_us"] / 1e6, *latencies, result["errors"])


def ab_figures(output: str, table: str) -> Figures:
    """Reads the output of ab, and its table of percentiles in milliseconds.

    The longest time is used as p99.9, which ab does not print.
    """
    percentiles = {int(row[0]): float(row[1]) * 1000 for row in list(csv.reader(table.splitlines()))[1:]}
    not_2xx = re.search(r"Non-2xx responses:\s+(\d+)", output)
    return Figures(
        requests=int(ab_number("Complete requests", output)),
        seconds=ab_number("Time taken for tests", output),
        p50_us=percentiles[50],
        p99_us=percentiles[99],
        p999_us=max(percentiles.values()),
        errors=int(ab_number("Failed requests", output)) + (int(not_2xx[1]) if not_2xx else 0),
    )


def ab_number(label: str, output: str) -> float:
    match = re.search(rf"^{label}:\s+([\d.]+)", output, re.MULTILINE)
    if match is None:
        raise ValueError(f"ab printed no {label!r}: {output[-500:]!r}")
    return float(match[1])


def oha_figures(output: str) -> Figures:
    """Reads the JSON that oha prints. Statuses other than 2xx are errors."""
    result = json.loads(output)
    latency = result["latencyPercentiles"]
    statuses = result["statusCodeDistribution"]
    return Figures(
        requests=sum(statuses.values()),
        seconds=result["summary"]["total"],
        p50_us=latency["p50"] * 1e6,
        p99_us=latency["p99"] * 1e6,
        p999_us=latency["p99.9"] * 1e6,
        errors=sum(count for status, count in statuses.items() if not status.startswith("2")),
    )


def run(command: list[str]) -> str:
    result = subprocess.run([*Load.run_by, *command], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{Path(command[0]).name} failed: {result.stdout[-500:]}{result.stderr[-500:]}")
    return result.stdout
