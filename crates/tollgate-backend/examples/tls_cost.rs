//! Measures the cost of TLS for a request to a backend: processor time of the requesting thread, on a kept
//! connection and for a handshake.
//!
//!     cargo run --release -p tollgate-backend --example tls_cost
//!
//! The backend is a thread of this process. The processor time of that thread is not counted.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tokio::runtime::{Builder, Runtime};
use tollgate_backend::{
    Backend, BackendOptions, Client, Outgoing, OutgoingContent, TlsFiles, TlsOptions, Upstream,
};
use tollgate_http::Method;

const CONNECTS: u32 = 300;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    certificate(folder.path())?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    for (content, count) in [(13, 20_000), (64 << 10, 4_000), (1 << 20, 300)] {
        let mut costs = Vec::new();
        for is_tls in [false, true] {
            let upstream = upstream(folder.path(), content, is_tls)?;
            runtime.block_on(ask(&upstream, count / 10))?;
            let before = cpu();
            runtime.block_on(ask(&upstream, count))?;
            costs.push((cpu() - before).as_secs_f64() * 1e6 / f64::from(count));
        }
        println!("{content} bytes: {:.1} us plain, {:.1} us over TLS", costs[0], costs[1]);
    }
    let known = unpooled(folder.path())?;
    runtime.block_on(ask(&known, 10))?;
    let resumed = connect(&runtime, || Ok(known.clone()))?;
    // A new client has no TLS session to resume.
    let whole = connect(&runtime, || unpooled(folder.path()))?;
    println!("connection, handshake and request: {resumed:.0} us resumed, {whole:.0} us whole");
    Ok(())
}

/// Returns the time of a request on a new connection, in microseconds.
fn connect(runtime: &Runtime, one: impl Fn() -> Outcome<Rc<Upstream>>) -> Outcome<f64> {
    let mut spent = Duration::ZERO;
    for _ in 0..CONNECTS {
        let upstream = one()?;
        let before = cpu();
        runtime.block_on(ask(&upstream, 1))?;
        spent += cpu() - before;
    }
    Ok(spent.as_secs_f64() * 1e6 / f64::from(CONNECTS))
}

fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

async fn ask(upstream: &Rc<Upstream>, count: u32) -> Outcome<()> {
    for _ in 0..count {
        let request = Outgoing::new(Method::Get, "localhost", |out| out.push(b'/'));
        let request = request.finish(None::<OutgoingContent>);
        let mut incoming = upstream.clone().send(request, None).await?;
        incoming.content.gather(8 << 20, |_| true).await?;
    }
    Ok(())
}

fn certificate(folder: &Path) -> Outcome<()> {
    let arguments = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
                     -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE \
                     -keyout a.key -out a.pem";
    let mut command = Command::new("openssl");
    command.args(arguments.split_whitespace()).current_dir(folder).stderr(Stdio::null());
    if !command.status()?.success() {
        return Err("openssl makes no certificate".into());
    }
    Ok(())
}

fn options(folder: &Path, address: SocketAddr, is_tls: bool) -> Outcome<BackendOptions> {
    let scheme = if is_tls { "https" } else { "http" };
    let mut options = BackendOptions::new("app", vec![format!("{scheme}://{address}").parse()?]);
    if is_tls {
        let files = TlsFiles { ca: Some(folder.join("a.pem")), ..TlsFiles::default() };
        options.tls = Some(Arc::new(TlsOptions::load(files)?));
    }
    Ok(options)
}

fn upstream(folder: &Path, content: usize, is_tls: bool) -> Outcome<Rc<Upstream>> {
    let address = serve(folder, content, is_tls)?;
    of(options(folder, address, is_tls)?)
}

fn unpooled(folder: &Path) -> Outcome<Rc<Upstream>> {
    let mut options = options(folder, serve(folder, 13, true)?, true)?;
    options.pool.idle_max = 0;
    of(options)
}

fn of(options: BackendOptions) -> Outcome<Rc<Upstream>> {
    let client = Client::new(&[Backend::new(options)], &Client::default());
    client.at(0).cloned().ok_or_else(|| "no backend".into())
}

fn serve(folder: &Path, content: usize, is_tls: bool) -> Outcome<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let config = ServerConfig::builder_with_provider(tollgate_tls::provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(
            tollgate_tls::certificates(&folder.join("a.pem"))?,
            tollgate_tls::private_key(&folder.join("a.key"))?,
        )?;
    let config = Arc::new(config);
    let mut reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {content}\r\n\r\n").into_bytes();
    reply.resize(reply.len() + content, b'x');
    let reply: Arc<[u8]> = reply.into();
    thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let (config, reply) = (config.clone(), reply.clone());
            thread::spawn(move || {
                let _ = socket.set_nodelay(true);
                let Ok(session) = ServerConnection::new(config) else { return };
                let _ = match is_tls {
                    true => answer(StreamOwned::new(session, socket), &reply),
                    false => answer::<TcpStream>(socket, &reply),
                };
            });
        }
    });
    Ok(address)
}

/// Assumes that a request arrives in one piece.
fn answer<S: Read + Write>(mut stream: S, reply: &[u8]) -> std::io::Result<()> {
    let mut request = [0; 4096];
    while stream.read(&mut request)? > 0 {
        stream.write_all(reply)?;
        stream.flush()?;
    }
    Ok(())
}
