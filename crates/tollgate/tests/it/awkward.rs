//! The whole program with special files, and with files that change while the server reads them.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::client::{Client, Reply, get};
use crate::program::{App, BINARY, Running};

const ROUTE: &str =
    "workers = 1\n[[route]]\npath = \"/*\"\nfiles = { dir = \"public\", recheck = \"0ms\" }\n";
const GIB: u64 = 1 << 30;
const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn with(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

fn ranged(client: &mut Client, path: &str, range: &str) -> (u16, Vec<u8>, String) {
    assert!(client.send(&with(path, &format!("Range: bytes={range}\r\n"))));
    let head = client.head().unwrap();
    let length = head.field("content-length").unwrap().parse().unwrap();
    let content = client.bytes(length).unwrap();
    (head.status, content, head.field("content-range").unwrap_or_default().to_owned())
}

#[test]
fn a_file_of_five_gibibytes_is_told_whole_and_sent_in_parts_from_anywhere() {
    for sendfile in [true, false] {
        let config = ROUTE.replace(" }", &format!(", sendfile = {sendfile} }}"));
        let app = App::new(&config, &[("public/a", "a")]);
        let file = File::create(app.path().join("public/sparse")).unwrap();
        file.set_len(5 * GIB).unwrap();
        let marks = [0, 2 * GIB - 4, 4 * GIB - 4, 4 * GIB + 100_000, 5 * GIB - 8];
        marks.iter().for_each(|place| file.write_all_at(b"<marked>", *place).unwrap());
        let server = app.start();
        let mut client = server.connect();
        assert!(client.send("HEAD /sparse HTTP/1.1\r\nHost: a\r\n\r\n"));
        let length = (5 * GIB).to_string();
        assert_eq!(client.head().unwrap().field("content-length"), Some(length.as_str()));
        for place in marks {
            let (status, content, range) = ranged(&mut client, "/sparse", &format!("{place}-{}", place + 7));
            assert_eq!((status, content.as_slice()), (206, &b"<marked>"[..]), "at {place}");
            assert_eq!(range, format!("bytes {place}-{}/{length}", place + 7));
        }
        // A range that crosses the limit of 32-bit offsets, and is sent in many turns.
        let (from, to) = (4 * GIB - MIB as u64, 4 * GIB + MIB as u64);
        let (_, content, _) = ranged(&mut client, "/sparse", &format!("{from}-{}", to - 1));
        assert_eq!(content.len(), 2 * MIB);
        assert_eq!(&content[MIB - 4..MIB + 4], b"<marked>");
        assert_eq!(&content[MIB + 100_000..MIB + 100_008], b"<marked>");
        assert_eq!(content.iter().filter(|byte| **byte != 0).count(), 16);
        assert_eq!(ranged(&mut client, "/sparse", "-8").1, b"<marked>");
        assert_eq!(ranged(&mut client, "/sparse", &format!("{length}-")).0, 416);
        // The server begins to send the whole file, and the client leaves before the end.
        assert!(client.send(&get("/sparse")));
        assert_eq!(client.head().unwrap().field("content-length"), Some(length.as_str()));
        assert_eq!(client.bytes(MIB).unwrap()[..8], *b"<marked>");
        drop(client);
        assert_eq!(server.connect().get("/a").unwrap().content, "a");
    }
}

#[test]
fn names_are_served_whatever_they_hold() {
    let names = [
        "with space",
        "\u{fc}\u{f1}\u{ee}",
        "日本.txt",
        "a+b&c=d;e",
        "100%",
        "q?r#s",
        "'\"<>|^`{}",
        "x\ty\nz",
    ];
    let paths = names.map(|name| format!("public/{name}"));
    let files: Vec<_> = paths.iter().map(String::as_str).zip(names).chain([("public/empty", "")]).collect();
    let app = App::new(ROUTE, &files);
    let server = app.start();
    let mut client = server.connect();
    for name in names {
        let escaped: String = name.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let reply = client.get(&format!("/{escaped}")).unwrap();
        assert_eq!((reply.status, reply.content.as_str()), (200, name), "{name}");
    }
    let reply = client.get("/empty").unwrap();
    assert_eq!((reply.status, reply.field("content-length")), (200, Some("0")));
}

#[test]
fn a_pipe_is_not_touched_and_a_device_not_opened() {
    let app = App::new(ROUTE, &[("public/a", "a")]);
    let public = app.path().join("public");
    mknodat(CWD, public.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    let device = rustix::fs::makedev(1, 3);
    // Without the right to make devices, the file is missing and the request gets 404.
    let _ = mknodat(CWD, public.join("null"), FileType::CharacterDevice, Mode::from_raw_mode(0o666), device);
    let server = app.begin_with_fault("openat2", "delay_enter=1").serving().unwrap();
    let mut client = server.connect();
    for path in ["/pipe", "/null", "/pipe", "/"] {
        assert_eq!(client.get(path).unwrap().status, 404, "{path}");
    }
    assert_eq!(client.get("/a").unwrap().content, "a");
    assert!(server.stop().0.success());
    // Opening a pipe for reading has effects on its writers. A waiting writer continues, and has no reader
    // after the close.
    for (_, call) in app.calls() {
        let is_special = call.contains("\"pipe") || call.contains("\"null");
        assert!(!is_special || call.contains("O_PATH"), "{call}");
    }
}

/// Starts the server without root's rights to files, as it should run in an installation.
fn start_without_privileges(app: &App) -> Running {
    if !rustix::process::geteuid().is_root() {
        return app.start();
    }
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-dac_override,-dac_read_search", BINARY]);
    app.begin_as(command).serving().unwrap()
}

#[test]
fn a_file_that_may_not_be_read_is_forbidden() {
    let app = App::new(ROUTE, &[("public/a", "a"), ("public/b", "b"), ("public/closed/c", "c")]);
    let allow = |name: &str, mode: u32| {
        fs::set_permissions(app.path().join("public").join(name), PermissionsExt::from_mode(mode)).unwrap();
    };
    allow("b", 0);
    allow("closed", 0);
    let server = start_without_privileges(&app);
    let mut client = server.connect();
    for (path, status) in [("/a", 200), ("/b", 403), ("/closed/c", 403), ("/closed/", 403), ("/a", 200)] {
        let reply = client.get(path).unwrap();
        assert_eq!(reply.status, status, "{path}: {reply:?}");
    }
    allow("b", 0o600);
    allow("closed", 0o700);
    assert_eq!(client.get("/b").unwrap().content, "b");
    assert_eq!(client.get("/closed/c").unwrap().content, "c");
}

/// Returns a version of a file. Each of its lines has the number of the version.
fn version(number: usize, bytes: usize) -> String {
    format!("{number:015x}\n").repeat(bytes / 16)
}

/// Replaces a version by another with a modification time of its own. Some file systems have only a few
/// different times per second. A server could not distinguish two versions with the same time and size.
fn replace(path: &Path, number: usize, content: &str) {
    let new = path.with_extension("new");
    fs::write(&new, content).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(number as u64);
    File::options().write(true).open(&new).unwrap().set_modified(time).unwrap();
    fs::rename(new, path).unwrap();
}

/// Runs `run` while another thread replaces a file by one version after another. The thread also ends if a
/// check in `run` fails.
fn while_replaced(path: &Path, content: impl Fn(usize) -> String + Sync, run: impl FnOnce()) {
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _end = End(&is_over);
        scope.spawn(|| {
            let numbers = (1..).take_while(|_| !is_over.load(Ordering::Relaxed));
            numbers.for_each(|number| replace(path, number, &content(number)));
        });
        run();
    });
}

/// Returns the version of all lines. An empty or mixed content has none.
fn version_of(content: &[u8]) -> Option<usize> {
    let content = std::str::from_utf8(content).ok()?;
    let first = content.lines().next()?;
    content.lines().all(|line| line == first).then(|| usize::from_str_radix(first, 16).ok())?
}

#[test]
fn a_file_that_is_replaced_all_the_time_is_never_mixed() {
    // Sizes of even and odd versions: both are sent from memory, both by sendfile, or one by each way.
    for (even, odd) in [(1 << 10, 2 << 10), (MIB, 3 * MIB), (16 << 10, MIB)] {
        let content = |number: usize| version(number, if number.is_multiple_of(2) { even } else { odd });
        let app = App::new(ROUTE, &[("public/large", &content(0))]);
        let path = app.path().join("public/large");
        let server = app.start();
        while_replaced(&path, content, || {
            let mut client = server.connect();
            let mut seen = 0;
            let mut resumed = 0;
            while seen < 20 || resumed < 1 {
                // Requests the first half, then the second half if the file is still the same. If it is not,
                // the whole new file is sent.
                let half = even / 2;
                let (head, mut whole) = ask(&mut client, &format!("Range: bytes=0-{}\r\n", half - 1));
                let etag = head.field("etag").unwrap();
                let (head, rest) = ask(&mut client, &format!("Range: bytes={half}-\r\nIf-Range: {etag}\r\n"));
                match head.status {
                    206 => {
                        resumed += 1;
                        whole.extend(rest);
                    }
                    status => {
                        assert_eq!(status, 200, "{head:?}");
                        whole = rest;
                    }
                }
                let number = version_of(&whole).unwrap_or_else(|| panic!("mixed: {head:?}"));
                assert_eq!(whole.len(), content(number).len(), "{head:?}");
                seen = seen.max(number);
            }
        });
    }
}

/// Requests a part of the file.
fn ask(client: &mut Client, fields: &str) -> (Reply, Vec<u8>) {
    assert!(client.send(&with("/large", fields)));
    let head = client.head().unwrap();
    let content = client.bytes(head.field("content-length").unwrap().parse().unwrap()).unwrap();
    (head, content)
}

#[test]
fn a_small_file_that_is_replaced_during_every_look_at_it_is_served() {
    let app = App::new(ROUTE, &[("public/small", &version(0, KIB))]);
    let path = app.path().join("public/small");
    // The read is delayed until hundreds of versions have replaced the opened file.
    let server = app.begin_with_fault("preadv2", "delay_enter=20000").serving().unwrap();
    while_replaced(
        &path,
        |number| version(number, KIB),
        || {
            let mut client = server.connect();
            for _ in 0..10 {
                let reply = client.get("/small").unwrap();
                assert_eq!(reply.status, 200, "{reply:?}");
                assert!(version_of(reply.content.as_bytes()).is_some(), "mixed: {reply:?}");
            }
        },
    );
}

/// Begins a download of a file of 64 MiB, which no socket buffer holds. Returns the bytes that arrived.
fn begin(client: &mut Client) -> Vec<u8> {
    assert!(client.send(&get("/large")));
    let head = client.head().unwrap();
    assert_eq!(head.field("content-length"), Some((64 * MIB).to_string().as_str()));
    client.bytes(MIB).unwrap()
}

#[test]
fn bytes_appended_while_a_file_is_sent_belong_to_the_next_reply() {
    let app = App::new(ROUTE, &[("public/large", &version(1, 64 * MIB))]);
    let path = app.path().join("public/large");
    let server = app.start();
    let mut client = server.connect();
    begin(&mut client);
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(version(2, MIB).as_bytes()).unwrap();
    let rest = client.bytes(63 * MIB).unwrap();
    assert_eq!(version_of(&rest), Some(1));
    // The reply has no further bytes, because the next reply begins directly after it.
    let (status, content, range) = ranged(&mut client, "/large", "-16");
    assert_eq!((status, version_of(&content)), (206, Some(2)));
    assert_eq!(range, format!("bytes {}-{}/{}", 65 * MIB - 16, 65 * MIB - 1, 65 * MIB));
}

#[test]
fn a_file_that_shrinks_while_it_is_sent_ends_the_connection_without_padding() {
    for sendfile in [true, false] {
        let config = ROUTE.replace(" }", &format!(", sendfile = {sendfile} }}"));
        let app = App::new(&config, &[("public/large", &version(1, 64 * MIB)), ("public/a", "a")]);
        let path = app.path().join("public/large");
        let server = app.start();
        let mut client = server.connect();
        begin(&mut client);
        OpenOptions::new().write(true).open(&path).unwrap().set_len(2 * MIB as u64).unwrap();
        let mut came = MIB;
        let line = version(1, 16).into_bytes();
        while let Some(next) = client.bytes(line.len()) {
            assert!(next == line, "padded at {came}");
            came += line.len();
        }
        assert!(came < 64 * MIB, "{came}");
        // The server still answers other clients, and the file has its new content.
        let mut client = server.connect();
        assert_eq!(client.get("/a").unwrap().content, "a");
        assert!(client.get("/large").unwrap().content == version(1, 2 * MIB));
        fs::remove_file(&path).unwrap();
        assert_eq!(client.get("/large").unwrap().status, 404);
    }
}

#[test]
fn a_file_that_vanishes_while_it_is_sent_arrives_whole() {
    let app = App::new(ROUTE, &[("public/large", &version(1, 64 * MIB))]);
    let server = app.start();
    let mut client = server.connect();
    begin(&mut client);
    fs::remove_dir_all(app.path().join("public")).unwrap();
    assert_eq!(version_of(&client.bytes(63 * MIB).unwrap()), Some(1));
    assert_eq!(server.connect().get("/large").unwrap().status, 503, "its folder is gone, too");
}
