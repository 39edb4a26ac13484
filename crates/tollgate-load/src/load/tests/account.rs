//! Tests of the account of records that are not loaded yet, or whose segments are gone.

use super::*;

#[test]
fn segments_deleted_after_loading_are_no_loss() {
    let site = Site::new();
    let log = site.write_visits(0..300);
    site.load();
    for (_, path) in segments(&*site.storage, &site.dir(), log).unwrap().iter().take(2) {
        std::fs::remove_file(path).unwrap();
    }
    assert_eq!(site.load().missing, 0);
    let rows = site.audit();
    assert_eq!((only_row(&rows).ingested, only_row(&rows).loaded, only_row(&rows).missing), (300, 300, 0));
}

#[test]
fn the_audit_counts_what_is_not_loaded_yet_as_pending() {
    let site = Site::new();
    site.write_visits(0..300);
    let rows = site.audit();
    assert_eq!((only_row(&rows).ingested, only_row(&rows).pending), (300, 300));
    site.load();
    // The position is now as after a loader that stopped in the middle of a segment.
    let set =
        "UPDATE tollgate_positions SET last = 100, chain = NULL; UPDATE tollgate_counts SET loaded = 100";
    site.connect().execute_batch(set).unwrap();
    let rows = site.audit();
    let row = only_row(&rows);
    assert_eq!((row.ingested, row.pending, row.loaded, row.missing), (300, 200, 100, 0));
    // The audit has to find a row that the sink lost.
    site.connect().execute_batch("UPDATE tollgate_counts SET loaded = 99").unwrap();
    assert_eq!(only_row(&site.audit()).missing, 1);
}

#[test]
fn the_audit_counts_a_stream_that_changed_in_the_middle_of_a_segment_as_one() {
    let site = Site::new();
    let mut columns = visits().columns().to_vec();
    let took = Column { name: "took".to_owned(), kind: ColumnType::Float, origin: ColumnOrigin::Stored };
    columns.insert(2, took);
    let wide = Schema::new("visits", columns).unwrap();
    site.write(vec![visits(), wide], 1 << 20, |appender| {
        for n in 0..10 {
            visit(appender, n);
        }
        for n in 10..30 {
            let values = [Value::Int(n), Value::Text("/wide"), Value::Float(0.5)];
            let fill = |transaction: &mut tollgate_log::Transaction<'_>| {
                transaction.row(SchemaId(1), |row| values.iter().try_for_each(|value| row.push(*value)))
            };
            appender.append(Level::Synced, fill).unwrap().1.unwrap();
            hand_over(appender);
        }
    });
    site.load();
    for position in [30, 15, 5] {
        let set = format!(
            "UPDATE tollgate_positions SET last = {position}, chain = NULL; UPDATE tollgate_counts SET loaded = {position}"
        );
        site.connect().execute_batch(&set).unwrap();
        let rows = site.audit();
        let row = only_row(&rows);
        assert_eq!((row.ingested, row.loaded, row.missing), (30, position, 0), "{row:?}");
    }
}
