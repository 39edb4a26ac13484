//! A running Azurite.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use tollgate_ship::{ObjectStoreOptions, Secret, StorePlace};

use crate::segments::eventually;

/// The default account of Azurite, and its key. Both are in the manual of Azurite.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
/// Path of the program that `make stores` installs.
const SCRIPT: &str = "../../target/tools/azurite-3.37.0/node_modules/azurite/dist/src/blob/main.js";
/// Creates a container by a request that is signed with the key of the account.
const MAKE_CONTAINER: &str = r"
    const [address, account, key] = process.argv.slice(1);
    const fields = { 'x-ms-date': new Date().toUTCString(), 'x-ms-version': '2021-08-06' };
    const lines = Object.entries(fields).map(([name, value]) => `${name}:${value}\n`).join('');
    const text = `PUT${'\n'.repeat(12)}${lines}/${account}/${account}/logs\nrestype:container`;
    const hmac = require('crypto').createHmac('sha256', Buffer.from(key, 'base64'));
    fields.Authorization = `SharedKey ${account}:${hmac.update(text).digest('base64')}`;
    fetch(`${address}/logs?restype=container`, { method: 'PUT', headers: fields }).then(async (reply) => {
        console.error(reply.status, await reply.text());
        process.exit(reply.ok ? 0 : 1);
    });
";

/// A running Azurite with an empty container. The drop of this value ends the process.
pub(crate) struct Azurite {
    child: Child,
    folder: TempDir,
    address: SocketAddr,
}

impl Azurite {
    pub(crate) fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(SCRIPT);
        assert!(script.is_file(), "{} is missing: run `make stores`, which installs it", script.display());
        let folder = TempDir::new().unwrap();
        let address = free_address();
        let output = File::create(folder.path().join("output")).unwrap();
        let mut command = Command::new("node");
        command.arg(script).args(["--silent", "--skipApiVersionCheck", "--disableTelemetry"]);
        command.args(["--inMemoryPersistence", "--blobHost", &address.ip().to_string()]);
        command.args(["--blobPort", &address.port().to_string()]).current_dir(folder.path());
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let mut azurite = Self { child: command.spawn().unwrap(), folder, address };
        azurite.wait_until_it_listens();
        azurite.make_container();
        azurite
    }

    fn wait_until_it_listens(&mut self) {
        eventually("Azurite listens", || {
            if let Some(status) = self.child.try_wait().unwrap() {
                let output = fs::read_to_string(self.folder.path().join("output")).unwrap_or_default();
                panic!("Azurite ended: {status}: {output}");
            }
            TcpStream::connect(self.address).is_ok()
        });
    }

    fn make_container(&self) {
        let mut command = Command::new("node");
        let made =
            command.arg("-e").arg(MAKE_CONTAINER).args([&self.endpoint(), ACCOUNT, KEY]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    fn endpoint(&self) -> String {
        format!("http://{}/{ACCOUNT}", self.address)
    }

    /// Returns the options of a store in this server.
    pub(crate) fn options(&self, place: &str) -> ObjectStoreOptions {
        ObjectStoreOptions {
            endpoint: Some(self.endpoint()),
            access_key: Some(ACCOUNT.to_owned()),
            secret_key: Some(Secret::new(KEY)),
            ..ObjectStoreOptions::new(StorePlace::parse(place).unwrap())
        }
    }
}

impl Drop for Azurite {
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
