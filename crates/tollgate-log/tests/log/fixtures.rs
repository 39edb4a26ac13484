//! Tests with segments that an earlier version of this program wrote. All later versions must read these
//! segments.
//!
//! `tests/fixtures/README.md` describes each file. A version that changes the format adds a folder and leaves
//! the others unchanged.

use std::borrow::Cow;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use tollgate_log::{
    ArrayBuffer, Column, ColumnOrigin, ColumnType, Cursor, CursorStep, Level, Log, LogId, LogOptions,
    OwnedArray, Record, RecordBody, Schema, SchemaId, SegmentDigestAlgorithm, SegmentEnd, SegmentHeader,
    Sequence, Transaction, Value, read_footer, recover, scan_segment, verify_segment,
};

use tollgate_value::{Date, Decimal, TimeOfDay};

use crate::sim::Sim;
use crate::workload::{dir, file_bytes, segments_of};

/// Sealed segments, with the digest of each.
const SEALED: [(&str, SegmentDigestAlgorithm); 5] = [
    ("none.sealed", SegmentDigestAlgorithm::None),
    ("sha224.sealed", SegmentDigestAlgorithm::Sha224),
    ("sha256.sealed", SegmentDigestAlgorithm::Sha256),
    ("sha384.sealed", SegmentDigestAlgorithm::Sha384),
    ("sha512.sealed", SegmentDigestAlgorithm::Sha512),
];
/// Unsealed segments with only whole batches: without a runway, and with one.
const UNSEALED: [&str; 2] = ["unsealed.open", "runway.open"];
/// Unsealed segments that are cut in their last batch: without a runway, and with one.
const TORN: [&str; 2] = ["torn.open", "torn-runway.open"];
/// Bytes that are missing at the end of the torn segments.
const TORN_BYTES: usize = 13;
/// A segment of a stream with a key. In version 1 it was written later than the other segments, because earlier
/// builds had no keys.
const KEYED: &str = "keyed.sealed";
const NODE: &str = "fixture";
/// Number of rounds of records. Each round is a batch.
const ROUNDS: u64 = 3;
/// Number of records of a round: two rows with every type, one row of the small stream, one reject.
const ROUND_RECORDS: u64 = 4;

/// A version of the format.
#[derive(Clone, Copy)]
struct Version {
    folder: &'static str,
    /// Number of types that the version has.
    types: usize,
}

const V1: Version = Version { folder: "v1", types: 9 };
const V2: Version = Version { folder: "v2", types: ColumnType::ALL.len() };

impl Version {
    fn fixture(self, name: &str) -> Vec<u8> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(self.folder);
        fs::read(folder.join(name)).unwrap()
    }

    /// Makes a schema with a column of every type, and the columns that are not stored.
    fn everything(self) -> Schema {
        let stored =
            ColumnType::ALL[..self.types].iter().map(|kind| (kind.name(), *kind, ColumnOrigin::Stored));
        let filled = [
            ("log".into(), ColumnType::Uuid, ColumnOrigin::LogId),
            ("number".into(), ColumnType::Int, ColumnOrigin::Sequence),
        ];
        let column =
            |(name, kind, origin): (Cow<'_, str>, _, _)| Column { name: name.into_owned(), kind, origin };
        Schema::new("everything", stored.chain(filled).map(column).collect()).unwrap()
    }
}

fn small() -> Schema {
    let column = Column { name: "n".to_owned(), kind: ColumnType::Int, origin: ColumnOrigin::Stored };
    Schema::new("small", vec![column]).unwrap()
}

/// Returns the texts of a round.
fn texts(round: u64) -> [String; 2] {
    [
        format!("round {round}: \u{fc}\u{1f600} \"quoted\"\n"),
        format!("{{\"round\":{round},\"list\":[1,null]}}"),
    ]
}

/// Calls `take` with a value of every type, in the order of the columns.
fn with_values<R>(round: u64, take: impl FnOnce(&[Value<'_>]) -> R) -> R {
    let texts = texts(round);
    let scalars = scalars(round, &texts);
    let arrays: Vec<_> = scalars.iter().filter_map(|value| array_of(*value)).collect();
    let all: Vec<_> = scalars.into_iter().chain(arrays.iter().map(OwnedArray::value)).collect();
    take(&all)
}

fn scalars(round: u64, texts: &[String; 2]) -> [Value<'_>; 12] {
    let address: [IpAddr; 2] = [[192, 0, 2, 7].into(), [0x2001, 0xdb8, 0, 0, 0, 0, 0, 9].into()];
    [
        Value::Bool(round.is_multiple_of(2)),
        Value::Int(i64::MIN + round as i64),
        Value::Float(0.1 + round as f64),
        Value::Text(&texts[0]),
        Value::Bytes(&[0, 255, b'T', b'O', b'L']),
        Value::Timestamp(1_700_000_000_123_456 + round as i64),
        Value::Json(&texts[1]),
        Value::Uuid([round as u8; 16]),
        Value::Inet(address[round as usize % 2]),
        Value::Decimal(Decimal::new(-12_345_678_901_234_567_890 + i128::from(round), 5).unwrap()),
        Value::Date(Date::from_days(20_000 + round as i32).unwrap()),
        Value::Time(TimeOfDay::from_microseconds(86_399_999_999 - round as i64).unwrap()),
    ]
}

/// Returns an array with a value, null, and the value again.
fn array_of(value: Value<'_>) -> Option<OwnedArray> {
    let mut buffer = ArrayBuffer::new(value.column_type()?.as_element()?);
    [value, Value::Null, value].into_iter().for_each(|value| buffer.push(value).unwrap());
    Some(buffer.finish())
}

fn append_round(transaction: &mut Transaction<'_>, round: u64) {
    with_values(round, |values| {
        transaction.row(SchemaId(0), |row| values.iter().try_for_each(|value| row.push(*value))).unwrap();
    });
    transaction.row(SchemaId(0), |_| Ok(())).unwrap();
    transaction.row(SchemaId(1), |row| row.push(Value::Int(round as i64))).unwrap();
    transaction.reject(SchemaId(1), "column \"n\" takes int, found \"many\"", b"{\"n\":\"many\"}\xff");
}

/// Makes a disk with a log that has only this fixture, under its original name.
fn on_disk(name: &str, bytes: &[u8]) -> (Sim, LogId) {
    let (header, _) = SegmentHeader::decode(bytes.first_chunk().unwrap()).unwrap();
    assert_eq!((header.first, header.chain, header.node.as_str()), (Sequence::FIRST, 0, NODE), "{name}");
    let state = Path::new(name).extension().unwrap().to_str().unwrap();
    let sim = Sim::new();
    let folder = dir().join(header.log.to_string());
    sim.put(&folder.join(format!("{:020}.{state}", header.first.0)), bytes);
    (sim, header.log)
}

/// Reads every record and compares every value. Returns the count of records.
fn check_records(version: Version, sim: &Sim, log: LogId, name: &str) -> u64 {
    let mut cursor = Cursor::new(sim.storage(), &dir(), log, None);
    let mut records = 0;
    loop {
        match cursor.step(None).unwrap() {
            CursorStep::CaughtUp => return records,
            CursorStep::Gap(gap) => panic!("{name}: {gap:?}"),
            CursorStep::Batch(batch) => {
                for record in batch.records() {
                    check_record(version, &record.unwrap(), log, name);
                    records += 1;
                }
            }
        }
    }
}

fn check_record(version: Version, record: &Record<'_>, log: LogId, name: &str) {
    let (round, place) = ((record.sequence.0 - 1) / ROUND_RECORDS, (record.sequence.0 - 1) % ROUND_RECORDS);
    let filled = [Value::Uuid(*log.as_bytes()), Value::Int(record.sequence.0 as i64)];
    let schema = if place < 2 { version.everything() } else { small() };
    assert_eq!(**record.schema, schema, "{name}: {}", record.sequence);
    match (&record.body, place) {
        (RecordBody::Row(found), 0) => {
            let (stored, last) = found.split_at(version.types);
            with_values(round, |values| {
                assert_eq!(*stored, values[..version.types], "{name}: {}", record.sequence);
            });
            assert_eq!(last, filled, "{name}: {}", record.sequence);
        }
        (RecordBody::Row(found), 1) => {
            assert_eq!(*found, [vec![Value::Null; version.types], filled.to_vec()].concat());
        }
        (RecordBody::Row(found), 2) => assert_eq!(*found, [Value::Int(round as i64)]),
        (RecordBody::Reject { reason, item }, 3) => {
            assert_eq!(*reason, "column \"n\" takes int, found \"many\"");
            assert_eq!(*item, b"{\"n\":\"many\"}\xff");
        }
        (body, _) => panic!("{name}: {} is {body:?}", record.sequence),
    }
}

#[test]
fn sealed_segments_of_each_version_read_value_by_value_and_their_digests_hold() {
    for version in [V1, V2] {
        for (name, algorithm) in SEALED {
            check_sealed(version, name, &version.fixture(name), algorithm);
        }
    }
}

fn check_sealed(version: Version, name: &str, bytes: &[u8], algorithm: SegmentDigestAlgorithm) {
    let (sim, log) = on_disk(name, bytes);
    assert_eq!(check_records(version, &sim, log, name), ROUNDS * ROUND_RECORDS, "{name}");
    let (segment, path) = segments_of(&sim, log).remove(0);
    let verdict = verify_segment(&sim, segment, &path, Some(SegmentEnd::OF_NOTHING)).unwrap();
    assert_eq!(verdict.problem, None, "{name}");
    let footer = read_footer(&sim, &path).unwrap().unwrap();
    assert_eq!((footer.digest.algorithm(), footer.digest_before), (algorithm, [0; 64]), "{name}");
    assert_eq!((footer.batches, footer.records), (ROUNDS + 1, ROUNDS * ROUND_RECORDS), "{name}");
    let counts: Vec<_> =
        footer.counts.iter().map(|count| (count.schema.0, count.rows, count.rejects)).collect();
    assert_eq!(counts, [(0, 2 * ROUNDS, 0), (1, ROUNDS, ROUNDS)], "{name}");
}

#[test]
fn an_unsealed_segment_of_each_version_reads_and_is_sealed() {
    for version in [V1, V2] {
        UNSEALED.iter().for_each(|name| check_unsealed(version, name, &version.fixture(name)));
    }
}

fn check_unsealed(version: Version, name: &str, bytes: &[u8]) {
    let (sim, log) = on_disk(name, bytes);
    assert_eq!(check_records(version, &sim, log, name), ROUNDS * ROUND_RECORDS);
    let report = recover(&sim.storage(), &dir(), SegmentDigestAlgorithm::Sha256).unwrap();
    assert_eq!((report.logs[0].sealed, report.logs[0].torn_bytes), (1, 0));
    assert_eq!(check_records(version, &sim, log, name), ROUNDS * ROUND_RECORDS);
}

#[test]
fn a_torn_tail_of_each_version_is_cut_behind_the_last_whole_batch() {
    for version in [V1, V2] {
        TORN.iter().for_each(|name| check_torn(version, name, &version.fixture(name)));
    }
}

fn check_torn(version: Version, name: &str, bytes: &[u8]) {
    let (sim, log) = on_disk(name, bytes);
    let path = segments_of(&sim, log).remove(0).1;
    let end = scan_segment(&sim, &path).unwrap().end;
    let report = recover(&sim.storage(), &dir(), SegmentDigestAlgorithm::Sha256).unwrap();
    assert_eq!(report.logs[0].torn_bytes, used(bytes) as u64 - end);
    assert_eq!(check_records(version, &sim, log, name), (ROUNDS - 1) * ROUND_RECORDS);
}

/// Returns the count of bytes without the zeros at the end.
fn used(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// Copies the written segments to the folder that `TOLLGATE_FIXTURES` names, if it is set.
#[test]
fn segments_written_now_pass_the_checks_of_version_2() {
    let kept = std::env::var_os("TOLLGATE_FIXTURES").map(PathBuf::from);
    let keep = |name: &str, bytes: &[u8]| {
        if let Some(folder) = &kept {
            fs::write(folder.join(name), bytes).unwrap();
        }
    };
    for (name, algorithm) in SEALED {
        let bytes = written(algorithm, true, true);
        check_sealed(V2, name, &bytes, algorithm);
        keep(name, &bytes);
    }
    for (place, has_runway) in [false, true].into_iter().enumerate() {
        let mut bytes = written(SegmentDigestAlgorithm::Sha256, false, has_runway);
        assert_eq!(bytes.len() > used(&bytes) + 7, has_runway);
        check_unsealed(V2, UNSEALED[place], &bytes);
        keep(UNSEALED[place], &bytes);
        let end = used(&bytes);
        bytes[end - TORN_BYTES..].fill(0);
        bytes.truncate(if has_runway { bytes.len() } else { end - TORN_BYTES });
        check_torn(V2, TORN[place], &bytes);
        keep(TORN[place], &bytes);
    }
}

/// Makes the schema of a stream whose records may have a key.
fn keyed() -> Schema {
    let column = |name: &str, kind, origin| Column { name: name.to_owned(), kind, origin };
    let key = column("(key)", ColumnType::Bytes, ColumnOrigin::Key { window_ms: 86_400_000 });
    Schema::new("keyed", vec![column("n", ColumnType::Int, ColumnOrigin::Stored), key]).unwrap()
}

#[test]
fn keys_of_each_version_read_value_by_value() {
    [V1, V2].iter().for_each(|version| check_keyed(&version.fixture(KEYED)));
}

fn check_keyed(bytes: &[u8]) {
    let (sim, log) = on_disk(KEYED, bytes);
    let mut cursor = Cursor::new(sim.storage(), &dir(), log, None);
    let mut rows = Vec::new();
    while let CursorStep::Batch(batch) = cursor.step(None).unwrap() {
        for record in batch.records() {
            let record = record.unwrap();
            assert_eq!(**record.schema, keyed());
            let RecordBody::Row(values) = &record.body else { panic!("{record:?}") };
            rows.push(format!("{values:?}"));
        }
    }
    assert_eq!(rows, ["[Int(1), Bytes([7, 7, 7, 7])]", "[Int(2), Null]"]);
}

#[test]
fn a_segment_with_keys_that_is_written_now_passes_the_checks_of_version_2() {
    let bytes =
        written_with(SegmentDigestAlgorithm::Sha256, vec![keyed()], true, true, 1, |transaction, _| {
            let row = |values: [Value<'static>; 2]| {
                move |row: &mut tollgate_log::RowEncoder<'_>| {
                    values.iter().try_for_each(|value| row.push(*value))
                }
            };
            transaction.row(SchemaId(0), row([Value::Int(1), Value::Bytes(&[7; 4])])).unwrap();
            transaction.row(SchemaId(0), row([Value::Int(2), Value::Null])).unwrap();
        });
    check_keyed(&bytes);
    if let Some(folder) = std::env::var_os("TOLLGATE_FIXTURES").map(PathBuf::from) {
        fs::write(folder.join(KEYED), bytes).unwrap();
    }
}

/// Returns the bytes of a segment that a log with threads wrote.
fn written(digest: SegmentDigestAlgorithm, is_sealed: bool, has_runway: bool) -> Vec<u8> {
    written_with(digest, vec![V2.everything(), small()], is_sealed, has_runway, ROUNDS, append_round)
}

fn written_with(
    digest: SegmentDigestAlgorithm,
    schemas: Vec<Schema>,
    is_sealed: bool,
    has_runway: bool,
    rounds: u64,
    append: impl Fn(&mut Transaction<'_>, u64),
) -> Vec<u8> {
    let sim = Sim::new();
    sim.set_in_place(has_runway);
    let (node, segment_bytes_max) = (NODE.to_owned(), 64 << 10);
    let options = LogOptions { digest, node, segment_bytes_max, ..LogOptions::new(&dir()) };
    let (log, _) = Log::open(sim.storage(), options, schemas, |_| {}).unwrap();
    let id = log.id();
    let mut appender = log.appender(|| {});
    for round in 0..rounds {
        let (appended, ()) =
            appender.append(Level::Synced, |transaction| append(transaction, round)).unwrap();
        assert!(appender.hand_over());
        sim.wait_until("it is synced", || appender.reached(appended.unwrap(), Level::Synced).is_some());
    }
    let bytes = |sim: &Sim| file_bytes(sim, &segments_of(sim, id)[0].1);
    let unsealed = bytes(&sim);
    drop(appender);
    log.close().unwrap();
    if is_sealed { bytes(&sim) } else { unsealed }
}
