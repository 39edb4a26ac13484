//! Files of a load, as a reader of Parquet finds them.

use std::fs::File;
use std::path::Path;

use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use tempfile::TempDir;
use tollgate_log::{Column, ColumnOrigin, ColumnType};

use super::*;
use crate::rows::GROUP_ROWS_MAX;

fn schema(columns: &[(&str, ColumnType)]) -> Arc<Schema> {
    let column = |(name, kind): &(&str, ColumnType)| Column {
        name: (*name).to_owned(),
        kind: *kind,
        origin: ColumnOrigin::Stored,
    };
    Arc::new(Schema::new("s", columns.iter().map(column).collect()).unwrap())
}

/// Writes rows of one stream and one day into one file.
fn written<'v>(
    folder: &Path,
    schema: &Arc<Schema>,
    rows: usize,
    row: impl Fn(usize) -> Vec<Value<'v>>,
) -> SerializedFileReader<File> {
    let log = LogId::from_bytes([7; 16]);
    let mut writers = Writers::new(folder.to_owned(), 64 << 20);
    for n in 0..rows {
        writers.row(schema, 0, &row(n), (log, Sequence(n as u64 + 1))).unwrap();
    }
    let load = LoadName::Next { log, first: Sequence::FIRST };
    let made = writers.finish(load, Sequence(rows as u64), "digest").unwrap();
    assert_eq!((made.facts.len(), made.facts[0].rows), (1, rows as u64));
    SerializedFileReader::new(File::open(&made.parts[0]).unwrap()).unwrap()
}

#[test]
fn a_row_group_has_a_bounded_number_of_rows_and_no_row_is_lost_between_two() {
    let folder = TempDir::new().unwrap();
    let rows = 2 * GROUP_ROWS_MAX + 10;
    let row = |n| vec![Value::Int(n as i64)];
    let file = written(folder.path(), &schema(&[("n", ColumnType::Int)]), rows, row);
    let groups: Vec<_> = file.metadata().row_groups().iter().map(RowGroupMetaData::num_rows).collect();
    assert_eq!(groups, [GROUP_ROWS_MAX as i64, GROUP_ROWS_MAX as i64, 10]);
    let numbers = file.get_row_iter(None).unwrap().map(|row| {
        let Some((_, Field::Long(n))) =
            row.unwrap().get_column_iter().next().map(|(a, b)| (a.clone(), b.clone()))
        else {
            panic!("no number")
        };
        n
    });
    assert!(numbers.eq(0..rows as i64));
}

#[test]
fn a_column_has_a_dictionary_if_half_of_its_values_repeat() {
    let folder = TempDir::new().unwrap();
    let kinds = [("few", ColumnType::Text), ("all", ColumnType::Int), ("half", ColumnType::Int)];
    let texts = ["a", "b", "c"];
    let row = |n: usize| vec![Value::Text(texts[n % 3]), Value::Int(n as i64), Value::Int((n / 2) as i64)];
    let file = written(folder.path(), &schema(&kinds), 3_000, row);
    let columns = file.metadata().row_group(0).columns().iter();
    let with: Vec<_> = columns
        .filter(|column| column.dictionary_page_offset().is_some())
        .map(|column| column.column_path().string())
        .collect();
    assert_eq!(with, ["few", "half"]);
}

#[test]
fn nulls_keep_their_rows_wherever_the_first_one_is() {
    for first in [0, 1, 1_023, 1_024, 2_999] {
        let folder = TempDir::new().unwrap();
        let is_null = |n: usize| n >= first && (n - first).is_multiple_of(7);
        let row = |n: usize| match is_null(n) {
            true => vec![Value::Null, Value::Null],
            false => vec![Value::Int(n as i64), Value::Text("/a")],
        };
        let kinds = [("n", ColumnType::Int), ("path", ColumnType::Text)];
        let file = written(folder.path(), &schema(&kinds), 3_000, row);
        for (n, row) in file.get_row_iter(None).unwrap().enumerate() {
            let row = row.unwrap();
            let found: Vec<_> = row.get_column_iter().take(2).map(|(_, field)| field.clone()).collect();
            let expected = match is_null(n) {
                true => [Field::Null, Field::Null],
                false => [Field::Long(n as i64), Field::Str("/a".to_owned())],
            };
            assert_eq!(found, expected, "row {n}, first null {first}");
        }
    }
}

#[test]
fn a_row_group_that_cannot_be_written_is_an_error_of_a_later_row() {
    let folder = TempDir::new().unwrap();
    let (log, schema) = (LogId::from_bytes([7; 16]), schema(&[("n", ColumnType::Int)]));
    // Each row is a row group.
    let mut writers = Writers::new(folder.path().join("missing"), 1);
    let mut row = |n| writers.row(&schema, 0, &[Value::Int(n)], (log, Sequence::FIRST));
    // The bytes of short row groups gather before they are written.
    let error = (0..1_000).find_map(|n| row(n).err()).unwrap().to_string();
    assert!(error.contains("cannot write"), "{error}");
}
