"""The list of methods as XML, by Tollgate and by Tomcat with Woodstox: `bench/study.py pox`.

Tollgate serves `examples/catalogue`, from its template and from tables of elements, with a synced record
for each request. Tomcat writes the same document by Woodstox, and a buffered line of its access log. The
study checks that both documents are equal as XML. Tomcat warms for fifteen seconds in each round. Its first
two seconds have a line of their own. The figure is the processor time of the server for each request.
Ratios are medians of the rounds, with the lowest and the highest value. Needs Maven, Java and wrk.
"""

import argparse
import os
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from statistics import median

from lib.load import Wrk
from lib.packages import install_packages, tell
from lib.paired import range_of
from lib.report import machine
from lib.servers import PEERS, ROOT, Server, Tollgate, first_line

PEER = PEERS / "pox"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
JARS = TARGET / "tools/tomcat-10.1.48"
FIRST_S = 2
LOADS = {"64 connections": 1, "pipelined 16 deep": 16}
#: The highest processor time beside a warm Tomcat, by the way of writing and the load.
GOALS = {
    ("template", "64 connections"): 0.42,
    ("template", "pipelined 16 deep"): 0.25,
    ("tables", "64 connections"): 1.0,
}


class Catalogue(Tollgate):
    """Tollgate with the example, and with a second route for tables of elements."""

    def prepare(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(ROOT / "examples/catalogue", self.folder, ignore=shutil.ignore_patterns("data"))
        shutil.copy(PEER / "tables.luau", self.folder / "routes/tables.luau")
        file = self.folder / "tollgate.toml"
        example = file.read_text()
        settings = f'listen = ["{self.host}:{self.port}"]\nworkers = 1'
        configuration = example.replace('listen = ["127.0.0.1:8080"]', settings)
        if configuration == example:
            raise RuntimeError("the address of examples/catalogue is not where it was")
        file.write_text(f"{configuration}\n{FURTHER_ROUTES}")


FURTHER_ROUTES = """
[[route]]
path = "/fixed"
reply = { status = 200, body = "hello, world\\n" }

[[route]]
path = "/tables"
script = "routes/tables.luau"
stream = "lists"
"""


class Tomcat(Server):
    name = "Tomcat 10 with Woodstox"
    port = 8219
    packages = ("default-jdk-headless", "maven")

    def command(self):
        return ["java", "-cp", f"{JARS}/*:{JARS}", "Pox", str(self.port), str(self.folder), str(self.methods)]

    @property
    def methods(self) -> Path:
        return self.folder.parent / "methods.tsv"

    def version(self):
        return first_line(["java", "-version"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--warm", type=float, default=15, help="seconds that Tomcat warms in each round")
    arguments = parser.parse_args()
    install_packages({*Tomcat.packages, *Wrk.packages})
    install_tomcat()
    tell(machine())
    with tempfile.TemporaryDirectory(prefix="tollgate-pox-") as name:
        folder = Path(name)
        same_document(folder)
        rounds = [one_round(folder, arguments) for _ in range(arguments.rounds)]
    print_first(rounds)
    print_ratios(rounds)


def install_tomcat():
    """Fetches the jars of Tomcat and Woodstox, and compiles the servlet."""
    if (JARS / "Pox.class").exists():
        return
    copy = ["mvn", "-q", "-B", "-f", PEER / "pom.xml", "dependency:copy-dependencies"]
    subprocess.run([*copy, f"-DoutputDirectory={JARS}"], check=True)
    subprocess.run(["javac", "-cp", f"{JARS}/*", "-d", JARS, PEER / "Pox.java"], check=True)


def same_document(folder: Path):
    """Gives Tomcat the methods that Tollgate lists. Checks that the three documents are equal as XML."""
    ours = Catalogue(folder / "tollgate")
    ours.start()
    try:
        template, tables = (ours.ask("GET", path)[1] for path in ("/methods", "/tables"))
    finally:
        ours.stop()
    peer = Tomcat(folder / "tomcat")
    peer.methods.write_text(as_lines(template))
    peer.start()
    try:
        theirs = peer.ask("GET", "/methods")[1]
    finally:
        peer.stop()
    documents = {ElementTree.canonicalize(text.decode()) for text in (template, tables, theirs)}
    if len(documents) != 1:
        raise RuntimeError("the documents differ:\n" + "\n".join(documents))
    tell(f"bytes: template {len(template)}, tables {len(tables)}, Tomcat {len(theirs)}")


def as_lines(document: bytes) -> str:
    """Returns one line for each method of a document."""
    lines = []
    for method in ElementTree.fromstring(document):
        words = [method.get("name"), method.find("description").text]
        for arg in method.findall("arg"):
            words += [arg.get("name"), arg.get("type")]
        lines.append("\t".join(words))
    return "\n".join(lines) + "\n"


def one_round(folder: Path, arguments) -> dict:
    """Returns requests per second and microseconds of each server and load, and of Tomcat's first seconds."""
    peer, ours = Tomcat(folder / "tomcat"), Catalogue(folder / "tollgate")
    found = {}
    peer.start()
    try:
        found["first"] = speed(peer, "/methods", 1, FIRST_S)
        Wrk("/methods").run(peer.port, arguments.warm - FIRST_S)
        for load, depth in LOADS.items():
            found["Tomcat", load] = speed(peer, "/methods", depth, arguments.seconds)
    finally:
        peer.stop()
    ours.start()
    try:
        for way, path in {"template": "/methods", "tables": "/tables"}.items():
            Wrk(path).run(ours.port, 1)
            for load, depth in LOADS.items():
                found[way, load] = speed(ours, path, depth, arguments.seconds)
    finally:
        ours.stop()
    return found


def speed(server: Server, path: str, depth: int, seconds: float) -> tuple[float, float]:
    before = server.cpu_s()
    figures = Wrk(path, depth=depth).run(server.port, seconds)
    if figures.errors:
        raise RuntimeError(f"{server.name}: {figures.errors} requests failed")
    return figures.rate, (server.cpu_s() - before) / figures.requests * 1e6


def print_first(rounds: list[dict]):
    rate, cost = (median(one["first"][place] for one in rounds) for place in (0, 1))
    tell(f"\nTomcat in the first {FIRST_S} s after its start: {rate:,.0f} requests/s, {cost:.1f} us each\n")


def print_ratios(rounds: list[dict]):
    tell("| load | server | requests/s | CPU, us | of Tomcat | goal |")
    tell("| --- | --- | --- | --- | --- | --- |")
    for load in LOADS:
        theirs = [one["Tomcat", load][1] for one in rounds]
        for way in ("Tomcat", "template", "tables"):
            rate, cost = (median(one[way, load][place] for one in rounds) for place in (0, 1))
            ratio = range_of([one[way, load][1] for one in rounds], theirs)
            goal = GOALS.get((way, load), "")
            share = "" if way == "Tomcat" else f"{ratio.middle:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
            tell(f"| {load} | {way} | {rate:,.0f} | {cost:.2f} | {share} | {goal} |")


if __name__ == "__main__":
    main()
