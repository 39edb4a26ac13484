#!/usr/bin/env python3
"""Runs the command blocks of README.md, docs/tutorial and docs/how-to: `tools/docs_test.py [PAGE ...]`.

Each page runs from top to bottom in its own fresh clone of the last commit, with an empty home folder. The
program is built once, by `make build` in a clone. `--binary` takes a program that is built already.

A block is indented by four spaces. A block whose first line begins with `$ ` is a transcript: only its lines
with `$ ` run. Each block runs in bash and fails at the first command whose exit code is not 0. The next block
has the variables and the folder of the block before it. HTML comments, which readers do not see, are markers:

    <!-- docs-test: MARKER -->

These markers belong to the next block:

    not run: REASON        the block does not run
    background until TEXT  the block runs on; the next step begins when its output has TEXT
    expect TEXT            the output has TEXT, where any white space equals one space
    within SECONDS         the block is repeated until it succeeds and its output has what is expected
    limit SECONDS          the block may run for SECONDS, 60 otherwise
    pause SECONDS          the commands of a transcript wait before each, as a reader does who types them
    exit CODE              this exit code is expected instead of 0
    part of FILE           the block is a part of a file of the repository, and does not run
    write FILE             the block is the content of a file
    append FILE            the block is the end of a file
    sql DATABASE           the block is SQL, and a superuser of PostgreSQL runs it

These markers are steps of their own:

    run: COMMAND           runs a command that the text of the page names
    start: COMMAND until TEXT
                           starts one in the background, and waits until its output has TEXT
    stop                   ends the newest background block by SIGINT, as Ctrl-C does
    killed                 the newest background block ends, because the page killed its server
    start postgresql       starts a PostgreSQL on 127.0.0.1:5432
    sql: STATEMENT         a superuser runs a statement in the database `postgres`
    sender: NAME           runs a sender of tests/senders, if `make senders` has installed its packages
    stop postgresql        stops it, and keeps its data

If a page has no marker, none of its blocks run, and `--strict` fails.
"""

import argparse
import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("docs/tutorial", "docs/how-to")
MARKER = re.compile(r"\s*<!--\s*docs-test:\s*(.*?)\s*-->\s*")
#: Markers that belong to the next block. The value says whether the marker has an argument.
OF_BLOCKS = {
    "not run:": True,
    "background until": True,
    "expect": True,
    "within": True,
    "limit": True,
    "pause": True,
    "exit": True,
    "part of": True,
    "write": True,
    "append": True,
    "sql": True,
}
#: Markers that are steps of their own. The value says whether the marker has an argument.
STEPS = {
    "run:": True,
    "start:": True,
    "sql:": True,
    "sender:": True,
    "start postgresql": False,
    "stop postgresql": False,
    "stop": False,
    "killed": False,
}
#: Seconds that a block may run.
LIMIT = 60
#: Seconds that a sender may run.
SENDER_LIMIT = 300
#: Seconds that a build may run.
BUILD_LIMIT = 3600
#: Seconds between two checks of a process or its output.
PAUSE = 0.02
#: Ports that the pages use, which no other program may listen on.
PORTS = (8080, 5432)
#: Characters of output that a failure shows, at most.
SHOWN = 4000


class Fault(Exception):
    """A page cannot be read, or a step of it failed. The error has the line and the reason."""

    def __init__(self, line: int, text: str):
        super().__init__(text)
        self.line = line


class Marker(NamedTuple):
    """A name of `OF_BLOCKS` or `STEPS`, and its argument."""

    name: str
    argument: str


@dataclass
class Block:
    """A block of a page with its markers. `line` is its first line."""

    line: int
    text: str
    markers: list[Marker] = field(default_factory=list)

    def all(self, name: str) -> list[str]:
        return [marker.argument for marker in self.markers if marker.name == name]

    def one(self, name: str) -> str | None:
        return next(iter(self.all(name)), None)

    def number(self, name: str, otherwise: int) -> int:
        argument = self.one(name)
        return otherwise if argument is None else int(argument)


class Step(NamedTuple):
    """A marker that is a step of its own."""

    line: int
    marker: Marker


def marker_of(line: int, text: str) -> Marker:
    """Returns the marker of a comment."""
    for name, has_argument in {**OF_BLOCKS, **STEPS}.items():
        if text == name or text.startswith(name + " "):
            argument = text[len(name) :].strip()
            if has_argument != bool(argument):
                raise Fault(line, f"marker {name!r} {'needs an' if has_argument else 'has no'} argument")
            if name in ("within", "limit", "pause", "exit") and not argument.isdigit():
                raise Fault(line, f"marker {name!r} needs a whole number, found {argument!r}")
            if name == "start:" and " until " not in argument:
                raise Fault(line, "marker 'start:' needs `until` and a text")
            return Marker(name, argument)
    raise Fault(line, f"no such marker: {text!r}")


def steps_of(page: str) -> list[Block | Step]:
    """Returns the blocks and steps of a page in their order."""
    steps: list[Block | Step] = []
    waiting: list[Marker] = []
    marked = 0
    is_paragraph = False
    lines = page.splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        comment = MARKER.fullmatch(line)
        if line.startswith("```"):
            raise Fault(at, "a fenced block: indent it by four spaces instead")
        if comment:
            marker = marker_of(at, comment[1])
            if marker.name in STEPS:
                steps.append(Step(at, marker))
            else:
                waiting.append(marker)
                marked = at
            is_paragraph = False
        elif line.startswith("    ") and not is_paragraph:
            begin = at
            end = at
            # Empty lines belong to the block if an indented line follows.
            while at < len(lines) and (not lines[at].strip() or lines[at].startswith("    ")):
                at += 1
                if lines[at - 1].strip():
                    end = at
            at = end
            text = "".join(line[4:] + "\n" for line in lines[begin - 1 : end])
            steps.append(Block(begin, text, waiting))
            waiting = []
        else:
            if line.strip() and waiting and not line.startswith("<!--"):
                raise Fault(marked, "a marker of a block stands before other text")
            is_paragraph = bool(line.strip()) and not line.startswith(("#", "<!--"))
    if waiting:
        raise Fault(marked, "no block follows this marker")
    return steps


def is_marked(page: str) -> bool:
    """Returns whether a page has any marker."""
    return any(MARKER.fullmatch(line) for line in page.splitlines())


def commands_of(text: str, pause: int = 0) -> str:
    """Returns the commands of a block: all of it, or the lines of a transcript that have a prompt."""
    if not text.startswith("$ "):
        return text
    wait = f"sleep {pause}\n" if pause else ""
    return "".join(f"{wait}{line[2:]}\n" for line in text.splitlines() if line.startswith("$ "))


def is_part(block: str, text: str) -> bool:
    """Returns whether the lines of a block follow each other in a text."""
    return ("\n" + block) in ("\n" + text)


def has(output: str, expected: str) -> bool:
    """Returns whether an output has a text. Columns of tables differ in width, so any white space equals one
    blank."""
    return " ".join(expected.split()) in " ".join(output.split())


class Process:
    """A process in a session of its own, whose output goes to a file.

    The process is reaped only by `close`. Until then no other process can get its process id, which is also
    the id of its group. A signal to the group reaches only processes that this tool started.
    """

    def __init__(self, command: list[str], output: Path, **options):
        self.output = output
        self.code: int | None = None
        with output.open("wb") as file:
            self.child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **options,
            )

    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def ended(self) -> bool:
        """Returns whether the process has ended, and keeps its exit code (128 and more after a signal)."""
        if self.code is None:
            found = os.waitid(os.P_PID, self.child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is not None:
                self.code = found.si_status if found.si_code == os.CLD_EXITED else 128 + found.si_status
        return self.code is not None

    def wait(self, seconds: float) -> bool:
        """Waits until the process has ended. Returns whether it has."""
        deadline = time.monotonic() + seconds
        while not self.ended() and time.monotonic() < deadline:
            time.sleep(PAUSE)
        return self.ended()

    def signal(self, number: int):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.child.pid, number)

    def close(self):
        """Kills all processes of the group that still run."""
        self.signal(signal.SIGKILL)
        self.child.wait()


class Postgres:
    """A PostgreSQL with a temporary folder. It refuses to run as root, so root runs it as user `postgres`."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="docs-test-postgresql-"))
        self.options = {}
        if os.getuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
            self.options = {"user": "postgres", "group": "postgres", "extra_groups": []}
        versions = Path("/usr/lib/postgresql").glob("*/bin")
        newest = max(versions, key=lambda folder: float(folder.parent.name), default=None)
        self.programs = f"{newest}/" if newest else ""
        self.process: Process | None = None
        method = ("--auth-local=trust", "--auth-host=scram-sha-256")
        initdb = [
            self.programs + "initdb",
            "-D",
            self.folder / "data",
            "-U",
            "postgres",
            "--no-sync",
            *method,
        ]
        subprocess.run(initdb, check=True, capture_output=True, cwd=self.folder, **self.options)

    def psql(self, database: str) -> list[str]:
        """Returns the command by which a superuser sends SQL."""
        return [
            "psql",
            "-X",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            str(self.folder),
            "-U",
            "postgres",
            "-d",
            database,
        ]

    def start(self):
        settings = ("listen_addresses=127.0.0.1", f"unix_socket_directories={self.folder}", "port=5432")
        command = [self.programs + "postgres", "-D", str(self.folder / "data")]
        command += [word for setting in settings for word in ("-c", setting)]
        self.process = Process(command, self.folder / "output", cwd=self.folder, **self.options)
        deadline = time.monotonic() + LIMIT
        while subprocess.run([*self.psql("postgres"), "-c", "SELECT 1"], capture_output=True).returncode != 0:
            if self.process.ended() or time.monotonic() > deadline:
                raise RuntimeError("PostgreSQL does not start:\n" + self.process.text())
            time.sleep(5 * PAUSE)

    def stop(self):
        """Ends the server. SIGINT to its first process is PostgreSQL's fast shutdown."""
        if self.process:
            if not self.process.ended():
                os.kill(self.process.child.pid, signal.SIGINT)
                self.process.wait(LIMIT)
            self.process.close()
            self.process = None

    def close(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


#: The script around a block in bash. It restores the state before the block and stores it after the block:
#: all variables that can be set, and the folder.
SHELL = """\
if [ -f {state} ]; then . {state} 2>/dev/null; cd "$PWD_OF_PAGE"; fi
{keep}
set -e -o pipefail
{commands}"""
KEEP = """trap 'PWD_OF_PAGE=$PWD; declare -p | grep -v "^declare -[a-zA-Z]*r" >{state}' EXIT"""


class Page:
    """Runs the steps of one page."""

    def __init__(self, work: Path, clone: Path, environment: dict[str, str], verbose: bool):
        self.work = work
        self.clone = clone
        self.environment = environment
        self.verbose = verbose
        self.processes: list[Process] = []
        self.background: list[Process] = []
        self.postgres: Postgres | None = None
        self.run_count = 0
        self.reasons: Counter = Counter()

    def close(self):
        """Ends all processes that the page started."""
        for process in self.background:
            process.signal(signal.SIGINT)
        for process in self.background:
            process.wait(10)
        for process in self.processes:
            process.close()
        if self.postgres:
            self.postgres.close()

    def start(self, commands: str, keeps: bool) -> Process:
        """Starts commands in bash. `keeps`: whether the next block gets their state."""
        state = shlex.quote(str(self.work / "state"))
        keep = KEEP.format(state=state) if keeps else ""
        script = SHELL.format(state=state, keep=keep, commands=commands)
        process = Process(
            ["bash", "-c", script],
            self.work / f"output-{len(self.processes)}",
            cwd=self.clone,
            env=self.environment,
        )
        self.processes.append(process)
        return process

    def finish(self, line: int, process: Process, limit: float, code: int = 0) -> str:
        """Waits for the end of a block and returns its output."""
        if not process.wait(limit):
            raise Fault(line, f"still runs after {limit} s\n{shown(process.text())}")
        if process.code != code:
            raise Fault(line, f"exit code {process.code}, expected {code}\n{shown(process.text())}")
        return process.text()

    def folder(self) -> Path:
        """Returns the folder in which the next block runs."""
        return Path(self.finish(0, self.start("pwd", keeps=False), LIMIT).strip())

    def attempt(self, block: Block):
        """Runs a block once, in the foreground."""
        database = block.one("sql")
        if database is None:
            process = self.start(commands_of(block.text, block.number("pause", 0)), keeps=True)
        else:
            if not self.postgres:
                raise Fault(block.line, "SQL before PostgreSQL is started")
            sql = self.work / "block.sql"
            sql.write_text(block.text)
            process = self.start(shlex.join([*self.postgres.psql(database), "-f", str(sql)]), keeps=False)
        output = self.finish(block.line, process, block.number("limit", LIMIT), block.number("exit", 0))
        if self.verbose:
            print(f"-- line {block.line}\n{block.text}-- output\n{output}")
        for expected in block.all("expect"):
            if not has(output, expected):
                raise Fault(block.line, f"the output lacks {expected!r}\n{shown(output)}")

    def foreground(self, block: Block):
        """Runs a block. If a marker allows it, repeats the block until it succeeds."""
        deadline = time.monotonic() + block.number("within", 0)
        while True:
            try:
                return self.attempt(block)
            except Fault:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(10 * PAUSE)

    def in_background(self, block: Block, until: str):
        process = self.start(commands_of(block.text), keeps=False)
        self.background.append(process)
        limit = block.number("limit", LIMIT)
        deadline = time.monotonic() + limit
        while not has(process.text(), until):
            if process.ended() or time.monotonic() > deadline:
                end = f"ended with exit code {process.code}" if process.ended() else f"{limit} s passed"
                raise Fault(block.line, f"{end} before the output had {until!r}\n{shown(process.text())}")
            time.sleep(PAUSE)

    def compare(self, block: Block, name: str):
        """Fails unless a block is a part of a file."""
        path = self.clone / name
        if not path.is_file() or not is_part(block.text, path.read_text()):
            raise Fault(block.line, f"the block is no part of {name}")

    def sender(self, line: int, name: str):
        """Runs a sender whose packages are installed, in the clone. The page may be in another folder."""
        clone = shlex.quote(str(self.clone))
        run = f"TOLLGATE={clone}/target/release/tollgate tests/senders/run.py --installed {shlex.quote(name)}"
        command = f"(cd {clone} && {run})"
        process = self.start(command, keeps=False)
        output = self.finish(line, process, SENDER_LIMIT)
        if f"{name}: not installed" in output:
            self.reasons["`make senders` has not installed the sender"] += 1
        else:
            self.run_count += 1

    def block(self, block: Block):
        reason = block.one("not run:")
        part = block.one("part of")
        if part is not None:
            return self.compare(block, part)
        if reason is not None:
            self.reasons[reason] += 1
            return
        name = block.one("write") or block.one("append")
        until = block.one("background until")
        if name is not None:
            path = self.folder() / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w" if block.one("write") else "a") as file:
                file.write(block.text)
        elif until is not None:
            self.in_background(block, until)
        else:
            self.foreground(block)
        self.run_count += 1

    def step(self, step: Step):
        name, argument = step.marker
        if name == "run:":
            self.foreground(Block(step.line, argument + "\n"))
        elif name == "sql:":
            self.foreground(Block(step.line, argument + "\n", [Marker("sql", "postgres")]))
        elif name == "start:":
            command, _, until = argument.rpartition(" until ")
            self.in_background(Block(step.line, command + "\n"), until)
        elif name == "sender:":
            self.sender(step.line, argument)
        elif name == "start postgresql":
            self.postgres = self.postgres or Postgres()
            self.postgres.start()
        elif name == "stop postgresql":
            if not self.postgres:
                raise Fault(step.line, "no PostgreSQL was started")
            self.postgres.stop()
        elif not self.background:
            raise Fault(step.line, "no background block runs")
        else:
            process = self.background.pop()
            if name == "stop":
                if process.ended():
                    raise Fault(step.line, f"ended by itself: {process.code}\n{shown(process.text())}")
                process.signal(signal.SIGINT)
            if not process.wait(LIMIT):
                raise Fault(step.line, f"the background block still runs\n{shown(process.text())}")

    def run(self, steps: list[Block | Step]):
        for step in steps:
            if isinstance(step, Block):
                self.block(step)
            else:
                self.step(step)


def shown(output: str) -> str:
    """Returns the end of an output, indented."""
    return "".join(f"    {line}\n" for line in output[-SHOWN:].splitlines())


class Result(NamedTuple):
    """One row of the table."""

    page: str
    state: str
    run: int
    reasons: Counter


def table(results: list[Result]) -> str:
    """Returns the table of pages."""
    width = max([len(result.page) for result in results] + [4])
    lines = [f"{'page':{width}}  state       run  not run"]
    for page, state, run, reasons in results:
        lines.append(f"{page:{width}}  {state:10}  {run:3}  {reasons.total():7}")
        lines += [f"{'':{width}}  {count} not run: {reason}" for reason, count in sorted(reasons.items())]
    return "\n".join(lines)


def environment_of(home: Path) -> dict[str, str]:
    """Returns the environment of a page, without variables that a user of this machine may have set."""
    kept = {name: os.environ[name] for name in ("PATH", "USER", "LOGNAME", "TERM") if name in os.environ}
    user = Path.home()
    # `CARGO=true` makes `make` skip the build, because the program is built already.
    return {
        **kept,
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "CARGO": "true",
        "CARGO_HOME": os.environ.get("CARGO_HOME", str(user / ".cargo")),
        "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(user / ".rustup")),
    }


def clone_to(folder: Path):
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(folder)], check=True)


def build(work: Path, target: Path | None) -> Path:
    """Builds the program in a fresh clone, as the README says, and returns its path."""
    clone = work / "build"
    clone_to(clone)
    built = target.resolve() if target else clone / "target"
    environment = {**os.environ, "CARGO_TARGET_DIR": str(built)}
    subprocess.run(["make", "build"], check=True, cwd=clone, env=environment, timeout=BUILD_LIMIT)
    return built / "release/tollgate"


def test(name: str, text: str, binary: Path, verbose: bool) -> tuple[Result, Fault | None]:
    """Runs a page and returns its row, with the fault if it failed."""
    with tempfile.TemporaryDirectory(prefix="docs-test-") as folder:
        work = Path(folder)
        (work / "home").mkdir()
        clone = work / "tollgate"
        clone_to(clone)
        (clone / "target/release").mkdir(parents=True)
        shutil.copy2(binary, clone / "target/release/tollgate")
        for installed in ("target/senders", "target/tools"):
            if (ROOT / installed).is_dir():
                (clone / installed).symlink_to(ROOT / installed)
        page = Page(work, clone, environment_of(work / "home"), verbose)
        fault = None
        try:
            page.run(steps_of(text))
        except Fault as caught:
            fault = caught
        finally:
            page.close()
        return Result(name, "failed" if fault else "passed", page.run_count, page.reasons), fault


def pages() -> list[str]:
    """Returns the names of all pages with commands."""
    found = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.md"))]
    return ["README.md", *[str(path.relative_to(ROOT)) for path in found]]


def busy_ports() -> list[int]:
    """Returns the ports of the pages at which another program listens."""
    busy = []
    for port in PORTS:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                busy.append(port)
    return busy


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="a page, all pages otherwise")
    parser.add_argument("--binary", type=Path, help="a program `tollgate` that is built already")
    parser.add_argument("--target", type=Path, help="folder of the build, so that the next one is short")
    parser.add_argument("--strict", action="store_true", help="fail if a page is not marked")
    parser.add_argument("--verbose", action="store_true", help="print each block and its output")
    options = parser.parse_args()
    busy = busy_ports()
    if busy:
        sys.exit(f"docs_test: another program listens on port {busy[0]} of 127.0.0.1, and the pages need it")
    results = []
    faults = 0
    with tempfile.TemporaryDirectory(prefix="docs-test-build-") as work:
        binary = options.binary
        for name in options.pages or pages():
            text = (ROOT / name).read_text()
            if not is_marked(text):
                results.append(Result(name, "not marked", 0, Counter()))
                faults += options.strict
                continue
            binary = binary or build(Path(work), options.target)
            result, fault = test(name, text, binary, options.verbose)
            results.append(result)
            if fault:
                faults += 1
                print(f"{name}:{fault.line}: {fault}", file=sys.stderr)
    print(table(results))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
