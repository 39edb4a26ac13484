#!/usr/bin/env python3
"""Compares our writer of Parquet with pyarrow, and scans of our files with scans of files of DuckDB.

lake_bench.py PROGRAM FOLDER [ROWS]: PROGRAM is the example lake_speed. The rows of both writers are the same,
and so are the settings: zstd 3, row groups of the same number of rows, a page index, a Bloom filter of `id`,
and dictionaries for the same columns. Ours reads the log, and pyarrow has the rows in memory. A second run of
pyarrow has dictionaries for all columns, as by default. Runs alternate, and the median counts.
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

Run = tuple[float, float, int]
"""Rows per second, rows per second of processor time, and the peak of memory in MiB."""


def ours(program: str, folder: Path, rows: int) -> Run:
    """Writes the rows with our loader."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([program, folder, str(rows), "1"], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    words = done.stdout.split()
    return float(words[0]), rows / used, int(words[4])


def pyarrows(source: str, target: str, group: int, dictionaries: str) -> None:
    """Writes the table of our files with pyarrow. Prints the rates and the memory, as a `Run`."""
    table = pyarrow.parquet.read_table(source, partitioning=None)
    begun, used = time.monotonic(), time.process_time()
    pyarrow.parquet.write_table(
        table,
        target,
        compression="zstd",
        compression_level=3,
        row_group_size=group,
        write_page_index=True,
        bloom_filter_options={"id": {"ndv": group, "fpp": 0.05}},
        use_dictionary=dictionaries.split(",") if dictionaries else True,
    )
    with open(target, "rb") as file:
        os.fsync(file.fileno())
    seconds, used = time.monotonic() - begun, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(table.num_rows / seconds, table.num_rows / used, peak)


def theirs(source: Path, target: Path, group: int, dictionaries: list[str]) -> Run:
    """Runs `pyarrows` in a process of its own."""
    command = [sys.executable, __file__, "--pyarrow", source, target, str(group), ",".join(dictionaries)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    words = done.stdout.split()
    return float(words[0]), float(words[1]), int(words[2])


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


def settings(source: Path) -> tuple[int, list[str]]:
    """Returns the rows of a row group of our files, and the columns with a dictionary."""
    groups = [pyarrow.parquet.ParquetFile(path).metadata.row_group(0) for path in source.rglob("*.parquet")]
    largest = max(groups, key=lambda group: group.num_rows)
    columns = [largest.column(place) for place in range(largest.num_columns)]
    return largest.num_rows, [column.path_in_schema for column in columns if column.has_dictionary_page]


def write(program: str, folder: Path, rows: int) -> Path:
    """Compares the writers. Returns the folder of our files."""
    ours(program, folder, rows)
    source, target = folder / "lake" / "events", folder / "pyarrow.parquet"
    group, dictionaries = settings(source)
    print(
        f"{rows} rows, row groups of {group} rows, dictionaries for {', '.join(dictionaries)}, "
        f"{os.cpu_count()} cores, pyarrow {pyarrow.__version__}, DuckDB {duckdb.__version__}"
    )
    runs: dict[str, list[Run]] = {"ours": [], "pyarrow": [], "pyarrow, all dictionaries": []}
    sizes = {}
    for _ in range(ROUNDS):
        runs["ours"].append(ours(program, folder, rows))
        runs["pyarrow"].append(theirs(source, target, group, dictionaries))
        sizes["pyarrow"] = target.stat().st_size
        runs["pyarrow, all dictionaries"].append(theirs(source, target, group, []))
        sizes["pyarrow, all dictionaries"] = target.stat().st_size
    sizes["ours"] = sum(path.stat().st_size for path in source.rglob("*.parquet"))
    for name, found in runs.items():
        rate, by_time = (statistics.median(run[place] for run in found) for place in (0, 1))
        print(
            f"{name}: {rate:.0f} rows/s, {by_time:.0f} rows per second of processor time, "
            f"{max(run[2] for run in found)} MiB of memory, {sizes[name] >> 20} MiB of files"
        )
        ratios = [mine[0] / other[0] for mine, other in zip(runs["ours"], found, strict=True)]
        if name != "ours":
            print(f"writing: {statistics.median(ratios):.2f} of the rate of {name}")
    return source


def main() -> None:
    """Runs all rounds, and prints the medians."""
    if sys.argv[1] == "--pyarrow":
        pyarrows(sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
        return

    program, folder = sys.argv[1], Path(sys.argv[2])
    rows = int(sys.argv[3]) if len(sys.argv) > 3 else 2_000_000
    folder.mkdir(parents=True, exist_ok=True)
    source = write(program, folder, rows)
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
        for _ in range(ROUNDS * 5):
            first = scan(connection, f"{source}/**/*.parquet", question)
            ratios.append(first / scan(connection, f"{folder}/duckdb/*.parquet", question))
        print(f"scan {name}: {statistics.median(ratios):.2f} of the time over files of DuckDB")


if __name__ == "__main__":
    main()
