//! Commands of another user than the server's: what the system refuses never reads as what does not exist.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::program::{App, BINARY, KEEP, eventually, printed};

const CONFIG: &str = r#"
[stream.all]
columns = [{ name = "n", type = "int", from = "record.n" }]
[[route]]
path = "/keep"
script = "keep.luau"
stream = "all"
"#;

/// A user id without any right.
const OTHER_USER: &str = "65534";

/// Texts that say that something does not exist.
const ABSENT: [&str; 6] =
    ["no server", "does not exist", "nothing was recorded", "no records yet", "no log", "nothing to serve"];

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Another user, with a copy of the program in a folder that every user can search.
struct OtherUser {
    folder: TempDir,
}

impl OtherUser {
    fn new() -> Self {
        assert!(rustix::process::geteuid().is_root(), "this test changes the user, so it runs as root");
        let folder = tempfile::tempdir().unwrap();
        allow(folder.path(), 0o777);
        fs::copy(BINARY, folder.path().join("tollgate")).unwrap();
        Self { folder }
    }

    /// Runs a command in the folder of the app.
    fn run(&self, app: &App, arguments: &[&str]) -> Output {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", OTHER_USER, "--regid", OTHER_USER, "--clear-groups"]);
        command.arg(self.folder.path().join("tollgate")).args(arguments);
        command.current_dir(app.path()).output().unwrap()
    }

    /// Checks that each command names the refusal, and that none of them claims that something is absent.
    fn check(&self, app: &App, commands: &[&[&str]], refused: &str) {
        for command in commands {
            let output = self.run(app, command);
            let text = printed(&output);
            assert!(!output.status.success(), "{command:?}: {text}");
            assert!(text.to_lowercase().contains("permission denied"), "{command:?}: {text}");
            assert!(text.contains(refused), "{command:?}: {text}");
            for absent in ABSENT {
                assert!(!text.contains(absent), "{command:?}: {text}");
            }
        }
    }

    /// Checks commands in a folder that every user can search.
    fn check_elsewhere(&self, commands: &[&[&str]]) {
        let elsewhere = App::bare(&[]);
        allow(elsewhere.path(), 0o755);
        self.check(&elsewhere, commands, "tollgate.toml");
    }
}

#[test]
fn a_refusal_of_the_system_never_reads_as_a_missing_server_folder_or_database() {
    let other = OtherUser::new();
    let app = App::new(CONFIG, &[("keep.luau", KEEP)]);
    allow(app.path(), 0o755);
    let server = app.start();
    assert!(server.connect().get("/keep?n=1").unwrap().is_success());
    eventually("it is loaded", || app.has_table("all").then_some(()));
    let store = other.folder.path().to_str().unwrap();
    let ship: &[&str] = &["ship", "--to", store];
    let sql: &[&str] = &["sql", "SELECT 1"];
    // The configuration can be read. The log and the database cannot.
    allow(&app.path().join("data"), 0o700);
    let of_data: [&[&str]; 12] = [
        &["status"],
        &["status", "--json"],
        &["reload"],
        &["audit"],
        &["load", "--once"],
        ship,
        sql,
        &["log", "ls"],
        &["log", "cat"],
        &["log", "tail"],
        &["log", "verify"],
        &["log", "repair", "--dry-run"],
    ];
    other.check(&app, &of_data, "/data/");
    let of_log: [&[&str]; 3] =
        [&["log", "ls", "data/log"], &["log", "dump", "data/log/x"], &["status", "data/log"]];
    other.check(&app, &of_log, "data/log");
    other.check(&app, &[&["serve", "--listen", "127.0.0.1:0"]], "data");
    // Nothing can be read.
    allow(app.path(), 0o700);
    let path = app.path().to_str().unwrap().to_owned();
    let commands =
        ["status", "reload", "audit", "load", "check", "test", "serve"].map(|command| vec![command, &path]);
    let of_config: Vec<&[&str]> = commands.iter().map(Vec::as_slice).collect();
    other.check_elsewhere(&of_config);
    other.check_elsewhere(&[
        &["log", "cat", &path],
        &["log", "verify", &path],
        &["cert", "ls", &path],
        &["cert", "renew", "--config", &path],
        &["sql", "--config", &path, "SELECT 1"],
        &["ship", "--to", store, &path],
    ]);
    allow(app.path(), 0o755);
    server.stop();
}

#[test]
fn a_command_finds_the_server_by_argument_variable_folder_and_system_in_this_order() {
    let [named, other, system] = [(); 3].map(|()| App::new(CONFIG, &[("keep.luau", KEEP)]));
    let servers = [&named, &other, &system].map(App::start);
    let empty = App::bare(&[]);
    let asked = |folder: &App, variable: Option<&App>, arguments: &[&str]| {
        // The file of the system is bound to this app, in a mount namespace of the command.
        let bind = "mount -t tmpfs none /etc && mkdir /etc/tollgate && \
                    cp \"$SYSTEM/tollgate.toml\" \"$SYSTEM/keep.luau\" /etc/tollgate && \
                    sed -i \"1i [log]\\ndir = '$SYSTEM/data/log'\" /etc/tollgate/tollgate.toml && \
                    exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", bind, "sh", BINARY]).args(arguments);
        command.env("SYSTEM", system.path()).current_dir(folder.path());
        if let Some(app) = variable {
            command.env("TOLLGATE_CONFIG", app.path().join("tollgate.toml"));
        }
        let output = command.output().unwrap();
        let text = printed(&output);
        assert!(output.status.success(), "{text}");
        text.lines().next().unwrap().to_owned()
    };
    let is_of = |line: &str, app: &App| line.contains(app.path().to_str().unwrap());
    let file = named.path().join("tollgate.toml");
    let file = file.to_str().unwrap();
    assert!(is_of(&asked(&other, Some(&system), &["status", file]), &named));
    assert!(is_of(&asked(&other, Some(&system), &["status", "--config", file]), &named));
    assert!(is_of(&asked(&other, Some(&named), &["status"]), &named));
    assert!(is_of(&asked(&other, None, &["status"]), &other));
    assert!(is_of(&asked(&other, None, &["reload"]), &other));
    assert!(is_of(&asked(&empty, None, &["status"]), &system));
    servers.into_iter().for_each(|server| drop(server.stop()));
}
