"""Reads a table by pyiceberg and DuckDB, prints JSON: read_iceberg.py CATALOG WAREHOUSE TABLE [STORE]."""

import importlib.util
import json
import sys
from pathlib import Path

import duckdb
import pyiceberg
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile

address, warehouse, name = sys.argv[1:4]
keys = ["s3.endpoint", "s3.access-key-id", "s3.secret-access-key"]
store = dict(zip(keys, sys.argv[4:], strict=False))
kind = RestCatalog if address.startswith("http") else SqlCatalog
catalog = kind("tollgate", uri=address, warehouse=warehouse, **store)
table = catalog.load_table(name)
arrow = table.scan().to_arrow()
snapshot = table.current_snapshot()
pairs = {
    (str(log), seq) for log, seq in zip(arrow["_log"].to_pylist(), arrow["_seq"].to_pylist(), strict=True)
}

connection = duckdb.connect()
for extension in ["avro", "httpfs", "iceberg"]:
    package = importlib.util.find_spec(f"duckdb_extension_{extension}")
    folder = Path(next(iter(package.submodule_search_locations)))
    connection.load_extension(str(next(folder.rglob(f"{extension}.duckdb_extension"))))
connection.execute("SET TimeZone = 'UTC'")
source = f"iceberg_scan('{table.metadata_location}')"
if store:
    endpoint, key, secret = sys.argv[4:7]
    connection.execute(
        f"CREATE SECRET (TYPE s3, KEY_ID '{key}', SECRET '{secret}', REGION 'us-east-1', "
        f"ENDPOINT '{endpoint.removeprefix('http://')}', URL_STYLE 'path', USE_SSL false)"
    )


def ask(question: str) -> list:
    """Returns the rows of a query, each value as text."""
    rows = connection.execute(question.format(source=source)).fetchall()
    return [[None if value is None else str(value) for value in row] for row in rows]


if store:
    count = [
        *ask("SELECT count(*), count(DISTINCT (_log, _seq)) FROM {source}")[0],
        *ask(f"SELECT count(*) FROM read_parquet('{table.location()}/**/*.parquet')")[0],
    ]
    print(json.dumps({"count": [arrow.num_rows, len(pairs)], "duckdb": [int(found) for found in count]}))
    sys.exit()

files = [task.file for task in table.scan().plan_files()]


def bounds(file: DataFile) -> dict:
    """Returns the smallest and largest value and the number of nulls of each column that has bounds."""
    found = {}
    for field in table.schema().fields:
        if field.field_id in file.lower_bounds:
            ends = [file.lower_bounds.get(field.field_id), file.upper_bounds.get(field.field_id)]
            ends = [None if end is None else str(from_bytes(field.field_type, end)) for end in ends]
            found[field.name] = [*ends, file.null_value_counts.get(field.field_id)]
    return found


print(
    json.dumps(
        {
            "pyiceberg": pyiceberg.__version__,
            "duckdb": duckdb.__version__,
            "tables": sorted(".".join(found) for found in catalog.list_tables("web")),
            "types": {field.name: str(field.field_type) for field in table.schema().fields},
            "spec": [str(field) for field in table.spec().fields],
            "count": [arrow.num_rows, len(pairs)],
            "duckdb_types": dict(
                ask("SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM {source})")
            ),
            "duckdb_count": ask("SELECT count(*), count(DISTINCT (_log, _seq)) FROM {source}")[0],
            "rows": ask(
                "SELECT CAST(COLUMNS(* EXCLUDE (_log, _time)) AS VARCHAR) FROM {source} ORDER BY _seq"
            ),
            "sum": sum(arrow["n"].to_pylist()) if "n" in arrow.column_names else None,
            "snapshots": len(table.snapshots()),
            "summary": dict(snapshot.summary.additional_properties) if snapshot else {},
            "properties": table.properties,
            "files": len(files),
            "manifests": len(snapshot.manifests(table.io)) if snapshot else 0,
            "file_rows": sum(file.record_count for file in files),
            "file_bytes": sum(file.file_size_in_bytes for file in files),
            "bounds": bounds(min(files, key=lambda file: file.file_path)) if files else {},
            # A filter that no file can match reads no file, because of the bounds.
            "planned_none": len(list(table.scan(row_filter="_seq > 1000000").plan_files())),
            "planned_days": len(
                list(table.scan(row_filter="_time < '1999-01-01T00:00:00+00:00'").plan_files())
            ),
        },
        default=str,
    )
)
