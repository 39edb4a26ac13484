//! Tests with segments that were changed with knowledge of their structure. Every checksum, chain and digest
//! is right, and the numbers are extreme.
//!
//! The test makes `TOLLGATE_MUTANTS` changed logs (mutants), with `MUTANTS_AT_ONCE` of them in one folder.
//! They are loaded into SQLite, and in one of `ROUNDS_OF_POSTGRES` rounds also into PostgreSQL. With any
//! mutant, each command ends and each start serves. The log of this run and an intact earlier log are loaded.
//! No thread panics.

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::cluster::shared;
use crate::forge::{Forged, ForgedBatch, int_row, schema_record};
use crate::program::{App, KEEP, PATIENCE, Running, eventually, printed};

/// Number of mutants in the folder of one start.
const MUTANTS_AT_ONCE: usize = 25;
/// PostgreSQL needs milliseconds to make a table, so only some rounds use it.
const ROUNDS_OF_POSTGRES: usize = 4;
/// Maximum time of a command over a folder of mutants. The slowest command reads every byte of the folder.
const COMMAND_TIME: Duration = Duration::from_secs(30);
/// Numbers of the records in the intact log.
const CONTROL: [i64; 3] = [1, 2, 3];
/// Numbers of the records in the log that is written while the mutants are in its folder.
const LIVE: [i64; 2] = [11, 12];

/// Numbers at which arithmetic, databases or bounds may fail.
const EXTREMES: [u64; 16] = [
    0,
    1,
    2,
    7,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    1 << 53,
    (1 << 56) - 1,
    1 << 56,
    (1 << 63) - 2,
    (1 << 63) - 1,
    1 << 63,
    (1 << 63) + 1,
    u64::MAX - 1,
    u64::MAX,
];

const CONFIG: &str = "[log]\nsegment_bytes_max = \"4KiB\"\nsegment_age_max = \"10ms\"\n\
    [stream.a]\ncolumns = [{ name = \"n\", type = \"int\", from = \"record.n\" }]\n\
    [[route]]\npath = \"/a\"\nscript = \"keep.luau\"\nstream = \"a\"\n";

fn number_from(name: &str, otherwise: u64) -> u64 {
    env::var(name).map_or(otherwise, |value| value.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Pseudorandom numbers from a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    fn extreme(&mut self) -> u64 {
        match self.below(4) {
            0 => self.next(),
            _ => self.pick(&EXTREMES),
        }
    }
}

/// A log of a few segments, as names and bytes.
#[derive(Clone)]
struct Model {
    segments: Vec<(String, Vec<u8>)>,
}

impl Model {
    /// Returns a log that a server wrote and sealed, with one record in each of its segments.
    fn written() -> Self {
        let app = App::new(CONFIG, &[("keep.luau", KEEP)]);
        let server = app.start();
        for n in 101..104 {
            send(&server, n);
            let sealed = || {
                app.segments()
                    .iter()
                    .filter(|path| path.extension().is_some_and(|end| end == "sealed"))
                    .count()
            };
            eventually("the segment is sealed", || (sealed() as i64 == n - 100).then_some(()));
        }
        assert!(server.stop().0.success());
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        let segments = app.segments().iter().map(|path| (name(path), fs::read(path).unwrap())).collect();
        Self { segments }
    }
}

fn send(server: &Running, n: i64) {
    assert!(server.connect().get(&format!("/a?n={n}")).unwrap().is_success());
}

/// A changed log, in the folder of its own id.
struct Mutant<'a> {
    random: Random,
    /// The folder of all logs.
    dir: &'a Path,
    id: String,
    segments: Vec<(String, Forged)>,
    /// Names of segments that special files replace, with the kind of each file. These files are made after
    /// the segments.
    special: Vec<(String, usize)>,
    deleted: Vec<u64>,
    /// Text of the changes, for the message of a failure.
    story: Vec<String>,
}

impl<'a> Mutant<'a> {
    fn new(model: &Model, dir: &'a Path, seed: u64) -> Self {
        let mut random = Random(seed);
        let mut id = [0; 16];
        id[..8].copy_from_slice(&random.next().to_be_bytes());
        id[8..].copy_from_slice(&random.next().to_be_bytes());
        // A UUID of version 7 that is older than the log of any server.
        (id[0], id[6], id[8]) = (0, 0x70 | id[6] & 0xf, 0x80 | id[8] & 0x3f);
        let segment = |(name, bytes): &(String, Vec<u8>)| {
            let mut forged = Forged::parse(bytes);
            forged.header[16..32].copy_from_slice(&id);
            (name.clone(), forged)
        };
        let segments = model.segments.iter().map(segment).collect();
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let id = format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
        let mut mutant =
            Self { random, dir, id, segments, special: Vec::new(), deleted: Vec::new(), story: Vec::new() };
        mutant.fit_chain();
        for _ in 0..1 + mutant.random.below(3) {
            mutant.mutate();
        }
        mutant
    }

    /// Corrects the chained checksums in the segments, because the new id changed them.
    fn fit_chain(&mut self) {
        let mut chain = 0_u32;
        for (_, forged) in &mut self.segments {
            forged.header[64..68].copy_from_slice(&chain.to_le_bytes());
            let bytes = forged.bytes();
            let content: usize =
                forged.batches.iter().map(|batch| 64 + batch.payload.len().next_multiple_of(8)).sum();
            let footer = 128 + content;
            chain = u32::from_le_bytes(bytes[footer + 48..footer + 52].try_into().unwrap());
        }
    }

    fn note(&mut self, text: impl Into<String>) {
        self.story.push(text.into());
    }

    fn mutate(&mut self) {
        let place = self.random.below(self.segments.len());
        match self.random.below(13) {
            0 | 1 => self.mutate_footer(place),
            2 | 3 => self.mutate_batch(place),
            4 => self.mutate_header(place),
            5 => self.mutate_name(place),
            6 => self.make_special(place),
            7 => self.flood(place),
            8 => self.mutate_payload(place),
            9 => self.change_order(place),
            10 => self.make_gap(place),
            11 => self.mutate_end(place),
            _ => self.note_deleted(),
        }
    }

    fn mutate_footer(&mut self, place: usize) {
        let (field, number) = (self.random.below(10), self.random.extreme());
        self.note(format!("footer {place}, field {field} is {number}"));
        let Some(footer) = &mut self.segments[place].1.footer else { return };
        match field {
            0 => footer.last = number,
            1 => footer.records = number,
            2 => footer.batches = number,
            3 => footer.content_bytes = Some(number),
            4 => footer.nonce = Some(number),
            5 => footer.chain = Some(number as u32),
            6 => footer.digest = Some([number as u8; 64]),
            7 => footer.digest_number = number as u8,
            8 => footer.counts = vec![(number as u16, number, number.wrapping_neg())],
            _ => footer.digest_before = [number as u8; 64],
        }
        // Consistent numbers in header and footer pass more checks.
        if field < 2 && self.random.below(2) == 0 {
            let first = self.segments[place].1.first();
            let Some(footer) = &mut self.segments[place].1.footer else { return };
            (footer.records, footer.last) = (number, first.wrapping_add(number).wrapping_sub(1));
            footer.counts = vec![(0, number, 0)];
        }
    }

    fn mutate_batch(&mut self, place: usize) {
        let (field, number) = (self.random.below(9), self.random.extreme());
        let at = self.random.below(self.segments[place].1.batches.len());
        self.note(format!("batch {at} of {place}, field {field} is {number}"));
        let Some(batch) = self.segments[place].1.batches.get_mut(at) else { return };
        match field {
            0 => (batch.first, batch.durable) = (number, number.wrapping_sub(1)),
            1 => batch.first = number,
            2 => batch.count = number as u32,
            3 => batch.durable = number,
            4 => batch.mask = number,
            5 => batch.stamp = number,
            6 => batch.kind = number as u8,
            7 => batch.payload_bytes = Some(number as u32),
            _ => batch.nonce = Some(number),
        }
    }

    fn mutate_header(&mut self, place: usize) {
        let (field, number) = (self.random.below(6), self.random.extreme());
        self.note(format!("header {place}, field {field} is {number}"));
        let forged = &mut self.segments[place].1;
        match field {
            0 => forged.set_nonce(u64::from_le_bytes(*b"TGSEALED")),
            1 => forged.set_nonce(number),
            2 => forged.set_first(number),
            3 => forged.header[8..10].copy_from_slice(&(number as u16).to_le_bytes()),
            4 => forged.header[16..24].copy_from_slice(&number.to_le_bytes()),
            _ => forged.header[64..68].copy_from_slice(&(number as u32).to_le_bytes()),
        }
    }

    /// Changes the number or the state in the name of a segment. In some cases, all numbers in the segment
    /// change by the same difference.
    fn mutate_name(&mut self, place: usize) {
        let state = self.random.pick(&["open", "sealed", "damaged"]);
        let first = self.segments[place].1.first();
        let number = if self.random.below(2) == 0 { first } else { self.random.extreme() };
        let is_fitting = self.random.below(2) == 0;
        self.note(format!("name {place} is {number}.{state}, numbers fit: {is_fitting}"));
        let (name, forged) = &mut self.segments[place];
        *name = format!("{number:020}.{state}");
        if is_fitting {
            let shift = number.wrapping_sub(first);
            forged.set_first(number);
            for batch in &mut forged.batches {
                batch.first = batch.first.wrapping_add(shift);
                batch.durable = batch.first.wrapping_sub(1);
            }
            if let Some(footer) = &mut forged.footer {
                footer.last = footer.last.wrapping_add(shift);
            }
        }
    }

    fn make_special(&mut self, place: usize) {
        let kind = self.random.below(7);
        let name = match self.random.below(4) {
            0 => "lock".to_owned(),
            1 => {
                format!("{:020}.{}", self.random.extreme(), self.random.pick(&["open", "sealed", "damaged"]))
            }
            _ => self.segments.remove(place.min(self.segments.len() - 1)).0,
        };
        self.note(format!("{name} is special file {kind}"));
        self.special.push((name, kind));
        if self.segments.is_empty() {
            self.segments.push(("not-a-segment".to_owned(), Forged { rest: Vec::new(), ..empty() }));
        }
    }

    /// Adds 70, 700 or 5,000 schemas, more than any run of these tests declares. Either all of these schemas
    /// have one row each, or none has a row.
    fn flood(&mut self, place: usize) {
        let count = self.random.pick(&[70, 700, 5_000]);
        let prefix = self.random.pick(&["flood_", "tollgate_", "sqlite_", "A", "a"]);
        let has_rows = self.random.below(2) == 0;
        self.note(format!("{count} schemas named {prefix}N in {place}, with rows: {has_rows}"));
        let forged = &mut self.segments[place].1;
        let first = forged.first();
        let batch = |kind, count: u32, first: u64, payload: Vec<u8>| ForgedBatch {
            nonce: None,
            payload_bytes: None,
            count,
            first,
            durable: first - 1,
            mask: u64::MAX,
            stamp: 0,
            previous: None,
            kind,
            payload,
        };
        let stream = |id: u32| if prefix.len() == 1 { prefix.to_owned() } else { format!("{prefix}{id}") };
        let schemas = (0..count).flat_map(|id| schema_record(id as u16, &stream(id), "n")).collect();
        let rows = (0..count).flat_map(|id| int_row(id as u16, i64::from(id))).collect();
        if first == 0 || first > 1 << 60 {
            return;
        }
        forged.batches = vec![batch(2, count, first, schemas)];
        let mut records = 0;
        if has_rows {
            forged.batches.push(batch(1, count, first, rows));
            records = u64::from(count);
        }
        if let Some(footer) = &mut forged.footer {
            (footer.records, footer.last) = (records, first.wrapping_add(records).wrapping_sub(1));
            footer.batches = forged.batches.len() as u64;
            footer.counts = (0..if has_rows { count } else { 0 }).map(|id| (id as u16, 1, 0)).collect();
        }
    }

    /// Changes the bytes of records: lengths, kinds, schemas, values.
    fn mutate_payload(&mut self, place: usize) {
        let at = self.random.below(self.segments[place].1.batches.len());
        let changes = 1 + self.random.below(6);
        self.note(format!("{changes} bytes of the payload of batch {at} of {place}"));
        for _ in 0..changes {
            let (offset, byte) = (self.random.next() as usize, self.random.next() as u8);
            let Some(batch) = self.segments[place].1.batches.get_mut(at) else { return };
            let length = batch.payload.len().max(1);
            if let Some(found) = batch.payload.get_mut(offset % length) {
                *found = byte;
            }
        }
    }

    fn change_order(&mut self, place: usize) {
        let what = self.random.below(4);
        self.note(format!("order of batches of {place}, way {what}"));
        let previous = self.random.next() as u32;
        let batches = &mut self.segments[place].1.batches;
        match what {
            0 => batches.reverse(),
            1 => batches.extend(batches.clone()),
            2 => drop(batches.pop()),
            _ => batches.iter_mut().for_each(|batch| batch.previous = Some(previous)),
        }
    }

    fn make_gap(&mut self, place: usize) {
        self.note(format!("segment {place} is gone"));
        if self.segments.len() > 1 {
            self.segments.remove(place);
        }
    }

    fn mutate_end(&mut self, place: usize) {
        let what = self.random.below(4);
        self.note(format!("end of {place}, way {what}"));
        let forged = &mut self.segments[place].1;
        match what {
            0 => forged.footer = None,
            1 => forged.rest = vec![0; 5_000],
            2 => forged.rest = b"TGSEALED".repeat(40),
            _ => (forged.footer, forged.rest) = (None, forged.nonce().to_le_bytes().repeat(100)),
        }
    }

    fn note_deleted(&mut self) {
        let number = self.random.extreme();
        self.note(format!("deleted up to {number}"));
        self.deleted.push(number);
    }

    fn write(&self) {
        let folder = self.dir.join(&self.id);
        fs::create_dir_all(&folder).unwrap();
        for (name, forged) in &self.segments {
            fs::write(folder.join(name), forged.bytes()).unwrap();
        }
        for (name, kind) in &self.special {
            make_special(&folder.join(name), *kind);
        }
    }
}

fn empty() -> Forged {
    Forged { header: vec![0; 128], batches: Vec::new(), footer: None, rest: Vec::new() }
}

/// Makes a file of a kind that no writer makes. An existing file is not replaced.
fn make_special(path: &Path, kind: usize) {
    if fs::symlink_metadata(path).is_ok() {
        return;
    }
    let mode = Mode::RUSR | Mode::WUSR;
    match kind {
        0 => mknodat(CWD, path, FileType::Fifo, mode, 0).unwrap(),
        1 => std::os::unix::fs::symlink("/dev/zero", path).unwrap(),
        2 => std::os::unix::fs::symlink(path, path).unwrap(),
        3 => fs::create_dir(path).unwrap(),
        // A path may be longer than the address of a socket.
        4 if UnixListener::bind(path).is_ok() => {}
        4 => fs::write(path, "no socket").unwrap(),
        5 => File::create(path).unwrap().set_len(20 << 30).unwrap(),
        // Only root makes devices. For other users a FIFO serves the same purpose.
        _ => mknodat(CWD, path, FileType::CharacterDevice, mode, rustix::fs::makedev(1, 5))
            .unwrap_or_else(|_| mknodat(CWD, path, FileType::Fifo, mode, 0).unwrap()),
    }
}

#[test]
fn mutants_of_segments_stop_no_command_no_start_and_no_other_log() {
    let count = number_from("TOLLGATE_MUTANTS", 100) as usize;
    let seed = number_from("TOLLGATE_SEED", 20_261_127);
    println!("{count} mutants, TOLLGATE_SEED={seed}");
    let model = Model::written();
    for round in 0..count.div_ceil(MUTANTS_AT_ONCE) {
        let begun = Instant::now();
        let first = round * MUTANTS_AT_ONCE;
        let postgres = (round % ROUNDS_OF_POSTGRES == 1).then(|| shared().database());
        let seeds =
            (first..count.min(first + MUTANTS_AT_ONCE)).map(|number| seed.wrapping_add(number as u64));
        meet(&model, seeds, postgres.as_deref());
        println!("mutants {first} and on: {} ms", begun.elapsed().as_millis());
    }
}

/// Runs a server and every command on these mutants.
fn meet(model: &Model, seeds: impl Iterator<Item = u64>, postgres: Option<&str>) {
    let sink = |database| format!("[sink.postgres]\npostgres = \"{}\"\n", shared().url(database));
    let sinks =
        format!("[sink.main]\nsqlite = \"data/tollgate.sqlite\"\n{}", postgres.map(sink).unwrap_or_default());
    let app = App::new(&format!("{CONFIG}{sinks}"), &[("keep.luau", KEEP)]);
    // The records of the intact log must be loaded later, together with the mutants.
    let server = app.start_with(&["--no-load"]);
    CONTROL.into_iter().for_each(|n| send(&server, n));
    assert!(server.stop().0.success());
    let dir = app.log_dir();
    let mutants: Vec<_> = seeds.map(|seed| Mutant::new(model, &dir, seed)).collect();
    mutants.iter().for_each(Mutant::write);
    let lines = mutants
        .iter()
        .flat_map(|mutant| mutant.deleted.iter().map(|number| format!("{} {number}\n", mutant.id)));
    let deleted: String = lines.collect();
    if !deleted.is_empty() {
        fs::write(dir.join("deleted"), deleted).unwrap();
    }
    let story: Vec<_> =
        mutants.iter().map(|mutant| format!("{}: {}", mutant.id, mutant.story.join("; "))).collect();
    let story = story.join("\n");

    check_commands(
        &app,
        &story,
        &[&["log", "ls"], &["log", "cat"], &["log", "verify"], &["log", "repair", "--dry-run"]],
    );
    let server = app.start();
    LIVE.into_iter().for_each(|n| send(&server, n));
    let loaded = || {
        let rows: BTreeSet<i64> = if app.has_table("a") {
            app.query("SELECT n FROM a WHERE typeof(n) = 'integer'").into_iter().collect()
        } else {
            BTreeSet::new()
        };
        let is_in_postgres = |database| {
            let numbers = "SELECT count(DISTINCT n) FROM a WHERE n IN (1, 2, 3, 11, 12)";
            shared().try_sql(database, numbers).is_ok_and(|count| count == "5")
        };
        let is_in_all = CONTROL.iter().chain(&LIVE).all(|n| rows.contains(n));
        (is_in_all && postgres.is_none_or(is_in_postgres)).then_some(())
    };
    let begun = Instant::now();
    while loaded().is_none() {
        assert!(
            begun.elapsed() < PATIENCE,
            "the other logs are not loaded: {}\n{story}",
            printed(&app.run(&["status"]))
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    check_commands(
        &app,
        &story,
        &[&["status"], &["log", "ls"], &["log", "cat"], &["log", "verify"], &["audit"]],
    );
    // A slow database may delay the loader for a while. If a mutant stops the loader, the loader does not
    // continue.
    let begun = Instant::now();
    loop {
        let status = printed(&app.run(&["status", "--json"]));
        if !status.contains("sink_stalled") {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{status}\n{story}");
    }
    let (status, log) = server.stop();
    assert!(!log.contains("panicked"), "{log}\n{story}");
    assert!(matches!(status.code(), Some(0 | 1)), "{status:?}: {log}\n{story}");
    // The database has positions in all these logs now. If a line in `deleted` has another log, all records
    // of that line are a gap.
    let unknown: String =
        EXTREMES.iter().map(|number| format!("{} {number}\n", tollgate_log::LogId::random())).collect();
    fs::write(dir.join("deleted"), unknown).unwrap();
    let after: [&[&str]; 5] =
        [&["load", "--once"], &["audit"], &["log", "repair"], &["load", "--once"], &["log", "verify"]];
    check_commands(&app, &story, &after);
    check_commands(&app, &story, &[&["sql", "SELECT count(*) FROM a"]]);
    let (status, log) = app.start().stop();
    assert!(!log.contains("panicked"), "{log}\n{story}");
    assert!(matches!(status.code(), Some(0 | 1)), "{status:?}: {log}\n{story}");
}

/// Checks that each of these commands ends in time, by itself and without a panic.
fn check_commands(app: &App, story: &str, commands: &[&[&str]]) {
    for arguments in commands {
        let begun = Instant::now();
        let output: Output = app.run(arguments);
        let (took, text) = (begun.elapsed(), printed(&output));
        assert!(
            matches!(output.status.code(), Some(0 | 1)),
            "{arguments:?}: {:?}: {text}\n{story}",
            output.status
        );
        assert!(!text.contains("panicked"), "{arguments:?}: {text}\n{story}");
        assert!(took < COMMAND_TIME, "{arguments:?} took {took:?}\n{story}");
    }
}
