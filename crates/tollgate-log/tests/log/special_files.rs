//! Tests of special files that have names of segments: no call waits for such a file, and the error names the
//! log.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;
use tollgate_log::{
    Cursor, CursorStep, DiskStorage, LogError, LogId, SchemaId, SegmentDigestAlgorithm, SegmentName,
    SegmentState, SegmentWriter, Sequence, Storage, recover, scan_segment, verify_segment,
};

use crate::sim::PATIENCE;
use crate::workload::{batch, schema};

/// Size in bytes of a file that is one hole. No segment has as many bytes.
const SPARSE_BYTES: u64 = 20 << 30;

type Maker = fn(&Path);

const SPECIAL: [(&str, Maker); 4] = [
    ("a FIFO", |path| mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap()),
    ("a symbolic link", |path| std::os::unix::fs::symlink("/dev/zero", path).unwrap()),
    ("a folder", |path| fs::create_dir(path).unwrap()),
    ("a socket", |path| drop(UnixListener::bind(path).unwrap())),
];

/// Runs `act` in a thread, and fails if it does not end.
fn ends<T: Send + 'static>(what: &str, act: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let _ = sender.send(act());
    });
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("it never ended: {what}"))
}

/// Makes a log folder with a file that `make` creates. The file has the name of the first segment.
fn site(state: SegmentState, make: impl FnOnce(&Path)) -> (TempDir, LogId, PathBuf) {
    let dir = TempDir::new().unwrap();
    let log = LogId::random();
    let folder = dir.path().join(log.to_string());
    fs::create_dir(&folder).unwrap();
    let path = SegmentName { first: Sequence(1), state }.path(&folder);
    make(&path);
    (dir, log, path)
}

#[test]
fn nothing_but_a_regular_file_is_opened_and_nothing_waits() {
    for (what, make) in SPECIAL {
        let (_dir, _, path) = site(SegmentState::Sealed, make);
        for mode in ["read", "write", "lock"] {
            let path = path.clone();
            let error = ends(&format!("{mode} {what}"), move || match mode {
                "read" => DiskStorage.open_read(&path).err(),
                "write" => DiskStorage.open(&path).err(),
                _ => DiskStorage.try_lock(&path).err(),
            });
            let error = error.unwrap_or_else(|| panic!("{what} was opened to {mode}"));
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{mode} {what}: {error}");
            assert_eq!(error.to_string(), format!("the file is {what}, allowed is a regular file"));
        }
    }
}

#[test]
fn a_cursor_and_a_start_name_the_file_and_do_not_wait() {
    for (what, make) in SPECIAL {
        for state in [SegmentState::Open, SegmentState::Sealed, SegmentState::Damaged] {
            let (dir, log, path) = site(state, make);
            let folder = dir.path().to_owned();
            let read = ends(what, move || {
                let mut cursor = Cursor::new(Arc::new(DiskStorage), &folder, log, None);
                cursor.step(None).map(drop)
            });
            let error = read.unwrap_err();
            assert!(
                matches!(&error, LogError::Io { path: named, .. } if *named == path),
                "{what}: {error:?}"
            );
            let folder = dir.path().to_owned();
            let report = ends(what, move || {
                recover(&(Arc::new(DiskStorage) as Arc<dyn Storage>), &folder, SegmentDigestAlgorithm::Sha256)
                    .unwrap()
            });
            let failed: Vec<_> = report.failed.iter().map(|(log, _)| *log).collect();
            let expected = if state == SegmentState::Open { vec![log] } else { Vec::new() };
            assert_eq!(failed, expected, "{what}");
            assert!(fs::symlink_metadata(&path).is_ok(), "{what} stays");
        }
    }
}

#[test]
fn a_file_that_is_none_behind_the_last_segment_is_named_and_makes_no_gap() {
    for (what, make) in SPECIAL {
        let dir = TempDir::new().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
        let schemas = vec![(SchemaId(0), Arc::new(schema()))];
        let mut writer = SegmentWriter::new(storage.clone(), dir.path(), None, "node", schemas);
        writer.write(&[batch(1, 3)], Sequence(0), 0).unwrap();
        let log = writer.log();
        drop(writer);
        recover(&storage, dir.path(), SegmentDigestAlgorithm::Sha256).unwrap();
        let name = SegmentName { first: Sequence(1 << 40), state: SegmentState::Sealed };
        let path = name.path(&dir.path().join(log.to_string()));
        make(&path);
        let mut cursor = Cursor::new(storage, dir.path(), log, None);
        let CursorStep::Batch(batch) = cursor.step(None).unwrap() else { panic!("{what}: no batch") };
        assert_eq!(batch.end().last, Sequence(3));
        let error = cursor.step(None).unwrap_err();
        assert!(matches!(&error, LogError::Io { path: named, .. } if *named == path), "{what}: {error:?}");
    }
}

#[test]
fn holes_of_a_sparse_file_are_not_read() {
    // The cases: no stored bytes, bytes before the hole, bytes after the hole, and stored zeros after the
    // hole.
    let fillings: [fn(&File); 4] = [
        |_| {},
        |mut file| file.write_all(b"TOLLGATE and no header").unwrap(),
        |file| std::os::unix::fs::FileExt::write_all_at(file, b"end", SPARSE_BYTES - 3).unwrap(),
        |file| {
            std::os::unix::fs::FileExt::write_all_at(file, b"begin", 200).unwrap();
            std::os::unix::fs::FileExt::write_all_at(file, &[0; 4096], SPARSE_BYTES - 4096).unwrap();
        },
    ];
    for (number, fill) in fillings.into_iter().enumerate() {
        for state in [SegmentState::Open, SegmentState::Sealed, SegmentState::Damaged] {
            let (dir, log, path) = site(state, |path| {
                let file = File::create(path).unwrap();
                file.set_len(SPARSE_BYTES).unwrap();
                fill(&file);
            });
            let folder = dir.path().to_owned();
            let begun = Instant::now();
            ends(&format!("filling {number}, {state}"), move || {
                let name = SegmentName { first: Sequence(1), state };
                scan_segment(&DiskStorage, &path).unwrap();
                verify_segment(&DiskStorage, name, &path, None).unwrap();
                let mut cursor = Cursor::new(Arc::new(DiskStorage), &folder, log, None);
                let _ = cursor.step(None);
                recover(
                    &(Arc::new(DiskStorage) as Arc<dyn Storage>),
                    &folder,
                    SegmentDigestAlgorithm::Sha256,
                )
                .unwrap();
            });
            assert!(begun.elapsed() < PATIENCE, "filling {number}, {state}");
        }
    }
}
