//! Tests of a process without a free descriptor. It still serves existing connections.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Instant;

use crate::admin::get_until;
use crate::client::{Client, Reply};
use crate::program::{App, BINARY, Running, eventually};

/// The configuration of the server. Segments are small, so each has only a few records.
const CONFIG: &str = r#"
workers = 1
[log]
segment_age_max = "10ms"
[stream.kept]
columns = [{ name = "n", type = "int", from = "record.n" }]
ack = "synced"
[[route]]
path = "/kept"
script = "keep.luau"
stream = "kept"
"#;
const KEEP: &str = "return function(req) return { record = { n = tonumber(req.query.n) } } end";

/// Returns a command that runs the program with at most this many descriptors.
fn shell(descriptors: u32) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -n {descriptors}; exec \"$@\""), "sh", BINARY]);
    shell
}

/// Starts a server that may have this many descriptors.
fn limited(app: &App, descriptors: u32) -> Running {
    app.begin_as(shell(descriptors)).serving().unwrap()
}

/// Runs a command with at most this many descriptors.
fn run_limited(app: &App, descriptors: u32, arguments: &[&str]) -> Output {
    shell(descriptors).args(arguments).current_dir(app.path()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn admin_socket(app: &App) -> PathBuf {
    app.log_dir().join("admin.sock")
}

/// Makes three routes of a hundred files each, too large to be held in memory.
fn site(options: &str) -> App {
    let route = |name| format!("[[route]]\npath = \"/{name}/*\"\nfiles = \"public\"\n");
    let app =
        App::new(&format!("{options}\n{}", ["a", "b", "c"].map(route).concat()), &[("public/small", "s")]);
    let content = "x".repeat(20_000);
    (0..100).for_each(|number| app.write(&format!("public/{number}"), &content));
    app
}

fn ask_for_all(clients: &mut [Client]) {
    let paths = ["a", "b", "c"].iter().flat_map(|route| (0..100).map(move |file| format!("/{route}/{file}")));
    for (turn, path) in paths.enumerate() {
        let client = turn % clients.len();
        let reply = clients[client].get(&path).unwrap();
        assert!(reply.is_success(), "{path}: {reply:?}");
    }
}

/// Opens connections until one gets no answer, at most `connections_max`. Returns the open connections.
fn answered(server: &Running, connections_max: usize) -> Vec<Client> {
    let mut kept = Vec::new();
    while kept.len() < connections_max
        && let Some(mut client) = Client::try_connect(server.address())
        && client.get("/a/small").is_some_and(|reply| reply.is_success())
    {
        kept.push(client);
    }
    kept
}

/// Returns how many files of the site a server has open, without the folder itself.
fn open_files(app: &App, server: &Running) -> usize {
    let public = app.path().join("public").canonicalize().unwrap();
    let links = fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap();
    let leads_to_a_file = |link: PathBuf| fs::read_link(link).is_ok_and(|to| to.parent() == Some(&public));
    links.filter(|link| leads_to_a_file(link.as_ref().unwrap().path())).count()
}

#[test]
fn files_that_are_kept_open_leave_descriptors_for_every_connection() {
    // Without spooled bodies, the budget leaves more descriptors for files. The limit is still lower than all
    // connections and files together could need.
    let app =
        site("workers = 2\nconnections_max = 100\nspool_bytes_max = \"0B\"\nbody_memory_max = \"1MiB\"");
    let server = limited(&app, 320);
    let mut clients: Vec<_> = (0..8).map(|_| server.connect()).collect();
    ask_for_all(&mut clients);
    let kept = open_files(&app, &server);
    assert!((1..100).contains(&kept), "{kept} files beside 100 connections");
    drop(clients);
    // The connections of those clients may still be open.
    assert_eq!(answered(&server, 90).len(), 90);
    server.kill();
}

/// Returns the effective `connections_max` from the text of a note.
fn told_connections_max(text: &str) -> usize {
    let rest = text.split_once("connections_max is ").unwrap().1;
    rest.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_default_number_of_connections_is_lowered_to_the_limit_and_told() {
    let app = site("workers = 1");
    let server = limited(&app, 200);
    eventually("it is told", || server.has_logged("instead of its default").then_some(()));
    let clients = answered(&server, 200);
    // The admin listener answers, because descriptors are reserved for it.
    get_until(&app, "/readyz", 503, "connections_full");
    let mut askers: Vec<_> = (0..30).map(|_| UnixStream::connect(admin_socket(&app)).unwrap()).collect();
    for asker in &mut askers {
        asker.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    }
    for mut asker in askers {
        let mut answer = String::new();
        asker.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let served = clients.len();
    drop(clients);
    get_until(&app, "/readyz", 200, "ready");
    eventually("clients are served again", || (answered(&server, 1).len() == 1).then_some(()));
    let (status, log) = server.stop();
    assert!(status.success() && served == told_connections_max(&log), "{served}\n{log}");
    assert!(!log.contains("no free file descriptor"), "{log}");
    let checked = run_limited(&app, 200, &["check", "--print"]);
    assert!(checked.status.success(), "{checked:?}");
    let (printed, notes) = (text(&checked.stdout), text(&checked.stderr));
    assert!(printed.contains(&format!("\nconnections_max = {served}\n")), "{printed}");
    assert!(notes.starts_with("note: connections_max is "), "{notes}");
    assert_eq!(told_connections_max(&notes), served);
}

#[test]
fn a_number_of_connections_that_does_not_fit_the_limit_is_refused_if_it_is_written() {
    let app = site("workers = 1\nconnections_max = 100");
    let begun = app.begin_as(shell(200)).serving().err().expect("it does not start");
    let Output { status, stderr, .. } = run_limited(&app, 200, &["check"]);
    for (status, told) in [begun, (status, text(&stderr))] {
        assert_eq!(status.code(), Some(2), "{told}");
        assert!(told.contains("connections_max is 100, which needs "), "{told}");
        assert!(told.contains(" descriptors, limit of the process 200: raise LimitNOFILE"), "{told}");
    }
    let output = run_limited(&app, 60, &["check"]);
    assert!(text(&output.stderr).contains("the limit of descriptors is 60, the server needs "), "{output:?}");
}

/// Repeats a request while the server has few free descriptors: none at first, and one more each time.
fn with_few_spare(server: &Running, mut ask: impl FnMut(usize) -> Reply) -> Vec<Reply> {
    let open = fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap().count() as u64;
    let ask_within = |spare| {
        server.limit_descriptors(open + spare as u64);
        let reply = ask(spare);
        server.limit_descriptors(1024);
        reply
    };
    (0..10).map(ask_within).collect()
}

#[test]
fn a_file_that_cannot_be_opened_for_want_of_descriptors_stays_in_its_listing() {
    let app =
        site("workers = 1\n[[route]]\npath = \"/shown/*\"\nfiles = { dir = \"public\", listing = true }");
    let server = app.start();
    let mut client = server.connect();
    let whole = client.get("/shown/").unwrap().content;
    assert!(whole.contains("small"), "{whole}");
    let replies = with_few_spare(&server, |_| client.get("/shown/").unwrap());
    assert!(replies.iter().any(|reply| reply.status == 503) && replies.iter().any(Reply::is_success));
    for reply in replies {
        assert!(reply.status == 503 || reply.content == whole, "{reply:?}");
    }
    server.kill();
}

#[test]
fn a_coded_file_is_not_held_to_be_absent_for_want_of_descriptors() {
    let app = site("workers = 1");
    (0..10).for_each(|number| app.write(&format!("public/{number}.gz"), "compressed"));
    let server = app.start();
    let mut client = server.connect();
    assert!(client.get("/a/small").unwrap().is_success());
    let mut ask = |number: usize| {
        client.send(&format!("GET /a/{number} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n"));
        client.reply().unwrap()
    };
    let replies = with_few_spare(&server, &mut ask);
    assert!(replies.iter().any(|reply| reply.status == 503) && replies.iter().any(Reply::is_success));
    for reply in replies.into_iter().filter(|reply| reply.status != 503).chain((0..10).map(ask)) {
        assert_eq!((reply.status, reply.field("content-encoding")), (200, Some("gzip")), "{reply:?}");
    }
    server.kill();
}

#[test]
fn a_file_that_cannot_be_opened_again_and_again_does_not_drown_the_log() {
    const ASKED: usize = 300;
    let app = site("workers = 1");
    let server = app.start();
    let mut client = server.connect();
    assert!(client.get("/a/small").unwrap().is_success());
    let begun = Instant::now();
    with_few_spare(&server, |spare| {
        let asked = if spare == 0 { ASKED } else { 1 };
        let last = (0..asked).map(|number| client.get(&format!("/b/{}", number % 100)).unwrap()).last();
        last.unwrap()
    });
    let seconds = begun.elapsed().as_secs() as usize + 2;
    let (_, log) = server.stop();
    let told = log.matches("file not served").count();
    assert!((1..=10 * seconds).contains(&told), "{told} lines in {seconds} s");
}

#[test]
fn a_log_goes_on_from_segment_to_segment_though_connections_have_every_descriptor() {
    let app = App::new(CONFIG, &[("keep.luau", KEEP)]);
    let server = app.start();
    let mut client = server.connect();
    assert!(client.get("/kept?n=0").unwrap().is_success());
    // The new limit is below the budget of the start, so the server has fewer descriptors than it planned
    // with.
    server.limit_descriptors(100);
    let flood: Vec<_> = (0..200).filter_map(|_| TcpStream::connect(server.address()).ok()).collect();
    eventually("no free file descriptor", || server.has_logged("no free file descriptor").then_some(()));
    let begun_with = app.segments().len();
    let mut recorded = 1;
    while app.segments().len() < begun_with + 30 {
        let reply = client.get(&format!("/kept?n={recorded}")).unwrap();
        assert!(reply.is_success(), "{reply:?}");
        recorded += 1;
    }
    drop((flood, client));
    let (status, log) = server.stop();
    assert!(status.success(), "{log}");
    app.settle();
    assert_eq!(app.query::<i64>("SELECT n FROM kept ORDER BY n"), (0..recorded).collect::<Vec<_>>());
}
