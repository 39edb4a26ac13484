//! Tests of the operator's own file at the end of each load.

use std::fs;

use crate::cluster::shared;
use crate::site::Site;

fn site_with(file: &str) -> Site<'static> {
    let mut site = Site::new(shared());
    let path = site.file("after.sql");
    fs::write(&path, file).unwrap();
    site.options.after_load = Some(path);
    site.sql("CREATE TABLE totals (log uuid, first bigint, last bigint, rows bigint)");
    site
}

#[test]
fn a_file_runs_in_the_transaction_of_each_load_and_knows_what_is_new() {
    let site = site_with(
        "INSERT INTO totals SELECT current_setting('tollgate.log')::uuid, current_setting('tollgate.first')::bigint,
             current_setting('tollgate.last')::bigint, count(*) FROM visits;",
    );
    let log = site.write_visits(0..30);
    site.load();
    assert_eq!(site.sql("SELECT * FROM totals"), format!("{log}|1|30|30"));
    let log = site.write_visits(30..50);
    site.load();
    assert_eq!(site.sql("SELECT * FROM totals ORDER BY rows DESC LIMIT 1"), format!("{log}|1|20|50"));
}

#[test]
fn an_error_in_the_file_stops_the_sink_and_takes_the_load_back() {
    let site = site_with("INSERT INTO totals (rows) VALUES (1); SELECT 1/0;");
    site.write_visits(0..30);
    let reason = site.load_until_stopped();
    assert!(reason.contains("after.sql after a load: division by zero (SQLSTATE 22012)"), "{reason}");
    // The load created the table for the first row. The rollback removes the table with the row.
    assert_eq!(site.sql("SELECT to_regclass('visits') IS NULL, count(*) FROM totals"), "t|0");
    assert_eq!(site.sql("SELECT count(*) FROM tollgate.rejects"), "0");
    fs::write(site.file("after.sql"), "INSERT INTO totals (rows) VALUES (1)").unwrap();
    site.load();
    site.assert_visits(0..30);
}

#[test]
fn a_file_that_ends_the_transaction_loses_nothing_and_doubles_nothing() {
    for end in ["ROLLBACK", "ROLLBACK; BEGIN", "ROLLBACK AND CHAIN"] {
        let site = site_with(end);
        site.write_visits(0..30);
        let reason = site.load_until_stopped();
        assert!(reason.contains("after.sql ended the transaction of the load"), "{end}: {reason}");
        fs::write(site.file("after.sql"), "").unwrap();
        site.load();
        site.assert_visits(0..30);
    }
    for end in ["COMMIT", "COMMIT; BEGIN", "COMMIT; SELECT 1/0"] {
        let site = site_with(end);
        site.write_visits(0..30);
        let _ = site.start().finish(crate::site::PATIENCE);
        fs::write(site.file("after.sql"), "").unwrap();
        site.load();
        site.assert_visits(0..30);
    }
}
