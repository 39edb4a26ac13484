//! Tests of tables that get new columns of their streams, and of streams that do not fit their tables.

use super::*;

#[test]
fn a_column_that_a_stream_gained_is_added() {
    let site = Site::new();
    site.write_visits(0..2);
    site.load();
    let mut columns = visits().columns().to_vec();
    columns.push(column("agent \"x\"", ColumnType::Text));
    site.write(vec![Schema::new("visits", columns).unwrap()], 4 << 10, |appender| {
        row(appender, &[Value::Int(2), Value::Text(""), Value::Null, Value::Text("curl")]);
    });
    assert_eq!(site.load().rows, 1);
    assert_eq!(site.ask::<String>("SELECT \"agent \"\"x\"\"\" FROM visits WHERE n = 2"), "curl");
    assert_eq!(site.ask::<i64>("SELECT count(*) FROM visits WHERE \"agent \"\"x\"\"\" IS NULL"), 2);
}

#[test]
fn a_column_that_a_stream_gains_in_the_middle_of_a_log_is_added_while_it_is_loaded() {
    let site = Site::new();
    let log = site.open_log(vec![visits()], 1 << 20);
    let follower = log.sink_followers(1).remove(0);
    let loader = Loader::start(site.options(), site.storage.clone(), Some(follower)).unwrap();
    let mut appender = log.appender(|| {});
    visit(&mut appender, 1);
    eventually("the first is loaded", || loader.status().rows == 1);
    let taller =
        Schema::new("visits", vec![column("n", ColumnType::Int), column("height", ColumnType::Float)]);
    let other = Schema::new("others", vec![column("n", ColumnType::Int)]);
    let numbers = log.declare(vec![taller.unwrap(), other.unwrap()]).unwrap();
    appender
        .append(Level::Synced, |transaction| {
            let values = [Value::Int(2), Value::Float(1.5)];
            transaction
                .row(numbers[0], |row| values.into_iter().try_for_each(|value| row.push(value)))
                .unwrap();
            transaction.row(numbers[1], |row| row.push(Value::Int(3))).unwrap();
        })
        .unwrap();
    hand_over(&mut appender);
    visit(&mut appender, 4);
    eventually("all are loaded", || loader.status().rows == 4);
    drop(appender);
    log.close().unwrap();
    loader.finish(PATIENCE).unwrap();
    assert_eq!(site.numbers(), [1, 2, 4]);
    assert_eq!(site.ask::<String>("SELECT group_concat(ifnull(height, '-'), ' ') FROM visits"), "- 1.5 -");
    assert_eq!(site.ask::<i64>("SELECT n FROM others"), 3);
}

pub(super) fn stop_reason(site: &Site) -> String {
    match site.start().finish(PATIENCE) {
        Err(FinishError::Stopped { reason, .. }) => reason,
        other => panic!("not stopped: {other:?}"),
    }
}

#[test]
fn a_changed_type_is_refused_before_anything_is_loaded() {
    let site = Site::new();
    site.write_visits(0..2);
    site.load();
    let columns = vec![column("n", ColumnType::Int), column("PATH", ColumnType::Timestamp)];
    site.write(vec![Schema::new("visits", columns).unwrap()], 4 << 10, |appender| {
        row(appender, &[Value::Int(2), Value::Timestamp(0)]);
    });
    let reason = stop_reason(&site);
    assert!(
        reason.contains("column \"PATH\" of table \"visits\" is text, the stream has timestamp"),
        "{reason}"
    );
    assert_eq!(site.numbers(), [0, 1]);
    site.connect().execute_batch("ALTER TABLE visits RENAME COLUMN path TO path_old").unwrap();
    assert_eq!(site.load().rows, 1);
    assert_eq!(site.ask::<String>("SELECT path FROM visits WHERE n = 2"), "1970-01-01T00:00:00.000000Z");
}

#[test]
fn streams_named_like_bookkeeping_or_like_another_but_for_case_are_refused() {
    for (name, expected) in
        [("tollgate_x", "reserved for bookkeeping"), ("SQLite_x", "reserved for bookkeeping")]
    {
        let site = Site::new();
        let schema = Schema::new(name, vec![column("n", ColumnType::Int)]).unwrap();
        site.write(vec![schema], 4 << 10, |appender| row(appender, &[Value::Int(1)]));
        let reason = stop_reason(&site);
        assert!(reason.contains(expected), "{reason}");
    }
    let site = Site::new();
    let other = Schema::new("Visits", vec![column("n", ColumnType::Int)]).unwrap();
    site.write(vec![visits(), other], 4 << 10, |appender| {
        visit(appender, 1);
        let row = appender.append(Level::Synced, |transaction| {
            transaction.row(SchemaId(1), |row| row.push(Value::Int(1))).unwrap();
        });
        row.unwrap();
        hand_over(appender);
    });
    assert!(stop_reason(&site).contains("only by case"));
}

fn numbered(n: u32) -> Schema {
    Schema::new(&format!("stream_{n}"), vec![column("n", ColumnType::Int)]).unwrap()
}

fn tables_of_streams(site: &Site) -> i64 {
    site.ask("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name LIKE 'stream%'")
}

#[test]
fn a_table_is_made_when_its_first_record_comes() {
    let site = Site::new();
    site.write((0..2_000).map(numbered).collect(), 4 << 20, |appender| {
        row(appender, &[Value::Int(1)]);
    });
    assert_eq!(site.load().rows, 1);
    assert_eq!(tables_of_streams(&site), 1);
}

#[test]
fn one_load_makes_a_bounded_number_of_tables() {
    let site = Site::new();
    site.write((0..500).map(numbered).collect(), 4 << 20, |appender| {
        for n in 0..500 {
            appender
                .append(Level::Synced, |transaction| {
                    transaction.row(SchemaId(n), |row| row.push(Value::Int(1))).unwrap();
                })
                .unwrap();
            hand_over(appender);
        }
    });
    let status = site.load();
    assert_eq!((status.rows, tables_of_streams(&site)), (500, 500));
    assert!(status.commits >= 500 / 64, "{} commits", status.commits);
}
