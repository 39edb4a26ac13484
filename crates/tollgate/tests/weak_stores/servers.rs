//! Two servers with the protocol of S3 that do not create each object once.
//!
//! | server | second object of a name | several writers at once |
//! | --- | --- | --- |
//! | gofakes3, of a version before its conditional writes | replaces the first | the last one replaces the others |
//! | s3s-fs, which looks for the name before it writes | refused | several are stored |

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use tempfile::TempDir;
use tollgate_ship::{ConditionalCreate, ObjectStore, ObjectStoreOptions, Pacer, Secret, StorePlace};

use crate::segments::eventually;

pub(crate) const ACCESS_KEY: &str = "tollgate-test";
pub(crate) const SECRET_KEY: &str = "sesame-sesame";
const BUCKET: &str = "logs";
/// Folder of the programs that `make stores` installs.
const TOOLS: &str = "../../target/tools";
/// Tries to start a server. Another process may take the port before the server opens it.
const STARTS_MAX: u32 = 5;

/// A kind of server.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Weak {
    Gofakes3,
    S3sFs,
}

impl Weak {
    pub(crate) const ALL: [Self; 2] = [Self::Gofakes3, Self::S3sFs];

    /// How the server treats a second object of one name.
    pub(crate) fn conditional_create(self) -> ConditionalCreate {
        match self {
            Self::Gofakes3 => ConditionalCreate::Ignored,
            Self::S3sFs => ConditionalCreate::SequentialOnly,
        }
    }

    fn command(self, folder: &Path, address: SocketAddr) -> Command {
        let program = match self {
            Self::Gofakes3 => "gofakes3-c55a48f17be6/bin/gofakes3",
            Self::S3sFs => "s3s-fs-0.14.1/bin/s3s-fs",
        };
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join(TOOLS).join(program);
        assert!(program.is_file(), "{} is missing: run `make stores`, which builds it", program.display());
        let mut command = Command::new(program);
        match self {
            Self::Gofakes3 => command
                .args(["-backend", "memory", "-initialbucket", BUCKET, "-host"])
                .arg(address.to_string()),
            Self::S3sFs => command
                .args(["--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY, "--host"])
                .args([address.ip().to_string(), "--port".to_owned(), address.port().to_string()])
                .arg(folder.join("root")),
        };
        command
    }
}

/// A running server with an empty bucket. The drop of this value ends the process.
pub(crate) struct WeakServer {
    child: Child,
    folder: TempDir,
    address: SocketAddr,
}

impl WeakServer {
    pub(crate) fn start(kind: Weak) -> Self {
        let server = (0..STARTS_MAX).find_map(|_| Self::try_start(kind));
        server.unwrap_or_else(|| panic!("{kind:?} ended {STARTS_MAX} times before it listened"))
    }

    fn try_start(kind: Weak) -> Option<Self> {
        let folder = TempDir::new().unwrap();
        fs::create_dir_all(folder.path().join("root").join(BUCKET)).unwrap();
        let output = File::create(folder.path().join("output")).unwrap();
        let address = free_address();
        let mut command = kind.command(folder.path(), address);
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let mut server = Self { child: command.spawn().unwrap(), folder, address };
        let mut has_ended = false;
        eventually("the server listens or ends", || {
            has_ended = server.child.try_wait().unwrap().is_some();
            has_ended || TcpStream::connect(address).is_ok()
        });
        if has_ended {
            eprintln!("{kind:?}: {}", fs::read_to_string(server.folder.path().join("output")).unwrap());
            return None;
        }
        Some(server)
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Opens a store at a place in the bucket.
    pub(crate) fn store(&self, place: &str) -> ObjectStore {
        let options = ObjectStoreOptions {
            endpoint: Some(self.endpoint()),
            region: Some("us-east-1".to_owned()),
            access_key: Some(ACCESS_KEY.to_owned()),
            secret_key: Some(Secret::new(SECRET_KEY)),
            ..ObjectStoreOptions::new(StorePlace::parse(place).unwrap())
        };
        ObjectStore::open(options, Arc::new(Pacer::new(None))).unwrap()
    }
}

impl Drop for WeakServer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns a random loopback address that was free a moment ago.
fn free_address() -> SocketAddr {
    let [_, a, b, c] = getrandom::u32().unwrap().to_be_bytes();
    TcpListener::bind((Ipv4Addr::new(127, a, b, c.clamp(2, 250)), 0)).unwrap().local_addr().unwrap()
}
