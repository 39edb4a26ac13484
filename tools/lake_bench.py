#!/usr/bin/env python3
"""Compares our writer of Parquet with pyarrow, and scans of our files with scans of files of DuckDB.

lake_bench.py PROGRAM FOLDER [ROWS]: PROGRAM is the example lake_speed. The rows of both writers are the same,
and so are the settings: zstd 3, row groups of the same number of rows, a page index. Runs alternate, and the
median counts.
"""

import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pyarrow.parquet

ROUNDS = 5


def ours(program: str, folder: Path, rows: int) -> tuple[float, int]:
    """Writes the rows with our loader. Returns rows per second and the peak of memory in MiB."""
    done = subprocess.run([program, folder, str(rows), "1"], capture_output=True, text=True, check=True)
    words = done.stdout.split()
    return float(words[0]), int(words[4])


def pyarrows(source: str, target: str, group: int) -> None:
    """Writes the table of our files with pyarrow. Prints the rate, the memory, and the rate by CPU."""
    table = pyarrow.parquet.read_table(source, partitioning=None)
    begun, used = time.monotonic(), time.process_time()
    pyarrow.parquet.write_table(
        table, target, compression="zstd", compression_level=3, row_group_size=group, write_page_index=True
    )
    with open(target, "rb") as file:
        os.fsync(file.fileno())
    seconds, used = time.monotonic() - begun, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(table.num_rows / seconds, peak, table.num_rows / used)


def theirs(source: Path, target: Path, group: int) -> tuple[float, int]:
    """Runs `pyarrows` in a process of its own."""
    command = [sys.executable, __file__, "--pyarrow", source, target, str(group)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    words = done.stdout.split()
    return float(words[0]), int(words[1])


SCANS = {
    "sum": "SELECT sum(n), sum(took), count(*) FROM {files}",
    "group": "SELECT path, count(*), avg(took) FROM {files} GROUP BY path ORDER BY 2 DESC LIMIT 10",
    "text": 'SELECT count(*) FROM {files} WHERE body LIKE \'%"step":"3"%\'',
    "filter": 'SELECT count(*), epoch_us(max("at")) FROM {files} WHERE n BETWEEN 100000 AND 120000',
}


def scan(connection, files: str, question: str) -> float:
    """Returns the seconds of a query over files."""
    begun = time.monotonic()
    connection.execute(question.format(files=f"read_parquet('{files}')")).fetchall()
    return time.monotonic() - begun


def main() -> None:
    """Runs all rounds, and prints the medians."""
    if sys.argv[1] == "--pyarrow":
        pyarrows(sys.argv[2], sys.argv[3], int(sys.argv[4]))
        return

    program, folder = sys.argv[1], Path(sys.argv[2])
    rows = int(sys.argv[3]) if len(sys.argv) > 3 else 2_000_000
    folder.mkdir(parents=True, exist_ok=True)
    ours(program, folder, rows)
    source = folder / "lake" / "events"
    group = max(
        pyarrow.parquet.ParquetFile(path).metadata.row_group(0).num_rows for path in source.rglob("*.parquet")
    )
    print(
        f"{rows} rows, row groups of {group} rows, pyarrow {pyarrow.__version__}, DuckDB {duckdb.__version__}"
    )
    mine, other = [], []
    for _ in range(ROUNDS):
        mine.append(ours(program, folder, rows))
        other.append(theirs(source, folder / "pyarrow.parquet", group))
    size = sum(path.stat().st_size for path in source.rglob("*.parquet"))
    for name, found, total in [
        ("ours", mine, size),
        ("pyarrow", other, (folder / "pyarrow.parquet").stat().st_size),
    ]:
        rate, peak = statistics.median(rate for rate, _ in found), max(peak for _, peak in found)
        print(f"{name}: {rate:.0f} rows/s, {peak} MiB of memory, {total >> 20} MiB of files")
    ratio = statistics.median(rate for rate, _ in mine) / statistics.median(rate for rate, _ in other)
    print(f"writing: {ratio:.2f} of pyarrow's rate")

    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    shutil.rmtree(folder / "duckdb", ignore_errors=True)
    (folder / "duckdb").mkdir()
    for number, path in enumerate(sorted(source.rglob("*.parquet"))):
        connection.execute(
            f"COPY (SELECT * FROM read_parquet('{path}', hive_partitioning = false)) TO "
            f"'{folder}/duckdb/{number}.parquet' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 3)"
        )
    for name, question in SCANS.items():
        ratios = []
        for _ in range(ROUNDS * 3):
            first = scan(connection, f"{source}/**/*.parquet", question)
            ratios.append(first / scan(connection, f"{folder}/duckdb/*.parquet", question))
        print(f"scan {name}: {statistics.median(ratios):.2f} of the time over files of DuckDB")


if __name__ == "__main__":
    main()
