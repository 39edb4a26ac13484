//! A disk of 64 MiB that log and database share. Records are refused before the disk is full. When space is
//! free again, the server accepts records without a restart.
//!
//! Mounting the disk needs root. If the disk cannot be mounted, these tests print a line and check nothing.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::admin::after_retain_passes;
use crate::client::{Client, Reply, get};
use crate::program::{App, Running, eventually, printed};

const DISK_MIB: u64 = 64;
/// Number of free inodes at which the log must refuse records, because the reserve of the log is larger.
const FEW_FILES: u64 = 30;
/// Number of inodes of the disk. The log and the database need far fewer.
const DISK_FILES: u64 = 500;
/// Number of records in one request. Each record has about 800 bytes.
const ITEMS: i64 = 200;
/// Number of columns that need 8 bytes in the log and 3 in the database. A record therefore needs less space
/// after it is loaded.
const FILLERS: usize = 100;

/// The disk below `data/`. Dropping it unmounts it.
pub(crate) struct Disk {
    path: PathBuf,
}

impl Disk {
    /// Mounts a disk. `None`: it cannot be mounted here.
    pub(crate) fn below(app: &App) -> Option<Self> {
        let path = app.path().join("data");
        fs::create_dir_all(&path).unwrap();
        let bounds = format!("size={DISK_MIB}m,nr_inodes={DISK_FILES}");
        let output = Command::new("mount").args(["-t", "tmpfs", "-o", &bounds, "tmpfs"]).arg(&path).output();
        match output {
            Ok(output) if output.status.success() => Some(Self { path }),
            Ok(output) => skipped(&printed(&output)),
            Err(error) => skipped(&error.to_string()),
        }
    }

    /// Fills the disk to the last byte.
    pub(crate) fn fill(&self) -> PathBuf {
        let path = self.path.join("of-somebody-else");
        let mut file = File::create(&path).unwrap();
        while file.write_all(&[0x5a; 4096]).is_ok() {}
        path
    }
}

impl Disk {
    /// Creates empty files until only `left` free inodes remain.
    fn fill_with_files(&self, left: u64) -> PathBuf {
        let folder = self.path.join("of-somebody-else");
        fs::create_dir_all(&folder).unwrap();
        let has_more = || rustix::fs::statvfs(&self.path).unwrap().f_favail > left;
        for n in (0..DISK_FILES).filter(|n| !folder.join(n.to_string()).exists()) {
            if !has_more() {
                break;
            }
            File::create(folder.join(n.to_string())).unwrap();
        }
        assert!(!has_more());
        folder
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A lazy unmount (`-l`) succeeds even if a process still has a file open.
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

fn skipped<T>(reason: &str) -> Option<T> {
    eprintln!("SKIPPED, NOTHING IS TESTED HERE: no disk can be mounted: {reason}");
    None
}

fn app() -> App {
    let fillers: String = (0..FILLERS)
        .map(|n| format!("  {{ name = \"f{n}\", type = \"int\", from = \"reply.status\" }},\n"))
        .collect();
    let config = format!(
        r#"
workers = 1
[log]
segment_bytes_max = "1MiB"
[stream.all]
columns = [
  {{ name = "n", type = "int" }},
{fillers}]
[[route]]
path = "/collect"
collect = true
stream = "all"
[[route]]
path = "/fixed"
reply = {{ body = "fixed" }}
"#
    );
    App::new(&config, &[])
}

/// Sends the numbers from `first` on in one request.
fn send(client: &mut Client, first: i64) -> Reply {
    let items: String = (first..first + ITEMS).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    client.post("/collect", &items).expect("a reply")
}

fn check_refused(reply: &Reply) {
    let told = (reply.status, reply.field("tollgate-outcome"), reply.field("retry-after"));
    assert_eq!(told, (503, Some("refused"), Some("1")), "{reply:?}");
}

/// Sends until a request is refused. Returns the number after the last acknowledged one.
fn send_until_refused(client: &mut Client, mut next: i64) -> i64 {
    loop {
        let reply = send(client, next);
        if !reply.is_success() {
            check_refused(&reply);
            return next;
        }
        next += ITEMS;
        assert!((next as u64) < DISK_MIB << 20, "never refused");
    }
}

/// Sends the same request again until it is accepted.
fn send_until_taken(client: &mut Client, next: i64) -> i64 {
    eventually("records are taken again", || {
        let reply = send(client, next);
        if !reply.is_success() {
            check_refused(&reply);
            thread::sleep(Duration::from_millis(50));
        }
        reply.is_success().then_some(next + ITEMS)
    })
}

fn check_serves_what_is_not_recorded(server: &Running) {
    let mut client = server.connect();
    assert!(client.send(&get("/fixed")));
    assert_eq!(client.reply().expect("a reply").content, "fixed");
}

fn check_all_is_loaded_once(app: &App, numbers: i64) {
    let count = "SELECT count(*) FROM \"all\"";
    let is_loaded = || app.has_table("all") && app.query::<i64>(count) == [numbers];
    eventually("all is loaded", || is_loaded().then_some(()));
    let distinct = "SELECT count(DISTINCT n) FROM \"all\" WHERE n >= 0";
    assert_eq!(app.query::<i64>(distinct), [numbers]);
    let audit = app.succeed(&["audit"]);
    let sum = audit.lines().find(|line| line.starts_with("all ")).expect(&audit);
    let sum: Vec<_> = sum.split_whitespace().skip(2).map(|count| count.parse::<i64>().unwrap()).collect();
    assert_eq!(sum, [numbers, 0, numbers, 0, 0, 0, 0], "{audit}");
}

fn count_lines(log: &str, text: &str) -> usize {
    log.lines().filter(|line| line.contains(text)).count()
}

#[test]
fn a_disk_that_is_nearly_full_refuses_until_the_database_has_taken_what_lies_on_it() {
    let app = app();
    let Some(_disk) = Disk::below(&app) else { return };
    let server = app.start();
    let lock = app.database();
    eventually("the database is locked", || lock.execute_batch("BEGIN IMMEDIATE").ok());
    let mut client = server.connect();
    let next = send_until_refused(&mut client, 0);
    assert!(next > 50_000, "most of the disk was used: {next}");
    for _ in 0..3 {
        after_retain_passes(&app);
        check_refused(&send(&mut client, next));
    }
    check_serves_what_is_not_recorded(&server);
    lock.execute_batch("ROLLBACK").unwrap();
    drop(lock);
    let next = send_until_taken(&mut client, next);
    check_all_is_loaded_once(&app, next);
    let next = send_until_taken(&mut client, next);
    let (status, log) = server.stop();
    assert_eq!(status.code(), Some(0), "{log}");
    assert_eq!(count_lines(&log, "the disk is nearly full"), 1, "{log}");
    assert_eq!(count_lines(&log, "the disk has enough free space again"), 1, "{log}");
    check_all_is_loaded_once(&app, next);
    app.settle();
}

#[test]
fn a_start_on_a_full_disk_serves_refuses_and_resumes_with_the_records_before_it() {
    let app = app();
    let Some(disk) = Disk::below(&app) else { return };
    let server = app.start();
    let lock = app.database();
    eventually("the database is locked", || lock.execute_batch("BEGIN IMMEDIATE").ok());
    assert!(send(&mut server.connect(), 0).is_success());
    server.kill();
    drop(lock);
    let filler = disk.fill();
    let server = app.start();
    let mut client = server.connect();
    check_refused(&send(&mut client, ITEMS));
    check_serves_what_is_not_recorded(&server);
    fs::remove_file(filler).unwrap();
    let next = send_until_taken(&mut client, ITEMS);
    check_all_is_loaded_once(&app, next);
    let (status, log) = server.stop();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("sealed the open segments of an earlier run"), "{log}");
    app.settle();
}

#[test]
fn a_disk_that_takes_no_more_files_refuses_until_it_does_though_there_are_bytes() {
    let app = app();
    let Some(disk) = Disk::below(&app) else { return };
    let server = app.start();
    let mut client = server.connect();
    let next = send_until_taken(&mut client, 0);
    disk.fill_with_files(FEW_FILES);
    let next = send_until_refused(&mut client, next);
    let files = disk.fill_with_files(0);
    check_refused(&send(&mut client, next));
    check_serves_what_is_not_recorded(&server);
    fs::remove_dir_all(files).unwrap();
    let next = send_until_taken(&mut client, next);
    check_all_is_loaded_once(&app, next);
    let (status, log) = server.stop();
    assert_eq!(status.code(), Some(0), "{log}");
    assert_eq!(count_lines(&log, "the disk is nearly full"), 1, "{log}");
    app.settle();
}
