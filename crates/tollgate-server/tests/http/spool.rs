//! Tests of bodies that are too long to be held in memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use tollgate_log::Level;

use crate::site::{Running, Site};

const MEMORY: usize = 64 << 10;

fn site(handler: &str) -> Site {
    Site::new().handler("/take", handler).fixed("/", "hello").tune(|options| {
        options.connection.body_memory_max = MEMORY;
        options.routes[0].body_bytes_max = 64 << 20;
    })
}

fn post(body: &[u8]) -> Vec<u8> {
    let head = format!("POST /take HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Returns text of counted numbers, so that a moved or missing part is found.
fn pattern(bytes: usize) -> String {
    (0..).flat_map(|number: u64| format!("{number:x} ").into_bytes()).take(bytes).map(char::from).collect()
}

/// Returns the files without a name in a folder that this process has open, as links below `/proc/self/fd`.
fn spooled(folder: &Path) -> Vec<PathBuf> {
    let links = fs::read_dir("/proc/self/fd").unwrap().map(|link| link.unwrap().path());
    // The result may be an error, because a descriptor may have been closed after it was listed.
    let is_spooled = |link: &PathBuf| {
        let target = fs::read_link(link).unwrap_or_default();
        target.starts_with(folder) && target.to_string_lossy().ends_with("(deleted)")
    };
    links.filter(is_spooled).collect()
}

pub(crate) fn wait_for_files(server: &Running, count: usize) {
    let begun = Instant::now();
    loop {
        let found = spooled(&server.folder().join("spool")).len();
        if found == count {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{found} files, expected {count}");
        thread::yield_now();
    }
}

#[test]
fn long_bodies_reach_a_script_as_they_were_sent_by_length_and_by_chunks() {
    for encrypt in [false, true] {
        check_long_bodies(
            &site("return { body = req:body() }").tune(|options| options.spool.encrypt = encrypt).start(),
        );
    }
}

fn check_long_bodies(server: &Running) {
    for bytes in [MEMORY, MEMORY + 1, 3 * MEMORY + 17, 1 << 20] {
        let body = pattern(bytes);
        let mut peer = server.connect();
        peer.send(post(body.as_bytes()));
        peer.expect("200", &body);
        let chunks: Vec<_> = body
            .as_bytes()
            .chunks(50_001)
            .map(|chunk| [format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat())
            .collect();
        peer.send("POST /take HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        peer.send(chunks.concat());
        peer.send("0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
        peer.expect("200", &body);
        peer.expect("200", "hello");
    }
    wait_for_files(server, 0);
}

#[test]
fn an_encrypted_body_is_not_in_its_file_and_is_read_as_it_was_sent() {
    const SECRET: &str = "4111-1111-1111-1111";
    let encrypted = |site: Site| {
        site.tune(|options| {
            options.connection.body_memory_max = MEMORY;
            options.spool.encrypt = true;
        })
    };
    let server = encrypted(Site::new().handler("/take", "return { body = req:body() }")).start();
    let body = format!("{SECRET} ").repeat(20_000);
    let (mut peer, request) = (server.connect(), post(body.as_bytes()));
    peer.send(&request[..request.len() - 1]);
    wait_for_files(&server, 1);
    let file = spooled(&server.folder().join("spool")).remove(0);
    let begun = Instant::now();
    let stored = loop {
        let stored = fs::read(&file).unwrap();
        if stored.len() >= MEMORY {
            break stored;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{} bytes are stored", stored.len());
    };
    assert!(!stored.windows(SECRET.len()).any(|bytes| bytes == SECRET.as_bytes()));
    peer.send(&request[request.len() - 1..]);
    peer.expect("200", &body);
    let parts = "for part in req:parts{} do if part.name == 'b' then return tostring(part:text()) end end";
    let server = encrypted(Site::new().handler("/take", parts)).start();
    let form = format!(
        "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n{}\r\n--x\r\n\
         Content-Disposition: form-data; name=\"b\"\r\n\r\n{SECRET}\r\n--x--\r\n",
        pattern(3 * MEMORY)
    );
    let head = "POST /take HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=x\r\n";
    server.check(&format!("{head}Content-Length: {}\r\n\r\n{form}", form.len()), "200", SECRET);
    let site =
        Site::new().stream("events", Level::Synced, &["n int record.n", "all text body"]).collect("/take");
    let server = encrypted(site).start();
    let body = format!("{{\"n\":1}}\n{}{{\"n\":2}}\n", " ".repeat(2 * MEMORY));
    let mut peer = server.connect();
    peer.send(post(body.as_bytes()));
    peer.expect("200", "{\"recorded\":2}\n");
    assert_eq!(server.records(), [format!("n=1 all={body}"), format!("n=2 all={body}")]);
}

#[test]
fn a_script_that_may_not_hold_a_body_gets_an_error_that_says_so() {
    let handler = "local ok, why = pcall(req.body, req) return { status = 413, body = tostring(why) }";
    let server = site(handler).tune(|options| options.script.memory_bytes_max = 1 << 20).start();
    let mut peer = server.connect();
    peer.send(post(pattern(2 << 20).as_bytes()));
    let reply = peer.reply(false);
    assert_eq!(reply.status, 413);
    assert!(reply.content.contains("content exceeds what its reader may hold: 2097152 bytes"), "{reply:?}");
}

#[test]
fn collected_lines_and_a_body_column_come_out_of_a_file_like_out_of_memory() {
    let server = Site::new()
        .stream("events", Level::Synced, &["n int record.n", "all text body"])
        .collect("/take")
        .tune(|options| options.connection.body_memory_max = MEMORY)
        .start();
    let body = format!("{{\"n\":1}}\n{}{{\"n\":2}}\n", " ".repeat(2 * MEMORY));
    let mut peer = server.connect();
    peer.send(post(body.as_bytes()));
    peer.expect("200", "{\"recorded\":2}\n");
    assert_eq!(server.records(), [format!("n=1 all={body}"), format!("n=2 all={body}")]);
}

#[test]
fn a_client_that_leaves_in_the_middle_leaves_no_file_behind() {
    let server = site("return 'taken'").start();
    let body = pattern(8 * MEMORY);
    let mut peers: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for peer in &mut peers {
        peer.send(&post(body.as_bytes())[..4 * MEMORY]);
    }
    wait_for_files(&server, 20);
    drop(peers);
    wait_for_files(&server, 0);
    let mut peer = server.connect();
    peer.send(post(body.as_bytes()));
    peer.expect("200", "taken");
}

#[test]
fn many_long_bodies_at_once_are_each_their_own() {
    let server = site("return { body = req:body() }").start();
    thread::scope(|scope| {
        for client in 0..24 {
            let server = &server;
            scope.spawn(move || {
                let body = format!("{client} {}", pattern(200_000 + client * 1000));
                let mut peer = server.connect();
                for _ in 0..3 {
                    peer.send(post(body.as_bytes()));
                    peer.expect("200", &body);
                }
            });
        }
    });
    wait_for_files(&server, 0);
}

#[test]
fn a_body_beyond_the_spool_is_refused_and_the_room_is_free_again() {
    let server = site("return 'taken'").tune(|options| options.spool.bytes_max = 1 << 20).start();
    for _ in 0..3 {
        let mut peer = server.connect();
        peer.send(post(&vec![b'x'; 2 << 20]));
        let reply = peer.reply(false);
        let told = (reply.status, reply.field("tollgate-outcome"), reply.field("connection"));
        assert_eq!(told, (503, Some("refused"), Some("close")), "{reply:?}");
        assert!(reply.content.contains("too many request bodies are on disk"), "{reply:?}");
        peer.expect_end();
    }
    let mut peer = server.connect();
    peer.send(post(&vec![b'x'; 1 << 19]));
    peer.expect("200", "taken");
}

#[test]
fn a_disk_without_room_refuses_long_bodies_and_takes_short_ones() {
    let server = site("return 'taken'").tune(|options| options.spool.reserve_bytes = 1 << 60).start();
    let mut peer = server.connect();
    peer.send(post(&vec![b'x'; 2 * MEMORY]));
    let reply = peer.reply(false);
    assert_eq!((reply.status, reply.field("tollgate-outcome")), (503, Some("refused")), "{reply:?}");
    assert!(reply.content.contains("the disk is nearly full"), "{reply:?}");
    let mut peer = server.connect();
    peer.send(post(&vec![b'x'; MEMORY]));
    peer.expect("200", "taken");
}

#[test]
fn a_folder_that_cannot_be_made_refuses_long_bodies_and_the_server_goes_on() {
    let server = site("return 'taken'").tune(|options| options.spool.dir = "/proc/none/spool".into()).start();
    let mut peer = server.connect();
    peer.send(post(&vec![b'x'; 2 * MEMORY]));
    let reply = peer.reply(false);
    assert_eq!((reply.status, reply.field("tollgate-outcome")), (503, Some("refused")), "{reply:?}");
    server.check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "200", "hello");
}

#[test]
fn a_long_body_that_ends_early_is_no_request() {
    let server = site("return 'taken'").start();
    let mut peer = server.connect();
    peer.send(&post(&vec![b'x'; 4 * MEMORY])[..3 * MEMORY]);
    peer.finish();
    assert_eq!(peer.reply(false).status, 400);
    peer.expect_end();
    wait_for_files(&server, 0);
}
