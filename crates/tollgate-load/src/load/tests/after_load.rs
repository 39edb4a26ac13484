//! Tests of the operator's own file at the end of each load.

use super::*;

#[test]
fn a_file_runs_in_the_transaction_of_each_load_and_knows_what_is_new() {
    let mut site = Site::new();
    let log = site.write_visits(0..30);
    let file = site.folder.path().join("after.sql");
    let text = "CREATE TABLE IF NOT EXISTS totals (log, first, last, n);
        INSERT INTO totals SELECT log, first, last, (SELECT count(*) FROM visits) FROM tollgate_load;";
    std::fs::write(&file, text).unwrap();
    site.after_load = Some(file);
    site.load();
    let total: String = site.ask("SELECT log || ' ' || first || ' ' || last || ' ' || n FROM totals");
    assert_eq!(total, format!("{log} 1 30 30"));
}

#[test]
fn a_file_that_fails_or_ends_the_transaction_loses_nothing_and_doubles_nothing() {
    for text in ["SELECT nonsense", "ROLLBACK", "ROLLBACK; BEGIN", "COMMIT", "COMMIT; BEGIN"] {
        let mut site = Site::new();
        site.write_visits(0..30);
        let file = site.folder.path().join("after.sql");
        std::fs::write(&file, text).unwrap();
        site.after_load = Some(file.clone());
        let result = site.start().finish(PATIENCE);
        if text != "COMMIT; BEGIN" {
            let reason = result.unwrap_err().to_string();
            assert!(reason.contains("after.sql"), "{reason}");
        }
        std::fs::write(&file, "").unwrap();
        site.load();
        assert_eq!(site.numbers(), (0..30).collect::<Vec<_>>(), "{text}");
        assert_eq!(only_row(&site.audit()).loaded, 30, "{text}");
    }
}

#[test]
fn a_file_whose_rows_lack_their_parents_at_the_commit_is_named() {
    let mut site = Site::new();
    site.write_visits(0..30);
    let tables = "CREATE TABLE known (n INTEGER PRIMARY KEY);
         CREATE TABLE seen (n INTEGER REFERENCES known DEFERRABLE INITIALLY DEFERRED)";
    site.connect().execute_batch(tables).unwrap();
    let file = site.folder.path().join("after.sql");
    std::fs::write(&file, "INSERT INTO seen VALUES (1)").unwrap();
    site.after_load = Some(file.clone());
    let reason = site.start().finish(PATIENCE).unwrap_err().to_string();
    assert!(reason.contains("after.sql") && reason.contains("FOREIGN KEY"), "{reason}");
    std::fs::write(&file, "").unwrap();
    site.load();
    assert_eq!(site.numbers(), (0..30).collect::<Vec<_>>());
    assert_eq!(only_row(&site.audit()).rejected, 0);
}
