//! Writes real logs, whose sealed segments the tests use.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tollgate_log::{
    Column, ColumnOrigin, ColumnType, DiskStorage, Level, Log, LogOptions, Schema, SchemaId, Value,
    read_footer,
};
use tollgate_ship::SegmentIdentity;

/// Longest wait for a condition.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// A sealed segment of a real log.
pub(crate) struct Segment {
    pub(crate) file: PathBuf,
    pub(crate) identity: SegmentIdentity,
}

impl Segment {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        fs::read(&self.file).unwrap()
    }
}

/// The sealed segments of one log, in a temporary folder.
pub(crate) struct Segments {
    folder: TempDir,
    pub(crate) all: Vec<Segment>,
}

impl Segments {
    /// Writes a log of at least `count` segments. Each segment has different bytes.
    pub(crate) fn written(count: usize) -> Self {
        Self::written_by("web", count)
    }

    /// Writes a log as the machine `node`.
    pub(crate) fn written_by(node: &str, count: usize) -> Self {
        let folder = TempDir::new().unwrap();
        let column = Column { name: "n".to_owned(), kind: ColumnType::Int, origin: ColumnOrigin::Stored };
        let schema = Schema::new("visits", vec![column]).unwrap();
        let options = LogOptions {
            segment_bytes_max: 1 << 10,
            node: node.to_owned(),
            ..LogOptions::new(&folder.path().join("log"))
        };
        let log = Log::open(Arc::new(DiskStorage), options, vec![schema], |_| ()).unwrap().0;
        let mut appender = log.appender(|| {});
        for n in 0..i64::try_from(count).unwrap() * 30 {
            let (appended, result) = appender
                .append(Level::Synced, |rows| rows.row(SchemaId(0), |row| row.push(Value::Int(n))))
                .unwrap();
            result.unwrap();
            eventually("the writer takes a batch", || appender.hand_over());
            let appended = appended.unwrap();
            eventually("it is written", || appender.reached(appended, Level::Written).is_some());
        }
        drop(appender);
        let dir = folder.path().join("log").join(log.id().to_string());
        log.close().unwrap();
        let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "sealed"));
        files.sort();
        let all: Vec<_> = files.into_iter().map(segment).collect();
        assert!(all.len() >= count, "{} segments", all.len());
        Self { folder, all }
    }

    /// Returns a path of a file that does not exist.
    pub(crate) fn free_path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn segment(file: PathBuf) -> Segment {
    let footer = read_footer(&DiskStorage, &file).unwrap().unwrap();
    Segment { identity: SegmentIdentity::of(&footer), file }
}

/// Waits for a condition.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the bytes of a file, or `None` if the file does not exist.
pub(crate) fn read(path: &Path) -> Option<Vec<u8>> {
    fs::read(path).ok()
}
