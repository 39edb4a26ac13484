//! The PostgreSQL server of the tests. `initdb` makes it in a temporary folder. The server listens on a Unix
//! socket and on a free loopback port.
//!
//! A keeper process holds a pipe to the test. When the test ends in any way, the pipe breaks. The keeper then
//! stops the server and removes the folder.

// Each test binary that includes this file uses only a part of it.
#![allow(dead_code)]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Id of the user that runs the server if root runs the tests. The server refuses to run as root.
const NOBODY: u32 = 65534;
const INSTALL: &str = "PostgreSQL is not installed; on Debian: apt-get install -y --no-install-recommends postgresql (make tools)";

/// A server with its folder.
pub(crate) struct Cluster {
    folder: PathBuf,
    pub(crate) port: u16,
    bin: PathBuf,
    keeper: Child,
}

static DATABASES: AtomicU32 = AtomicU32::new(0);

/// Returns the server that tests share. Tests that stop or change their server start their own.
pub(crate) fn shared() -> &'static Cluster {
    static SHARED: OnceLock<Cluster> = OnceLock::new();
    SHARED.get_or_init(|| Cluster::start(""))
}

impl Cluster {
    /// Makes and starts a server with additional lines of configuration.
    pub(crate) fn start(settings: &str) -> Self {
        let bin = programs();
        let folder = make_folder();
        let port = free_port();
        let data = folder.join("data");
        run(as_nobody(&bin.join("initdb")).arg("-D").arg(&data).args([
            "-U",
            "tollgate",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
            "--no-instructions",
        ]));
        let socket = folder.display();
        let common = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{socket}'\n\
             fsync = off\nmax_connections = 60\nshared_buffers = 16MB\n{settings}\n"
        );
        fs::write(data.join("postgresql.auto.conf"), common).unwrap();
        let keeper = keep(&bin, &folder);
        let cluster = Self { folder, port, bin, keeper };
        cluster.boot();
        cluster
    }

    /// Starts the server, also after a kill. After a kill, the function may have to wait until the shared
    /// memory of the server is gone.
    pub(crate) fn boot(&self) {
        let start = || {
            as_nobody(&self.bin.join("pg_ctl"))
                .arg("-D")
                .arg(self.folder.join("data"))
                .arg("-l")
                .arg(self.folder.join("log"))
                .args(["-w", "-t", "60", "start"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .unwrap_or_else(|error| panic!("{INSTALL}: {error}"))
        };
        let is_up = (0..20).any(|_| start().success());
        assert!(is_up, "{}", fs::read_to_string(self.folder.join("log")).unwrap_or_default());
    }

    /// Stops the server at once, without a shutdown of clients or a checkpoint.
    pub(crate) fn stop_immediately(&self) {
        run(as_nobody(&self.bin.join("pg_ctl")).arg("-D").arg(self.folder.join("data")).args([
            "-m",
            "immediate",
            "-w",
            "stop",
        ]));
    }

    /// Returns the ids of the server process and all its children.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let server = fs::read_to_string(self.folder.join("data/postmaster.pid")).unwrap();
        let server = server.lines().next().unwrap();
        let children = fs::read_to_string(format!("/proc/{server}/task/{server}/children")).unwrap();
        std::iter::once(server).chain(children.split_whitespace()).map(|id| id.parse().unwrap()).collect()
    }

    /// Kills the server process and all its children by SIGKILL.
    pub(crate) fn kill(&self) {
        let pids: Vec<_> = self.processes().iter().map(i32::to_string).collect();
        // The result is ignored, because children may end as soon as the first process is dead.
        let _ = Command::new("kill").arg("-9").args(&pids).stderr(Stdio::null()).status().unwrap();
        for pid in pids {
            while Path::new(&format!("/proc/{pid}/exe")).read_link().is_ok() {
                std::thread::yield_now();
            }
        }
    }

    /// Returns the folder of the server's socket, data and log.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Creates a database that no other test uses. Returns its name.
    pub(crate) fn database(&self) -> String {
        let name = format!("d{}", DATABASES.fetch_add(1, Ordering::SeqCst));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        name
    }

    /// Returns the address of a database on the Unix socket.
    pub(crate) fn url(&self, database: &str) -> String {
        let (folder, port) = (self.folder.display(), self.port);
        format!("host={folder} port={port} user=tollgate dbname={database}")
    }

    /// Runs statements and returns their output, with fields separated by `|`.
    pub(crate) fn sql(&self, database: &str, statements: &str) -> String {
        let out = self.try_sql(database, statements);
        out.unwrap_or_else(|error| panic!("{statements}: {error}"))
    }

    /// Runs statements that may fail.
    pub(crate) fn try_sql(&self, database: &str, statements: &str) -> Result<String, String> {
        let out = Command::new("psql")
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d"])
            .arg(self.url(database))
            .arg("-c")
            .arg(statements)
            .output()
            .unwrap_or_else(|error| panic!("{INSTALL}: {error}"));
        match out.status.success() {
            true => Ok(String::from_utf8(out.stdout).unwrap().trim_end().to_owned()),
            false => Err(String::from_utf8_lossy(&out.stderr).into_owned()),
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// Returns the folder of `initdb`: a folder of PATH, or the folder where Debian installs it.
fn programs() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<_> = std::env::split_paths(&path).collect();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    folders.extend(versions.map(|version| version.path().join("bin")));
    let has_all = |folder: &PathBuf| {
        ["initdb", "pg_ctl", "postgres"].iter().all(|program| folder.join(program).is_file())
    };
    folders.into_iter().find(has_all).unwrap_or_else(|| panic!("{INSTALL}"))
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

fn make_folder() -> PathBuf {
    // The keeper removes the folder.
    let folder = tempfile::Builder::new().prefix("tollgate-pg-").tempdir().unwrap().keep();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    if is_root() {
        chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    folder
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn as_nobody(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(program);
    command.current_dir("/");
    command
}

fn keep(bin: &Path, folder: &Path) -> Child {
    let script = "read _; \"$0/pg_ctl\" -D \"$1/data\" -m immediate -w stop; rm -rf \"$1\"";
    as_nobody(Path::new("/bin/sh"))
        .args(["-c", script])
        .arg(bin)
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn run(command: &mut Command) {
    // A running server keeps its outputs open. The outputs are files, because a reader of pipes would wait
    // until the server closes them.
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    let status = status.unwrap_or_else(|error| panic!("{command:?}: {error}; {INSTALL}"));
    assert!(status.success(), "{command:?}: {status}");
}
