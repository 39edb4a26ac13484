//! Tests of common downloads with curl and wget: interrupted and resumed, compressed, in parts, and only if
//! the file changed.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use crate::program::{App, printed};

const ROUTE: &str = "workers = 1\n[[route]]\npath = \"/*\"\nfiles = \"public\"\n";
const MISSING: &str = "`make tools` installs curl and wget";

/// Returns text in which each part has its offset.
fn pattern(bytes: usize) -> String {
    (0..bytes / 16).map(|number| format!("{number:015x}\n")).collect()
}

/// A proxy that breaks connections to the server. Each of the first connections gets a limited number of
/// bytes. Later connections get all bytes.
struct BreakingWay {
    address: SocketAddr,
    passed: Arc<AtomicUsize>,
}

impl BreakingWay {
    fn to(server: SocketAddr, cuts: &'static [usize]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let passed = Arc::new(AtomicUsize::new(0));
        let counter = passed.clone();
        // The thread ends with the test process. After this test the thread has no clients, so it does not
        // disturb other tests.
        thread::spawn(move || {
            for (number, client) in listener.incoming().enumerate() {
                let limit = cuts.get(number).copied().unwrap_or(usize::MAX);
                let counter = counter.clone();
                thread::spawn(move || pass(client?, TcpStream::connect(server)?, limit, &counter));
            }
        });
        Self { address, passed }
    }
}

fn pass(mut client: TcpStream, mut server: TcpStream, limit: usize, counter: &AtomicUsize) -> io::Result<()> {
    let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || io::copy(&mut from, &mut to));
    let mut left = limit;
    let mut buffer = vec![0; 16 << 10];
    while left > 0 {
        let room = left.min(buffer.len());
        let bytes = server.read(&mut buffer[..room])?;
        if bytes == 0 {
            break;
        }
        counter.fetch_add(bytes, Ordering::Relaxed);
        client.write_all(&buffer[..bytes])?;
        left -= bytes;
    }
    client.shutdown(Shutdown::Both)?;
    server.shutdown(Shutdown::Both)
}

fn run(client: &str, arguments: &[&str]) -> Output {
    Command::new(client)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{client}: {error}: {MISSING}"))
}

fn digest(path: &Path) -> Vec<u8> {
    Sha256::digest(fs::read(path).unwrap()).to_vec()
}

#[test]
fn downloads_that_are_cut_twice_go_on_to_the_same_digest() {
    const CUTS: &[usize] = &[300_000, 1_700_001];
    let app = App::new(ROUTE, &[("public/large", &pattern(4 << 20))]);
    let server = app.start();
    let expected = digest(&app.path().join("public/large"));
    for client in ["curl", "wget"] {
        let way = BreakingWay::to(server.address(), CUTS);
        let url = format!("http://{}/large", way.address);
        let part = app.path().join(client);
        let file = part.to_str().unwrap();
        if client == "curl" {
            let arguments = ["--silent", "--show-error", "--fail", "-C", "-", "-o", file, &url];
            for _ in CUTS {
                let output = run(client, &arguments);
                assert_eq!(output.status.code(), Some(18), "a partial file: {}", printed(&output));
            }
            assert!(run(client, &arguments).status.success());
        } else {
            // wget retries by itself.
            let output = run(client, &["--continue", "--waitretry=0", "--tries=3", "-O", file, &url]);
            assert!(output.status.success(), "{}", printed(&output));
        }
        assert_eq!(digest(&part), expected, "{client}");
        // No byte of the file was sent twice. The only other bytes are the heads of three replies.
        let beside = way.passed.load(Ordering::Relaxed) - (4 << 20);
        assert!(beside < 3000, "{client}: {beside} bytes beside the file");
    }
}

/// Returns content in one block that is not compressed (RFC 7932 section 9.2).
fn brotli(content: &[u8]) -> Vec<u8> {
    let header = u32::try_from((content.len() - 1) << 4 | 1 << 20).unwrap();
    [&header.to_le_bytes()[..3], content, &[3]].concat()
}

/// Returns content in a zstd frame without compression (RFC 8878 section 3.1.1), up to 255 bytes.
fn zstd(content: &[u8]) -> Vec<u8> {
    let bytes = u8::try_from(content.len()).unwrap();
    let block = u32::from(bytes) << 3 | 1;
    [&[0x28, 0xb5, 0x2f, 0xfd, 0x20, bytes][..], &block.to_le_bytes()[..3], content].concat()
}

#[test]
fn curl_reads_precompressed_files_as_what_they_are() {
    let content = pattern(160);
    let names = ["gzip", "br", "zstd", "none"];
    let paths = names.map(|name| format!("public/{name}.txt"));
    let files: Vec<_> = paths.iter().map(|path| (path.as_str(), content.as_str())).collect();
    let app = App::new(ROUTE, &files);
    let public = app.path().join("public");
    let zipped = run("gzip", &["--keep", public.join("gzip.txt").to_str().unwrap()]);
    assert!(zipped.status.success(), "{}", printed(&zipped));
    fs::write(public.join("br.txt.br"), brotli(content.as_bytes())).unwrap();
    fs::write(public.join("zstd.txt.zst"), zstd(content.as_bytes())).unwrap();
    let server = app.start();
    for name in names {
        let url = format!("http://{}/{name}.txt", server.address());
        let told_last = "%header{content-encoding} %header{vary} %{http_code}";
        let compressed = run("curl", &["--silent", "--compressed", "-w", told_last, &url]);
        let compressed = String::from_utf8(compressed.stdout).unwrap();
        let coding = if name == "none" { "" } else { name };
        let vary = if name == "none" { "" } else { "Accept-Encoding" };
        assert_eq!(compressed, format!("{content}{coding} {vary} 200"), "{name}");
        let plain = run("curl", &["--silent", "-w", told_last, &url]);
        assert_eq!(String::from_utf8(plain.stdout).unwrap(), format!("{content} {vary} 200"), "{name}");
    }
}

#[test]
fn curl_asks_for_heads_for_parts_and_for_what_changed() {
    let content = pattern(100_000);
    let app = App::new(ROUTE, &[("public/a.txt", &content)]);
    let years_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_500_000_000);
    let written = fs::File::options().write(true).open(app.path().join("public/a.txt")).unwrap();
    written.set_modified(years_ago).unwrap();
    let server = app.start();
    let url = format!("http://{}/a.txt", server.address());
    let curl = |arguments: &[&str]| {
        let output = run("curl", &[&["--silent", "--show-error", &url], arguments].concat());
        assert!(output.status.success(), "{arguments:?}: {}", printed(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let status = |arguments: &[&str]| curl(&[&["-o", "/dev/null", "-w", "%{http_code}"], arguments].concat());
    let head = curl(&["-I"]);
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("\r\nContent-Length: 100000\r\n"),
        "{head}"
    );
    assert_eq!(curl(&["--range", "16-31"]), &content[16..32]);
    assert_eq!(curl(&["--range", "-16"]), &content[content.len() - 16..]);
    assert_eq!(curl(&["--range", "99984-"]), &content[99_984..]);
    assert_eq!(status(&["--range", "99984-"]), "206");
    assert_eq!(status(&["--range", "100000-"]), "416");
    let parts = curl(&["--range", "0-15,1600-1615,-16"]);
    for place in [0, 1600, content.len() - 16] {
        let (last, part) = (place + 15, &content[place..place + 16]);
        assert!(
            parts.contains(&format!("Content-Range: bytes {place}-{last}/100000\r\n\r\n{part}\r\n--")),
            "{parts}"
        );
    }
    let file = |name: &str| app.path().join(name).to_str().unwrap().to_owned();
    let (copy, etag) = (file("copy"), file("etag"));
    // The copy gets the modification time of the file, and the entity tag is saved. The server must not send
    // the content again.
    curl(&["-R", "-o", &copy, "--etag-save", &etag]);
    assert!(fs::read_to_string(&copy).unwrap() == content);
    assert_eq!(status(&["-z", &copy]), "304");
    assert_eq!(status(&["--etag-compare", &etag]), "304");
    assert_eq!(status(&["-z", "Sat, 01 Jan 2000 00:00:00 GMT"]), "200");
    assert_eq!(status(&["-z", "-Sat, 01 Jan 2000 00:00:00 GMT"]), "412");
}
