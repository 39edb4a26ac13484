//! Starts versitygw, a server with the protocol of S3 that stores objects in a folder.

#![allow(dead_code, reason = "each crate whose tests use it needs another part of it")]

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tollgate_ship::{ObjectStore, ObjectStoreOptions, Pacer, Secret, StorePlace};

/// Longest wait for the start of the server.
const PATIENCE: Duration = Duration::from_secs(300);

/// The version that `make versitygw` builds.
const PROGRAM: &str = "../../target/tools/versitygw-1.8.0/bin/versitygw";
pub(crate) const ACCESS_KEY: &str = "tollgate-test";
pub(crate) const SECRET_KEY: &str = "sesame-sesame";
const BUCKET: &str = "logs";
/// Number of tries to start the server. Another process may take the port before the server opens it.
const STARTS_MAX: u32 = 5;

/// A running server. The drop of this value ends the process.
pub(crate) struct Gateway {
    child: Child,
    arguments: Vec<OsString>,
    folder: TempDir,
    pub(crate) address: SocketAddr,
}

/// Files of a certificate and its key for a server.
pub(crate) struct Certificate {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Gateway {
    /// Starts a server with an empty bucket.
    pub(crate) fn start() -> Self {
        Self::start_with(|_| None)
    }

    /// Starts a server with a certificate for its address. Only a server with a certificate uses TLS.
    pub(crate) fn start_with(certificate: impl Fn(Ipv4Addr) -> Option<Certificate>) -> Self {
        for _ in 0..STARTS_MAX {
            let (host, port) = free_address();
            if let Some(gateway) = Self::try_start((host, port).into(), certificate(host)) {
                return gateway;
            }
        }
        panic!("versitygw ended {STARTS_MAX} times before it listened");
    }

    /// Starts a server with an empty bucket and a certificate, at an address that no other process uses.
    pub(crate) fn start_at(address: SocketAddr, certificate: Certificate) -> Self {
        Self::try_start(address, Some(certificate)).expect("versitygw listens")
    }

    fn try_start(address: SocketAddr, certificate: Option<Certificate>) -> Option<Self> {
        let folder = TempDir::new().unwrap();
        for name in ["root", "root/logs", "sidecar"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let output = File::create(folder.path().join("output")).unwrap();
        let options = ["--access", ACCESS_KEY, "--secret", SECRET_KEY, "--keep-alive", "--quiet", "--port"];
        let mut arguments: Vec<OsString> = options.iter().map(OsString::from).collect();
        arguments.push(address.to_string().into());
        if let Some(Certificate { certificate, key }) = certificate {
            arguments.extend(["--cert".into(), certificate.into(), "--key".into(), key.into()]);
        }
        arguments.push("posix".into());
        if !has_attributes(folder.path()) {
            arguments.extend(["--sidecar".into(), folder.path().join("sidecar").into()]);
        }
        arguments.push(folder.path().join("root").into());
        let child = spawn(&arguments, folder.path(), output);
        let mut gateway = Self { child, arguments, folder, address };
        gateway.is_listening().then_some(gateway)
    }

    /// Waits until the server listens. Returns `false` if the server ended before.
    fn is_listening(&mut self) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                eprintln!("versitygw: {status}: {}", self.output());
                return false;
            }
            if TcpStream::connect(self.address).is_ok() {
                return true;
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("versitygw does not listen: {}", self.output());
    }

    /// Ends the server by SIGKILL, and starts it again over the same folder and address.
    pub(crate) fn kill_and_restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let output = File::options().append(true).open(self.folder.path().join("output")).unwrap();
        // The kernel may still hold the port for a moment.
        for _ in 0..STARTS_MAX {
            self.child = spawn(&self.arguments, self.folder.path(), output.try_clone().unwrap());
            if self.is_listening() {
                return;
            }
        }
        panic!("versitygw does not start again: {}", self.output());
    }

    /// Returns the id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    fn output(&self) -> String {
        fs::read_to_string(self.folder.path().join("output")).unwrap_or_default()
    }

    /// Returns the path of an object on the disk of the server.
    pub(crate) fn path_of(&self, key: &str) -> PathBuf {
        self.folder.path().join("root").join(BUCKET).join(key)
    }

    /// Returns the options of a store in the bucket of this server.
    pub(crate) fn options(&self) -> ObjectStoreOptions {
        options(&format!("s3://{BUCKET}"), self.address)
    }

    /// Opens a store in the bucket of this server.
    pub(crate) fn store(&self) -> ObjectStore {
        open(self.options())
    }
}

fn spawn(arguments: &[OsString], folder: &Path, output: File) -> Child {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join(PROGRAM);
    assert!(program.is_file(), "{} is missing: run `make versitygw`, which builds it", program.display());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command.stdout(output.try_clone().unwrap()).stderr(output).spawn().unwrap()
}

impl Drop for Gateway {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns the options of a store at an address, with plain HTTP.
pub(crate) fn options(place: &str, address: SocketAddr) -> ObjectStoreOptions {
    ObjectStoreOptions {
        endpoint: Some(format!("http://{address}")),
        region: Some("us-east-1".to_owned()),
        access_key: Some(ACCESS_KEY.to_owned()),
        secret_key: Some(Secret::new(SECRET_KEY)),
        ..ObjectStoreOptions::new(StorePlace::parse(place).unwrap())
    }
}

/// Opens a store without a limit on bytes per second.
pub(crate) fn open(options: ObjectStoreOptions) -> ObjectStore {
    ObjectStore::open(options, Arc::new(Pacer::new(None))).unwrap()
}

/// Returns an address that was free a moment ago.
///
/// The address is a random loopback address, so that no other test takes the port before the server opens it.
fn free_address() -> (Ipv4Addr, u16) {
    let [_, a, b, c] = getrandom::u32().unwrap().to_be_bytes();
    let host = Ipv4Addr::new(127, a, b, c.clamp(2, 250));
    (host, TcpListener::bind((host, 0)).unwrap().local_addr().unwrap().port())
}

/// Returns whether files of a folder can have user attributes (xattr). The server stores metadata of objects
/// in them.
fn has_attributes(folder: &Path) -> bool {
    rustix::fs::setxattr(folder, "user.tollgate", b"x", rustix::fs::XattrFlags::empty()).is_ok()
}
