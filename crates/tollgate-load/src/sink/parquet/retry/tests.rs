//! Tests of two retries at once, of which one waits at a given step.

use std::fs::File;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tempfile::TempDir;
use tollgate_lake::parquet::file::reader::{FileReader, SerializedFileReader};
use tollgate_lake::{Created, FileStamp, FolderPlace, Ledger, Place, RejectRow};
use tollgate_log::{ColumnOrigin, ColumnType, join_chain};

use super::*;
use crate::sink::json::ItemRow;
use crate::sink::parquet::ParquetOptions;
use crate::sink::write_rules::WriteRules;

/// A step of another retry, which runs once.
type Step = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// A place that runs a step after it has copied the first file of rejects.
struct Interrupted {
    place: FolderPlace,
    step: Step,
}

impl Place for Interrupted {
    fn create_file(&self, name: &str, file: &Path, stamp: &FileStamp) -> Result<Created, LakeError> {
        self.place.create_file(name, file, stamp)
    }

    fn create_text(&self, name: &str, text: &str) -> Result<Created, LakeError> {
        self.place.create_text(name, text)
    }

    fn replace_text(&self, name: &str, text: &str) -> Result<(), LakeError> {
        self.place.replace_text(name, text)
    }

    fn remove_text(&self, name: &str) -> Result<(), LakeError> {
        self.place.remove_text(name)
    }

    fn text(&self, name: &str) -> Result<Option<String>, LakeError> {
        self.place.text(name)
    }

    fn stamp(&self, name: &str) -> Result<Option<FileStamp>, LakeError> {
        self.place.stamp(name)
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, LakeError> {
        self.place.list(prefix, after)
    }

    fn folders(&self, prefix: &str) -> Result<Vec<String>, LakeError> {
        self.place.folders(prefix)
    }

    fn fetch(&self, name: &str, file: &Path) -> Result<bool, LakeError> {
        let fetched = self.place.fetch(name, file);
        let step = self.step.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(step) = step {
            step();
        }
        fetched
    }
}

fn visits() -> Schema {
    let column = Column { name: "n".to_owned(), kind: ColumnType::Int, origin: ColumnOrigin::Stored };
    Schema::new("visits", vec![column]).unwrap()
}

fn sink(lake: &Path) -> ParquetSink {
    let rules = WriteRules { after: None, rejects_max: 100, declared: [visits()].into_iter().collect() };
    ParquetSink::open(&ParquetOptions::in_folder(lake), "lake", rules, None).unwrap()
}

/// Adds a file of rejects with the numbers of their records as items.
fn add_rejects(sink: &mut ParquetSink, log: LogId, numbers: RangeInclusive<u64>) {
    let (first, last) = (Sequence(*numbers.start()), Sequence(*numbers.end()));
    let mut writers = sink.writers().unwrap();
    for number in numbers {
        let item = number.to_string();
        let reject = RejectRow {
            stream: "visits",
            reason: "n is a text",
            refused_by: "ingest",
            item: item.as_bytes(),
            text: &item,
            key: None,
            key_window_ms: None,
        };
        writers.reject(0, &reject, (log, Sequence(number))).unwrap();
    }
    let load = LoadName::Next { log, first };
    let made = writers.finish(load, last, "digest").unwrap();
    let mut plan = Plan::new(Position { last, chain: None }, Streams::All);
    (plan.digest, plan.files) = ("digest".to_owned(), made.planned());
    sink.publish(load, &plan, &made).unwrap();
}

/// Returns the row of an item that is a number.
fn row(_: &str, item: &[u8]) -> Result<ItemRow, String> {
    let mut row = ItemRow::default();
    row.push("n", &Value::Int(std::str::from_utf8(item).unwrap().parse().unwrap()));
    Ok(row)
}

/// Decides the next retry of all rejects.
fn decide(sink: &mut ParquetSink) -> Tried {
    let OpenRejects { rejects, next, .. } = sink.open_rejects().unwrap();
    let load = LoadName::Retry { number: next };
    let tried = sink.try_again(load, &rejects, &row, false).unwrap();
    assert!(sink.ledger.decide(load, &tried.plan).unwrap());
    tried
}

/// Returns the number of rows of the stream.
fn rows(lake: &Path) -> i64 {
    let place = FolderPlace::new(lake);
    let days = place.folders("visits/").unwrap().into_iter();
    let files = days.flat_map(|day| place.list(&format!("visits/{day}/"), None).unwrap());
    let rows = |file: PathBuf| {
        let reader = SerializedFileReader::new(File::open(file).unwrap()).unwrap();
        reader.metadata().file_metadata().num_rows()
    };
    files.map(|file| rows(lake.join(file))).sum()
}

#[test]
fn a_retry_is_not_ended_by_one_that_has_read_fewer_rejects() {
    let folder = TempDir::new().unwrap();
    let (lake, log) = (folder.path().join("lake"), LogId::random());
    let mut slow = sink(&lake);
    add_rejects(&mut slow, log, 1..=4);
    // While the slow retry reads the rejects, more of them come, and the fast retry decides.
    let fast = Arc::new(Mutex::new(None));
    let step = {
        let (lake, fast) = (lake.clone(), fast.clone());
        move || {
            let mut sink = sink(&lake);
            add_rejects(&mut sink, log, 5..=8);
            let tried = decide(&mut sink);
            *fast.lock().unwrap() = Some((sink, tried));
        }
    };
    let place =
        Interrupted { place: FolderPlace::new(&lake), step: Arc::new(Mutex::new(Some(Box::new(step)))) };
    slow.ledger = Ledger::new(Box::new(place), "lake");
    let retried = slow.retry(&row).unwrap();
    assert_eq!((retried.loaded, retried.kept), (8, 0));
    // The fast retry has asked before that whether another one has committed.
    let (mut fast, tried) = fast.lock().unwrap().take().unwrap();
    assert!(fast.bring_retry(1, &tried).unwrap());
    assert!(!fast.commit_retry(1, &tried).unwrap());
    assert_eq!((rows(&lake), fast.open_rejects().unwrap().rejects), (8, Vec::new()));
}

#[test]
fn a_retry_that_another_program_ended_brings_nothing_or_names_its_rows() {
    let folder = TempDir::new().unwrap();
    let lake = folder.path().join("lake");
    let (mut sink, mut other) = (sink(&lake), sink(&lake));
    add_rejects(&mut sink, LogId::random(), 1..=4);
    let tried = decide(&mut sink);
    assert_eq!(other.settle_retry(1, &tried.plan).unwrap().unwrap().files, []);
    assert!(!sink.commit_retry(1, &tried).unwrap());
    assert_eq!(rows(&lake), 0);
    // The retry has asked before the other program ended it.
    let error = join_chain(&sink.bring_retry(1, &tried).unwrap_err());
    let file = &tried.plan.files[0].name;
    let expected = format!(
        "commit _tollgate/lake/retry/00000000000000000001.commit has ended this retry without the rows of \
         {file}: delete these rows before the next retry"
    );
    assert!(error.contains(&expected), "{error}");
    // A program that ends the retry again finds the rows, and the other commit.
    assert_eq!(other.settle_retry(1, &tried.plan).unwrap(), None);
    std::fs::remove_file(lake.join(file)).unwrap();
    assert_eq!(sink.retry(&row).unwrap().loaded, 4);
    assert_eq!(rows(&lake), 4);
}
