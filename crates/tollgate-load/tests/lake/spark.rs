//! Spark reads tables, rewrites them, deletes rows and adds columns, between the loads of the sink.

use std::path::Path;
use std::process::Command;

use serde_json::{Value as Json, json};

use crate::iceberg::{check_engines, site};
use crate::site::Site;

/// The folder into which `make lake-spark` installs Spark and the jars of its catalog.
const SPARK: &str = "../../target/tools/lake-spark-1";
const COUNT: &str = "SELECT count(*), count(DISTINCT _log, _seq), sum(n) FROM tollgate.web.visits";

/// Runs statements, and returns the rows of each.
fn spark(site: &Site, statements: &[&str]) -> Vec<Json> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tools = std::env::var_os("TOLLGATE_LAKE_SPARK").map_or_else(|| here.join(SPARK), Into::into);
    assert!(tools.is_dir(), "{} is missing: run `make lake-spark`, which installs it", tools.display());
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", tools.join("python")).arg(here.join("tests/lake/run_spark.py"));
    python.arg(tools.join("jars"));
    python.arg(format!("jdbc:sqlite:{}", site.folder.path().join("catalog.sqlite").display()));
    python.arg(format!("file://{}", site.lake().display())).args(statements);
    let output = python.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
#[ignore = "it needs Spark: `make lake-spark`"]
fn spark_changes_tables_between_loads_and_each_record_stays_once() {
    let mut site = site();
    site.write(300);
    assert_eq!(site.load().rows, 300);
    let found = spark(
        &site,
        &[
            COUNT,
            "CALL tollgate.system.rewrite_data_files(table => 'web.visits', \
             options => map('min-input-files', '2'))",
            "CALL tollgate.system.rewrite_manifests('web.visits')",
            "CALL tollgate.system.expire_snapshots(table => 'web.visits', \
             older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1)",
            COUNT,
        ],
    );
    let sum: i64 = (0..300).sum();
    assert_eq!((&found[0], &found[4]), (&json!([[300, 300, sum]]), &json!([[300, 300, sum]])));
    assert!(found[1][0][0].as_i64().unwrap() > 1, "{} files were rewritten", found[1]);
    assert_eq!(site.files("visits").len(), 1);

    // The position survived, so nothing is loaded again.
    assert_eq!(site.load().rows, 0);
    site.write(200);
    assert_eq!(site.load().rows, 200);
    site.check_counts(&[300, 200]);
    check_engines(&site, 500);

    let found = spark(
        &site,
        &[
            "ALTER TABLE tollgate.web.visits ADD COLUMN note string",
            "DELETE FROM tollgate.web.visits WHERE n = 5",
            COUNT,
            "ALTER TABLE tollgate.web.visits SET TBLPROPERTIES ('commit.manifest.min-count-to-merge' = '3')",
        ],
    );
    assert_eq!(found[2][0][0], json!(498));
    // The sink merges manifests, of which Spark wrote some.
    site.file_bytes = 1;
    site.write(600);
    assert_eq!(site.load().rows, 600);
    check_engines(&site, 1_098);
    let found = spark(
        &site,
        &[
            COUNT,
            "SELECT count(*) FROM tollgate.web.tollgate_rejects",
            "SELECT count(*), sum(existing_data_files_count) FROM tollgate.web.visits.manifests \
             WHERE content = 0",
            "CALL tollgate.system.rewrite_data_files(table => 'web.visits', \
             options => map('min-input-files', '2'))",
            COUNT,
        ],
    );
    assert_eq!((&found[0][0][0], &found[0][0][1], &found[1]), (&json!(1_098), &json!(1_098), &json!([[0]])));
    let (manifests, merged) = (found[2][0][0].as_i64().unwrap(), found[2][0][1].as_i64().unwrap());
    assert!(manifests <= 3 && merged > 10, "{merged} files in {manifests} manifests");
    assert_eq!(found[4], found[0]);
}
