//! Permissions of the files that a server makes, and of files that existed before.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use crate::program::{App, BINARY, PATIENCE, Running, eventually, printed};

const CONFIG: &str = "body_memory_max = \"64KiB\"\n\
                      [stream.s]\ncolumns = [{ name = \"n\", type = \"int\" }]\n\
                      [[route]]\npath = \"/s\"\ncollect = true\nstream = \"s\"\n";

/// Starts a server whose umask removes no permission.
fn start(app: &App) -> Running {
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 0; exec \"$@\"", "sh", BINARY]);
    app.begin_as(shell).serving().unwrap()
}

/// Makes the server write to log, database and spool.
fn use_all(app: &App, server: &Running) {
    assert!(server.connect().post("/s", "{\"n\": 1}").unwrap().is_success());
    eventually("it is loaded", || app.has_table("s").then_some(()));
    let mut peer = TcpStream::connect(server.address()).unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = format!("{{\"n\": 2}}{}", " ".repeat(200_000));
    let head =
        format!("POST /s HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    peer.write_all((head + &body).as_bytes()).unwrap();
    let mut reply = String::new();
    peer.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 2"), "{reply}");
}

/// Collects the permissions of everything below a folder, by path: `d` for folders, `s` for sockets, `f` for
/// files.
fn modes_below(folder: &Path, modes: &mut BTreeMap<String, (char, u32)>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let found = fs::symlink_metadata(entry.path()).unwrap();
        let kind = if found.is_dir() {
            'd'
        } else if found.file_type().is_socket() {
            's'
        } else {
            'f'
        };
        modes.insert(entry.path().display().to_string(), (kind, found.permissions().mode() & 0o7777));
        if found.is_dir() {
            modes_below(&entry.path(), modes);
        }
    }
}

#[test]
fn files_that_a_server_makes_are_not_for_other_users_whatever_the_umask_is() {
    let app = App::new(CONFIG, &[]);
    let server = start(&app);
    use_all(&app, &server);
    let mut modes = BTreeMap::new();
    modes_below(app.path(), &mut modes);
    modes.retain(|path, _| !path.ends_with("/tollgate.toml"));
    let has = |end: &str| modes.keys().any(|path| path.ends_with(end));
    let expected = [
        "data",
        "log",
        ".open",
        "lock",
        "tollgate.sqlite",
        "-wal",
        "-shm",
        "spool",
        "admin.sock",
        "control.sock",
    ];
    let missing: Vec<_> = expected.into_iter().filter(|end| !has(end)).collect();
    assert!(missing.is_empty(), "{missing:?} of {modes:?}");
    let most = |kind| match kind {
        'd' => 0o750,
        's' => 0o600,
        _ => 0o640,
    };
    let wide: Vec<_> = modes.iter().filter(|(_, (kind, mode))| mode & !most(*kind) != 0).collect();
    assert!(wide.is_empty(), "{wide:?}");
    assert!(server.stop().0.success());
    let output = app.run(&["check"]);
    assert!(!printed(&output).contains("note: every user"), "{}", printed(&output));
}

#[test]
fn files_that_are_there_keep_their_permissions_and_check_names_writable_ones() {
    let app = App::new(CONFIG, &[]);
    let server = start(&app);
    use_all(&app, &server);
    assert!(server.stop().0.success());
    let open_to = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let database = app.path().join("data/tollgate.sqlite");
    let segment = app.segments().pop().unwrap();
    open_to(&app.log_dir(), 0o777);
    open_to(&app.path().join("data/spool"), 0o1777);
    open_to(&database, 0o666);
    open_to(&segment, 0o646);
    let server = start(&app);
    use_all(&app, &server);
    assert!(server.stop().0.success());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&app.log_dir()), mode(&database)), (0o777, 0o666));
    let output = app.run(&["check"]);
    assert!(output.status.success(), "{}", printed(&output));
    let text = printed(&output);
    for path in [&app.log_dir(), &database, &segment] {
        let note = format!("note: every user can write to {0}: chmod o-w {0}\n", path.display());
        assert!(text.contains(&note), "{note} in {text}");
    }
    assert_eq!(text.matches("note: every user").count(), 3, "{text}");
}
