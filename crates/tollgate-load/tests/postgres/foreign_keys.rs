//! Tests of rows that refer to rows of the same load. A parent may come after its children, in another stream
//! or in the same stream.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tollgate_log::{Appender, ColumnType, Level, RowEncoder, Schema, SchemaId, Value};

use crate::cluster::shared;
use crate::site::{Site, column, eventually, visits};

/// Streams of a log. The index of a stream is its schema number.
const STREAMS: [&str; 3] = ["items", "orders", "visits"];

fn streams() -> Vec<Schema> {
    let of = |name, columns: &[&str]| {
        Schema::new(name, columns.iter().map(|name| column(name, ColumnType::Int)).collect()).unwrap()
    };
    vec![of("items", &["n", "order_n"]), of("orders", &["n"]), visits()]
}

enum Put {
    Item(i64, i64),
    Order(i64),
    Visit(i64),
}

use Put::{Item, Order, Visit};

fn put(appender: &mut Appender, record: &Put) {
    match *record {
        Item(n, order) => append(appender, 0, &[Value::Int(n), Value::Int(order)]),
        Order(n) => append(appender, 1, &[Value::Int(n)]),
        Visit(n) => append(appender, 2, &[Value::Int(n), Value::Text("path")]),
    }
}

fn append(appender: &mut Appender, schema: u16, values: &[Value<'_>]) {
    let fill = |row: &mut RowEncoder<'_>| values.iter().try_for_each(|value| row.push(*value));
    let (_, row) =
        appender.append(Level::Synced, |transaction| transaction.row(SchemaId(schema), fill)).unwrap();
    row.unwrap();
    eventually("the writer takes a batch", || appender.hand_over());
}

const DEFERRED: &str = "DEFERRABLE INITIALLY DEFERRED";
/// All ways to declare a foreign key.
const MODES: [&str; 3] = [DEFERRED, "DEFERRABLE INITIALLY IMMEDIATE", "NOT DEFERRABLE"];

/// Makes a database where items refer to orders. The database refuses negative numbers.
fn shop(mode: &str) -> Site<'static> {
    let site = Site::new(shared());
    site.sql(&format!(
        "CREATE TABLE orders (n bigint PRIMARY KEY CHECK (n >= 0));
         CREATE TABLE items (n bigint CHECK (n >= 0), order_n bigint REFERENCES orders {mode});
         CREATE TABLE visits (n bigint CHECK (n >= 0), path text)"
    ));
    site
}

impl Site<'_> {
    fn write_records(&self, records: &[Put]) {
        self.write(&streams(), |appender| records.iter().for_each(|record| put(appender, record)));
    }

    /// Loads the log, and checks the stream and the number of all rejects.
    fn assert_rejects(&self, expected: &str) {
        self.load();
        let rejects = "SELECT string_agg(stream || ' ' || (text::json->>'n'), ', ' ORDER BY sequence) FROM tollgate.rejects";
        assert_eq!(self.sql(rejects), expected);
    }

    fn count_of(&self, table: &str) -> String {
        self.sql(&format!("SELECT count(*) FROM {table}"))
    }
}

#[test]
fn a_bad_row_of_any_stream_takes_no_children_with_it_whose_parents_come_later() {
    for mode in MODES {
        for (bad, reject) in [(Visit(-1), "visits -1"), (Item(-1, 1), "items -1"), (Order(-1), "orders -1")] {
            let site = shop(mode);
            site.write_records(&[Item(1, 1), Item(2, 2), bad, Visit(1), Order(2), Item(3, 1), Order(1)]);
            site.assert_rejects(reject);
            assert_eq!(STREAMS.map(|table| site.count_of(table)), ["3", "2", "1"], "{mode}, {reject}");
        }
    }
}

#[test]
fn a_child_without_a_parent_is_the_one_reject_among_those_whose_parents_come_later() {
    for mode in MODES {
        let site = shop(mode);
        let mut records: Vec<_> = (0..60).map(|n| Item(n, n)).collect();
        records.insert(31, Item(1000, 1000));
        records.extend((0..60).map(Order));
        site.write_records(&records);
        site.assert_rejects("items 1000");
        let reason = site.sql("SELECT reason FROM tollgate.rejects");
        assert!(reason.contains("(SQLSTATE 23503: Key (order_n)=(1000) is not present"), "{reason}");
        assert_eq!(site.count_of("items"), "60");
        assert_eq!(site.audit().iter().map(|row| (row.loaded, row.rejected)).max(), Some((60, 1)));
    }
}

#[test]
fn rows_that_wait_for_their_parents_do_not_count_as_refused() {
    let mut site = shop(DEFERRED);
    site.options.rejects_max = 1;
    let mut records: Vec<_> = (0..40).map(|n| Item(n, n)).collect();
    records.push(Visit(-1));
    records.extend((0..40).map(Order));
    site.write_records(&records);
    site.assert_rejects("visits -1");
    assert_eq!(site.sql("SELECT sum(refused) FROM tollgate.refusals"), "1");
}

#[test]
fn too_many_rows_without_parents_stop_the_sink() {
    let mut site = shop(DEFERRED);
    site.options.rejects_max = 4;
    site.write_records(&(0..20).map(|n| Item(n, n % 10)).chain((0..8).map(Order)).collect::<Vec<_>>());
    site.assert_rejects("items 8, items 9, items 18, items 19");
    site.write_records(&(20..25).map(|n| Item(n, 100)).collect::<Vec<_>>());
    let reason = site.load_until_stopped();
    assert!(reason.contains("database refused 5 rows of one segment"), "{reason}");
}

#[test]
fn a_row_that_waited_comes_in_behind_those_that_did_not() {
    let site = shop(DEFERRED);
    site.sql("ALTER TABLE items ADD UNIQUE (order_n)");
    site.write_records(&[Item(1, 1), Visit(-1), Item(2, 1), Order(1)]);
    site.assert_rejects("items 1, visits -1");
}

fn nodes() -> Schema {
    Schema::new("nodes", vec![column("n", ColumnType::Int), column("parent", ColumnType::Int)]).unwrap()
}

/// A node and its parent.
type Node = (i64, Option<i64>);

/// Loads nodes that refer to each other. Returns the numbers of the nodes that were loaded.
fn loaded_nodes(mode: &str, nodes_in_order: &[Node]) -> BTreeSet<i64> {
    let site = Site::new(shared());
    site.sql(&format!("CREATE TABLE nodes (n bigint PRIMARY KEY, parent bigint REFERENCES nodes {mode})"));
    site.write(&[nodes()], |appender| {
        for (n, parent) in nodes_in_order {
            append(appender, 0, &[Value::Int(*n), parent.map_or(Value::Null, Value::Int)]);
        }
    });
    let status = site.load();
    assert_eq!(status.rows + status.rejects, nodes_in_order.len() as u64);
    let loaded = site.sql("SELECT n FROM nodes");
    loaded.lines().map(|n| n.parse().unwrap()).collect()
}

#[test]
fn a_chain_of_parents_that_come_later_is_loaded_link_by_link() {
    for mode in MODES {
        let mut chain: Vec<Node> = (0..100).map(|n| (n, Some(n + 1))).collect();
        chain.push((100, None));
        chain.insert(50, (1000, Some(2000)));
        assert_eq!(loaded_nodes(mode, &chain), (0..=100).collect(), "{mode}");
    }
}

#[test]
fn rows_that_are_each_others_parents_are_tried_together() {
    // The two bad rows make the bisection split the range, so that the nodes of the ring are in different
    // parts.
    let ring = [(1, Some(4)), (2, Some(1)), (-1, None), (-1, None), (3, Some(2)), (4, Some(3))];
    assert_eq!(loaded_nodes(DEFERRED, &ring), BTreeSet::from([-1, 1, 2, 3, 4]));
}

/// Returns the nodes whose chain of parents ends at a node without a parent.
fn model(nodes: &[Node]) -> BTreeSet<i64> {
    let mut loaded = BTreeSet::new();
    for _ in nodes {
        let fit = nodes.iter().filter(|(_, parent)| parent.is_none_or(|parent| loaded.contains(&parent)));
        loaded = fit.map(|(n, _)| *n).collect();
    }
    loaded
}

/// Makes nodes in any order. Each has no parent, a parent with a lower number, or a missing parent.
fn any_nodes() -> impl Strategy<Value = Vec<Node>> {
    let parents = prop::collection::vec(prop_oneof![Just(-1), Just(-2), 0..16_i64, 0..16_i64], 1..16);
    parents.prop_flat_map(|parents| {
        let node = |(n, parent): (i64, i64)| match parent {
            -1 => (n, None),
            -2 => (n, Some(1000)),
            parent => (n, (n > 0).then(|| parent % n)),
        };
        Just((0..).zip(parents).map(node).collect::<Vec<_>>()).prop_shuffle()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn rows_have_their_parents_in_any_order_of_arrival(
        nodes in any_nodes(),
        mode in prop::sample::select(MODES.to_vec()),
    ) {
        prop_assert_eq!(loaded_nodes(mode, &nodes), model(&nodes));
    }
}
