"""Runs statements in Spark and prints their rows as JSON: run_spark.py JARS CATALOG WAREHOUSE STATEMENT..."""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

jars, catalog, warehouse = sys.argv[1:4]
settings = {
    "spark.jars": ",".join(str(jar) for jar in sorted(Path(jars).glob("*.jar"))),
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.tollgate": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.tollgate.type": "jdbc",
    "spark.sql.catalog.tollgate.uri": catalog,
    "spark.sql.catalog.tollgate.jdbc.schema-version": "V1",
    "spark.sql.catalog.tollgate.warehouse": warehouse,
}
builder = SparkSession.builder.master("local[2]")
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
answers = [[list(row) for row in spark.sql(statement).collect()] for statement in sys.argv[4:]]
print(json.dumps(answers, default=str))
