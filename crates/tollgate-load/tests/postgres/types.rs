//! Tests of decimals, dates, times and arrays in PostgreSQL.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tollgate_log::{ArrayBuffer, ColumnType, ElementType, OwnedArray, Schema, Value};
use tollgate_value::{Date, Decimal, DecimalSize, TimeOfDay};

use crate::cluster::shared;
use crate::site::{Site, column, row};

const ROWS: usize = 200;

fn decimal(text: &str) -> Value<'static> {
    Value::Decimal(Decimal::parse(text).unwrap())
}

fn array(element: ElementType, values: &[Value<'_>]) -> OwnedArray {
    let mut buffer = ArrayBuffer::new(element);
    values.iter().for_each(|value| buffer.push(*value).unwrap());
    buffer.finish()
}

fn schema(stream: &str, columns: &[(&str, &str)]) -> Schema {
    let typed = |(name, kind): &(&str, &str)| column(name, ColumnType::from_name(kind).unwrap());
    Schema::new(stream, columns.iter().map(typed).collect()).unwrap()
}

#[test]
fn the_columns_made_have_the_types_of_postgresql() {
    let site = Site::new(shared());
    let columns = [
        ("price", "decimal(12,2)"),
        ("any", "decimal"),
        ("day", "date"),
        ("at", "time"),
        ("counts", "int[]"),
        ("prices", "decimal(12,2)[]"),
        ("times", "timestamp[]"),
    ];
    site.write(&[schema("sales", &columns)], |appender| {
        row(appender, &[Value::Null; 7]);
    });
    assert_eq!(site.load().rows, 1);
    let made = "SELECT string_agg(format_type(atttypid, atttypmod), ', ' ORDER BY attnum) FROM pg_attribute \
                WHERE attrelid = 'sales'::regclass AND attnum > 0";
    assert_eq!(
        site.sql(made),
        "numeric(12,2), numeric, date, time without time zone, bigint[], numeric(12,2)[], \
         timestamp with time zone[]"
    );
}

#[test]
fn extremes_arrive_as_they_are() {
    let site = Site::new(shared());
    let nines = "9".repeat(38);
    let tiny = format!("-0.{nines}");
    site.write(
        &[schema("ends", &[("n", "int"), ("d", "decimal"), ("day", "date"), ("t", "time")])],
        |appender| {
            let (first, midnight) =
                (Value::Date(Date::FIRST), Value::Time(TimeOfDay::from_microseconds(0).unwrap()));
            let (last, end) = (Value::Date(Date::LAST), Value::Time(TimeOfDay::LAST));
            row(appender, &[Value::Int(1), decimal(&nines), first, midnight]);
            row(appender, &[Value::Int(2), decimal(&tiny), last, end]);
            row(appender, &[Value::Int(3), decimal("0.00"), Value::Null, Value::Null]);
            row(appender, &[Value::Int(4), decimal("-10000.0001"), Value::Null, Value::Null]);
        },
    );
    assert_eq!(site.load().rows, 4);
    assert_eq!(
        site.sql("SELECT d, day, t FROM ends ORDER BY n"),
        format!("{nines}|0001-01-01|00:00:00\n{tiny}|9999-12-31|23:59:59.999999\n0.00||\n-10000.0001||")
    );
}

#[test]
fn arrays_arrive_with_their_nulls() {
    let site = Site::new(shared());
    let columns =
        [("n", "int"), ("i", "int[]"), ("s", "text[]"), ("f", "float[]"), ("b", "bool[]"), ("a", "inet[]")];
    site.write(&[schema("lists", &columns)], |appender| {
        let full = [
            array(ElementType::Int, &[Value::Int(i64::MAX), Value::Null]),
            array(
                ElementType::Text,
                &[Value::Text("a,b"), Value::Text(""), Value::Text("NULL"), Value::Null],
            ),
            array(ElementType::Float, &[Value::Float(f64::NAN), Value::Float(-0.5)]),
            array(ElementType::Bool, &[Value::Bool(true)]),
            array(ElementType::Inet, &[Value::Inet("::1".parse().unwrap())]),
        ];
        let empty =
            [ElementType::Int, ElementType::Text, ElementType::Float, ElementType::Bool, ElementType::Inet];
        let empty = empty.map(|element| array(element, &[]));
        for (n, lists) in (1..).zip([full, empty]) {
            let values: Vec<_> =
                std::iter::once(Value::Int(n)).chain(lists.iter().map(OwnedArray::value)).collect();
            row(appender, &values);
        }
    });
    assert_eq!(site.load().rows, 2);
    assert_eq!(
        site.sql("SELECT i, s, f, b, a FROM lists ORDER BY n"),
        "{9223372036854775807,NULL}|{\"a,b\",\"\",\"NULL\",NULL}|{NaN,-0.5}|{t}|{::1}\n{}|{}|{}|{}|{}"
    );
}

#[test]
fn tables_of_other_types_take_what_fits_and_nothing_is_rounded() {
    let site = Site::new(shared());
    site.sql(
        "CREATE EXTENSION IF NOT EXISTS citext;
         CREATE TYPE mood AS ENUM ('good', 'bad');
         CREATE DOMAIN money_of_shop AS numeric(6,1);
         CREATE DOMAIN small AS smallint CHECK (VALUE < 100);
         CREATE TABLE sales (
             n bigint, price numeric(6,1), shop money_of_shop, hundreds numeric(6,0), at time(0),
             moods mood[], names varchar(3)[], counts small[], prices numeric(4,1)[], anycase citext[])",
    );
    let columns = [
        ("n", "int"),
        ("price", "decimal(12,2)"),
        ("shop", "decimal"),
        ("hundreds", "decimal"),
        ("at", "time"),
        ("moods", "text[]"),
        ("names", "text[]"),
        ("counts", "int[]"),
        ("prices", "decimal[]"),
        ("anycase", "text[]"),
    ];
    site.write(&[schema("sales", &columns)], |appender| {
        let mut n = 0;
        let mut put = |price: &str, shop: &str, at: &str, mood, name, count, of_list: &str| {
            n += 1;
            let lists = [
                array(ElementType::Text, &[Value::Text(mood)]),
                array(ElementType::Text, &[Value::Text(name)]),
                array(ElementType::Int, &[Value::Int(count)]),
                array(ElementType::Decimal(None), &[decimal(of_list)]),
                array(ElementType::Text, &[Value::Text("X")]),
            ];
            let at = Value::Time(TimeOfDay::parse(at).unwrap());
            let values = [Value::Int(n), decimal(price), decimal(shop), decimal("5"), at];
            let values: Vec<_> = values.into_iter().chain(lists.iter().map(OwnedArray::value)).collect();
            row(appender, &values);
        };
        put("1.50", "2.5", "10:00", "good", "abc", 99, "1.1");
        put("1.55", "2.5", "10:00", "good", "abc", 1, "1.1");
        put("1.50", "2.55", "10:00", "good", "abc", 1, "1.1");
        put("999999.00", "2.5", "10:00", "good", "abc", 1, "1.1");
        put("1.50", "2.5", "10:00:00.5", "good", "abc", 1, "1.1");
        put("1.50", "2.5", "10:00", "ugly", "abc", 1, "1.1");
        put("1.50", "2.5", "10:00", "good", "abcd", 1, "1.1");
        put("1.50", "2.5", "10:00", "good", "abc", 40_000, "1.1");
        put("1.50", "2.5", "10:00", "good", "abc", 100, "1.1");
        put("1.50", "2.5", "10:00", "good", "abc", 1, "1.15");
    });
    let status = site.load();
    assert_eq!((status.rows, status.rejects), (1, 9));
    assert_eq!(site.sql("SELECT * FROM sales"), "1|1.5|2.5|5|10:00:00|{good}|{abc}|{99}|{1.1}|{X}");
    let reasons = site.sql("SELECT reason FROM tollgate.rejects ORDER BY sequence");
    let lines: Vec<_> = reasons.lines().collect();
    let expected = [
        "column \"price\": number 1.55 has more digits than a column of type numeric with the scale 1",
        "column \"shop\": number 2.55 has more digits than a column of type numeric with the scale 1",
        "numeric field overflow",
        "column \"at\": time 10:00:00.5 has more digits than a column of type time(0)",
        "invalid input value for enum mood",
        "value too long for type character varying(3)",
        "column \"counts\": element 1: integer 40000 does not fit a column of type smallint",
        "value for domain small violates check constraint",
        "column \"prices\": element 1: number 1.15 has more digits than a column of type numeric",
    ];
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}\n{expected}");
    }
    assert_eq!(lines.len(), expected.len());
    // The database refused this row, so the sink decoded its arrays again.
    let kept = site.sql("SELECT text FROM tollgate.rejects WHERE reason LIKE 'invalid input%'");
    let expected = "\"moods\":[\"ugly\"],\"n\":6,\"names\":[\"abc\"],\"price\":\"1.50\",\"prices\":[\"1.1\"]";
    assert!(kept.contains(expected), "{kept}");
}

#[test]
fn a_table_with_another_type_is_refused_before_a_row_is_loaded() {
    for (kind, table_type) in [
        ("decimal(5,2)", "double precision"),
        ("decimal", "bigint"),
        ("date", "timestamp with time zone"),
        ("time", "time with time zone"),
        ("int[]", "bigint"),
        ("int[]", "text[]"),
        ("int[]", "int2vector"),
        ("int", "bigint[]"),
    ] {
        let site = Site::new(shared());
        site.sql(&format!("CREATE TABLE sales (c {table_type})"));
        site.write(&[schema("sales", &[("c", kind)])], |appender| {
            row(appender, &[Value::Null]);
        });
        let reason = site.load_until_stopped();
        let expected =
            format!("column \"c\" of table \"public.sales\" is {table_type}, the stream has {kind}");
        assert!(reason.contains(&expected), "{reason}");
    }
}

#[test]
fn a_table_is_made_with_the_size_of_the_configuration() {
    let mut site = Site::new(shared());
    let of_size = |kind| schema("sales", &[("n", "int"), ("price", kind)]);
    site.options.declared = [of_size("decimal(8,3)")].into_iter().collect();
    site.write(&[of_size("decimal(5,2)")], |appender| {
        row(appender, &[Value::Int(1), decimal("1.50")]);
    });
    site.write(&[of_size("decimal(8,3)")], |appender| {
        row(appender, &[Value::Int(2), decimal("1.555")]);
    });
    assert_eq!(site.load().rows, 2);
    assert_eq!(site.sql("SELECT price FROM sales ORDER BY n"), "1.500\n1.555");
}

/// A row of random values.
#[derive(Debug)]
struct Random {
    any: Decimal,
    sized: Decimal,
    day: Date,
    at: TimeOfDay,
    counts: Vec<Option<i64>>,
    prices: Vec<Option<Decimal>>,
}

fn random() -> impl Strategy<Value = Random> {
    let of_digits = |digits: u32| -10_i128.pow(digits) + 1..10_i128.pow(digits);
    let size = DecimalSize::new(20, 7).unwrap();
    let any = move || (prop_oneof![of_digits(38), of_digits(5)], 0..=38_u8);
    let any = move || any().prop_map(|(coefficient, scale)| Decimal::new(coefficient, scale).unwrap());
    let sized = of_digits(20).prop_map(move |coefficient| {
        Decimal::new(coefficient, 7).and_then(|one| one.with_size(size)).unwrap()
    });
    let day = (Date::FIRST.days()..=Date::LAST.days()).prop_map(|days| Date::from_days(days).unwrap());
    let at = (0..=TimeOfDay::LAST.microseconds()).prop_map(|us| TimeOfDay::from_microseconds(us).unwrap());
    let counts = prop::collection::vec(any_int(), 0..20);
    let prices = prop::collection::vec(prop::option::of(any()), 0..20);
    (any(), sized, day, at, counts, prices).prop_map(|(any, sized, day, at, counts, prices)| Random {
        any,
        sized,
        day,
        at,
        counts,
        prices,
    })
}

fn any_int() -> impl Strategy<Value = Option<i64>> {
    prop::option::of(any::<i64>())
}

fn list<T: Copy>(values: &[Option<T>], value: impl Fn(T) -> Value<'static>) -> Vec<Value<'static>> {
    values.iter().map(|one| one.map_or(Value::Null, &value)).collect()
}

fn shown<T: ToString>(values: &[Option<T>]) -> String {
    let shown = |value: &Option<T>| value.as_ref().map_or("NULL".to_owned(), ToString::to_string);
    format!("{{{}}}", values.iter().map(shown).collect::<Vec<_>>().join(","))
}

#[test]
fn random_values_arrive_as_they_are() {
    let site = Site::new(shared());
    let columns = [
        ("n", "int"),
        ("any", "decimal"),
        ("sized", "decimal(20,7)"),
        ("day", "date"),
        ("at", "time"),
        ("counts", "int[]"),
        ("prices", "decimal[]"),
    ];
    let mut runner = TestRunner::deterministic();
    let rows: Vec<_> = (0..ROWS).map(|_| random().new_tree(&mut runner).unwrap().current()).collect();
    site.write(&[schema("random", &columns)], |appender| {
        for (n, one) in (0..).zip(&rows) {
            let counts = array(ElementType::Int, &list(&one.counts, Value::Int));
            let prices = array(ElementType::Decimal(None), &list(&one.prices, Value::Decimal));
            let scalars = [
                Value::Int(n),
                Value::Decimal(one.any),
                Value::Decimal(one.sized),
                Value::Date(one.day),
                Value::Time(one.at),
            ];
            row(appender, &[&scalars[..], &[counts.value(), prices.value()]].concat());
        }
    });
    assert_eq!(site.load().rows, ROWS as u64);
    let found = site.sql("SELECT * FROM random ORDER BY n");
    for ((n, one), line) in (0..).zip(&rows).zip(found.lines()) {
        let Random { any, sized, day, at, counts, prices } = one;
        let expected = format!("{n}|{any}|{sized}|{day}|{at}|{}|{}", shown(counts), shown(prices));
        assert_eq!(line, expected);
    }
}
