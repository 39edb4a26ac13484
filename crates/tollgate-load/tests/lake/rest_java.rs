//! The REST catalog of the tests of Apache Iceberg, which shares no code with the program and its tests.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;
use tollgate_load::{CatalogPlace, RestOptions, SinkKind};
use tollgate_log::{ColumnType, Value};

use crate::site::Site;
use crate::{rest_http, tables};

/// The folder into which `make lake-rest` installs the jars of the catalog.
const JARS: &str = "../../target/tools/lake-rest-1/jars";

/// The running server. It ends with its input.
struct Java {
    process: Child,
    address: String,
}

impl Java {
    fn start(site: &Site) -> Self {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let jars = std::env::var_os("TOLLGATE_LAKE_REST").map_or_else(|| here.join(JARS), Into::into);
        assert!(jars.is_dir(), "{} is missing: run `make lake-rest`, which installs it", jars.display());
        let mut java = Command::new("java");
        java.args(["-Xmx256m", "-cp", &format!("{}/*", jars.display())]);
        java.arg(here.join("tests/lake/RestCatalog.java"));
        java.arg(site.folder.path().join("java.sqlite")).arg(site.lake());
        let mut process = java.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { process, address: format!("http://127.0.0.1:{}", port.trim()) }
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        drop(self.process.wait());
    }
}

#[test]
#[ignore = "it needs Java: `make lake-rest`"]
fn the_catalog_of_the_tests_of_iceberg_has_each_record_once() {
    let mut site = Site::new();
    let java = Java::start(&site);
    site.catalog = Some(CatalogPlace::Rest(Box::new(RestOptions::new(&java.address))));
    site.write(500);
    assert_eq!(site.load().rows, 500);
    let check = |site: &Site, rows: u64| {
        let found = tables::read(&java.address, site, "visits");
        assert_eq!(found["count"], json!([rows, rows]));
        assert_eq!(found["duckdb_count"], json!([rows.to_string(), rows.to_string()]));
        assert_eq!(found["summary"]["total-records"], json!(rows.to_string()));
        found
    };
    check(&site, 500);

    site.write_with_more(ColumnType::Text, Value::Text("new"));
    assert_eq!(site.load().rows, 1);
    check(&site, 501);

    site.file_bytes = 1;
    site.write(400);
    site.load_with_four();
    let found = check(&site, 901);
    assert!(found["snapshots"].as_u64().unwrap() > 5, "{}", found["snapshots"]);

    site.write(1);
    let mut sink = site.sink();
    let SinkKind::Iceberg(options) = &mut sink.kind else { panic!("{sink:?}") };
    options.snapshots_kept = Some(Duration::ZERO);
    assert_eq!(site.load_with(sink).unwrap().rows, 1);
    let found = check(&site, 902);
    assert_eq!(found["snapshots"], json!(1));
    let table = rest_http::get(&java.address, "/v1/namespaces/web/tables/visits");
    assert_eq!(table["metadata"]["snapshots"].as_array().unwrap().len(), 1);
    site.check_counts(&[500, 1, 400, 1]);
}
