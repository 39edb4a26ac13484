"""Reads a table of a lake with DuckDB and pyarrow, and prints what both say as JSON: read.py FOLDER TABLE."""

import json
import sys
from pathlib import Path

import duckdb
import pyarrow.dataset
import pyarrow.parquet

folder, table = Path(sys.argv[1]), sys.argv[2]
files = f"{folder / table}/**/*.parquet"
connection = duckdb.connect()
connection.execute("SET TimeZone = 'UTC'")
source = f"read_parquet('{files}', hive_partitioning = true, union_by_name = true)"


def ask(question: str) -> list:
    """Returns the rows of a query, each value as text."""
    rows = connection.execute(question.format(source=source)).fetchall()
    return [[None if value is None else str(value) for value in row] for row in rows]


arrow = pyarrow.dataset.dataset(folder / table, partitioning="hive").to_table()
first = pyarrow.parquet.ParquetFile(sorted((folder / table).rglob("*.parquet"))[0])
chunk = first.metadata.row_group(0).column(0)
print(
    json.dumps(
        {
            "duckdb": duckdb.__version__,
            "pyarrow": pyarrow.__version__,
            "types": dict(ask("SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM {source})")),
            "count": ask("SELECT count(*), count(DISTINCT (_log, _seq)) FROM {source}")[0],
            "rows": ask("SELECT CAST(COLUMNS(* EXCLUDE (_log, day)) AS VARCHAR) FROM {source} ORDER BY _seq"),
            "arrow_types": {field.name: str(field.type) for field in arrow.schema},
            "arrow_count": arrow.num_rows,
            "created_by": first.metadata.created_by,
            "compression": chunk.compression,
            "has_page_index": chunk.has_column_index and chunk.has_offset_index,
            "bloom": ask(
                "SELECT DISTINCT path_in_schema FROM parquet_metadata('" + files + "') "
                "WHERE bloom_filter_offset IS NOT NULL ORDER BY 1"
            ),
        }
    )
)
