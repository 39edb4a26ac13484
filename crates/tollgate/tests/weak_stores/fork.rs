//! Copies of one log folder on several machines, whose last segments differ: the forks of a log.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tollgate_log::{DiskStorage, Sequence};
use tollgate_ship::{NodeName, ObjectName, Store, ship_once};

use crate::forge::{Forged, ForgedBatch};
use crate::program::App;

const NODE: &str = "web";
const CONFIG: &str = r#"
[log]
node = "web"
segment_bytes_max = "4KiB"
[stream.a]
columns = [{ name = "n", type = "int", from = "record.n" }]
[[route]]
path = "/a"
collect = true
stream = "a"
"#;
/// Records of the log.
pub(crate) const RECORDS: u64 = 300;
/// In fork F, the last record of the last segment but one has the number `PENULTIMATE + F`.
pub(crate) const PENULTIMATE: u64 = 1_000_000;
/// In fork F, the last record of the last segment has the number `LAST + F`.
pub(crate) const LAST: u64 = 2_000_000;

/// The forks of one log. Each is the log folder of one machine.
pub(crate) struct Forks {
    folder: TempDir,
    /// The numbers of the records before the last record of the last segment but one.
    pub(crate) common: Vec<u64>,
    /// The numbers of the last segment without its last record.
    pub(crate) rest: Vec<u64>,
    names: Vec<PathBuf>,
}

impl Forks {
    /// Records a log, and copies it `count` times.
    pub(crate) fn of(count: usize) -> Self {
        let app = App::new(CONFIG, &[]);
        let server = app.start_with(&["--no-load"]);
        let mut client = server.connect();
        for n in 0..RECORDS {
            let reply = client.post("/a", &format!("[{{\"n\":{n}}}]")).expect("a reply");
            assert!(reply.is_success(), "{reply:?}");
        }
        drop(client);
        assert!(server.stop().0.success());
        let segments = app.segments();
        let [.., one, other] = &*segments else { panic!("{} segments", segments.len()) };
        let ends = [one, other].map(|path| Forged::parse(&fs::read(path).unwrap()).footer.unwrap().last);
        let folder = TempDir::new().unwrap();
        let in_log = |path: &PathBuf| path.strip_prefix(app.log_dir()).unwrap().to_owned();
        let names = segments.iter().map(in_log).collect();
        // The record with sequence S has the number S - 1.
        let (common, rest) = ((0..ends[0] - 1).collect(), (ends[0]..ends[1] - 1).collect());
        let forks = Self { folder, common, rest, names };
        (0..count).for_each(|fork| forks.copy(&app.log_dir(), fork));
        forks
    }

    /// Returns the log folder of a fork.
    fn path(&self, fork: usize) -> PathBuf {
        self.folder.path().join(fork.to_string())
    }

    /// Returns the last segment of a fork: its name in the store, and its file.
    pub(crate) fn last_segment(&self, fork: usize) -> (ObjectName, PathBuf) {
        let name = self.names.last().unwrap();
        let text = |part: Option<&OsStr>| part.unwrap().to_str().unwrap().to_owned();
        let node = NodeName::encode(NODE).unwrap();
        let log = text(name.parent().map(Path::as_os_str)).parse().unwrap();
        let first = Sequence(text(name.file_stem()).parse().unwrap());
        (ObjectName::Segment { node, log, first }, self.path(fork).join(name))
    }

    fn copy(&self, from: &Path, fork: usize) {
        for name in &self.names {
            let target = self.path(fork).join(name);
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::copy(from.join(name), target).unwrap();
        }
        let [.., one, other] = &*self.names else { unreachable!() };
        let (one, other) = (self.path(fork).join(one), self.path(fork).join(other));
        let mut before = Forged::parse(&fs::read(&one).unwrap());
        set_last_number(before.batches.last_mut().unwrap(), PENULTIMATE + fork as u64);
        let before = before.bytes();
        fs::write(&one, &before).unwrap();
        let mut after = Forged::parse(&fs::read(&other).unwrap());
        let (chain, digest) = chain_and_digest(&before);
        after.header[64..68].copy_from_slice(&chain);
        after.footer.as_mut().unwrap().digest_before = digest;
        set_last_number(after.batches.last_mut().unwrap(), LAST + fork as u64);
        fs::write(&other, after.bytes()).unwrap();
    }

    /// Ships a fork as `tollgate ship --to` does.
    pub(crate) fn ship(&self, fork: usize, store: &dyn Store) {
        let node = NodeName::encode(NODE).unwrap();
        ship_once(&DiskStorage, &self.path(fork), &node, store, false, |_| {}).unwrap();
    }
}

/// Changes the last value of a batch. The column is the only one, so this value ends the payload.
fn set_last_number(batch: &mut ForgedBatch, number: u64) {
    let at = batch.payload.len() - 8;
    batch.payload[at..].copy_from_slice(&number.to_le_bytes());
}

/// Returns the chained checksum and the digest in the footer of a segment.
fn chain_and_digest(segment: &[u8]) -> ([u8; 4], [u8; 64]) {
    let length_at = segment.len() - 8;
    let length = u32::from_le_bytes(segment[length_at..length_at + 4].try_into().unwrap());
    let footer = &segment[segment.len() - length as usize..];
    (footer[48..52].try_into().unwrap(), footer[56..120].try_into().unwrap())
}
