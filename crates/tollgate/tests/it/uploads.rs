//! Tests of bodies far longer than `in_flight_bytes_max`: the memory and the files of the process, and a full
//! disk.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::Duration;
use std::{env, fs};

use crate::program::{App, Running, eventually, printed};

const MIB: usize = 1 << 20;

fn app(server_keys: &str) -> App {
    let routes = "[[route]]\npath = \"/take\"\nscript = \"take.luau\"\nbody_bytes_max = \"1GiB\"\n";
    let take = "return function() return 'taken' end";
    App::new(&format!("{server_keys}\n{routes}"), &[("take.luau", take)])
}

fn start(server_keys: &str) -> (App, Running) {
    let app = app(server_keys);
    let server = app.start();
    (app, server)
}

/// Uploads this many bytes and returns the whole answer. A server may answer before it has read all of them.
fn upload(server: &Running, bytes: usize) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head =
        format!("POST /take HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {bytes}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let part = vec![b'x'; MIB / 8];
    for _ in 0..bytes / part.len() {
        if stream.write_all(&part).is_err() {
            break;
        }
    }
    let mut answer = Vec::new();
    // An error is ignored, because a reset may follow the answer that was already read.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

/// Returns the highest memory of the process since its start.
pub(crate) fn peak_kib(server: &Running) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn spooled_files(server: &Running) -> usize {
    let links = fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap();
    let targets = links.filter_map(|link| fs::read_link(link.ok()?.path()).ok());
    targets.filter(|target| target.to_string_lossy().contains("/spool/")).count()
}

#[test]
fn a_body_of_100_mib_takes_no_more_memory_than_a_short_one() {
    let (app, server) = start("");
    assert!(upload(&server, MIB).ends_with("taken"));
    let before = peak_kib(&server);
    assert!(upload(&server, 100 * MIB).ends_with("taken"));
    let grown = peak_kib(&server) - before;
    assert!(grown < 4 << 10, "{grown} KiB");
    eventually("the file is closed", || (spooled_files(&server) == 0).then_some(()));
    assert_eq!(fs::read_dir(app.path().join("data/spool")).unwrap().count(), 0);
}

/// Uploads a form with a file of this many bytes. Returns the answer.
fn upload_form(server: &Running, bytes: usize) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(600))).unwrap();
    let begin = "--b\r\nContent-Disposition: form-data; name=f; filename=f\r\n\r\n";
    let end = "\r\n--b--\r\n";
    let length = begin.len() + bytes + end.len();
    let head = format!(
        "POST /save HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(begin.as_bytes()).unwrap();
    let block = vec![b'x'; MIB];
    for _ in 0..bytes / MIB {
        stream.write_all(&block).unwrap();
    }
    stream.write_all(end.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn check_saved_form(bytes: usize) {
    let routes = "[[route]]\npath = \"/save\"\nscript = \"save.luau\"\nupload_dir = \"up\"\nbody_bytes_max = \"4GiB\"\n";
    let save = "return function(req)
        for part in req:parts() do
            return tostring(part:save(part.filename, { overwrite = true, sync = false }))
        end
    end";
    let server_keys = "spool_bytes_max = \"4GiB\"\nbody_timeout = \"20m\"\n";
    let app = App::new(&format!("{server_keys}{routes}"), &[("save.luau", save), ("up/keep", "")]);
    let server = app.start();
    assert!(upload_form(&server, MIB).ends_with(&format!("\r\n\r\n{MIB}")));
    let before = peak_kib(&server);
    let answer = upload_form(&server, bytes);
    assert!(answer.ends_with(&format!("\r\n\r\n{bytes}")), "{answer}");
    let grown = peak_kib(&server) - before;
    assert!(grown < 4 << 10, "{grown} KiB");
    assert_eq!(fs::metadata(app.path().join("up/f")).unwrap().len(), bytes as u64);
    assert_eq!(fs::read_dir(app.path().join("up")).unwrap().count(), 2);
}

/// `make uploads` saves a file of 2 GiB.
#[test]
fn a_form_is_saved_in_constant_memory() {
    let mib = env::var("TOLLGATE_UPLOAD_MIB").map_or(100, |text| text.parse().unwrap());
    check_saved_form(mib * MIB);
}

#[test]
fn twenty_bodies_of_20_mib_at_once_take_what_is_configured() {
    let (_app, server) = start("body_memory_max = \"256KiB\"");
    assert!(upload(&server, MIB).ends_with("taken"));
    let before = peak_kib(&server);
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| assert!(upload(&server, 20 * MIB).ends_with("taken")));
        }
    });
    // Each body needs twice the memory bound, because a buffer grows by doubling. Each body also needs a read
    // buffer. Each worker has eight threads that write to the disk. A thread needs about 100 KiB for its
    // stack and its heap, and all of them start only on a busy machine.
    let grown = peak_kib(&server) - before;
    assert!(grown < 20 * 640 + 2 * 8 * 128, "{grown} KiB");
    eventually("the files are closed", || (spooled_files(&server) == 0).then_some(()));
}

#[test]
fn a_client_that_leaves_in_the_middle_of_a_long_body_leaves_nothing() {
    let (_app, server) = start("");
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(b"POST /take HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n").unwrap();
    stream.write_all(&vec![b'x'; 10 * MIB]).unwrap();
    eventually("the body is spooled", || (spooled_files(&server) == 1).then_some(()));
    drop(stream);
    eventually("the file is gone", || (spooled_files(&server) == 0).then_some(()));
}

#[test]
fn a_full_disk_refuses_a_long_body_and_the_server_goes_on() {
    let app = app("spool_dir = \"small/spool\"");
    let path = app.path().join("small");
    fs::create_dir_all(&path).unwrap();
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"]).arg(&path).output();
    let mount = mount.unwrap();
    assert!(mount.status.success(), "this test mounts a disk, which takes root: {}", printed(&mount));
    let server = app.start();
    let (refused, taken) = (upload(&server, 64 * MIB), upload(&server, MIB / 8));
    let freed = eventually("the room is free again", || {
        let answer = upload(&server, 4 * MIB);
        answer.starts_with("HTTP/1.1 200 ").then_some(answer)
    });
    eventually("the disk is unmounted", || {
        Command::new("umount").arg(&path).output().unwrap().status.success().then_some(())
    });
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert!(refused.contains("Tollgate-Outcome: refused\r\n"), "{refused}");
    assert!(refused.ends_with("the disk is nearly full: nothing was recorded\n"), "{refused}");
    assert!(taken.starts_with("HTTP/1.1 200 ") && freed.ends_with("taken"), "{taken} {freed}");
}
