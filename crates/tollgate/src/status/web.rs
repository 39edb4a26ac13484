//! `tollgate status --web`: shows the admin page in a browser on this machine.
//!
//! The default admin listener is a Unix socket, which no browser opens. This command listens on loopback and
//! passes questions to that socket. Every user and every page on this machine can reach loopback. So a
//! request needs a token that the command makes at its start, and `Host` and `Origin` are checked like those
//! of the admin listener. The token is in the fragment of the URL, which a browser never sends.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tollgate_http::{Method, RequestHead, StatusCode};

use super::{ask, unanswered};
use crate::admin::{Access, AdminListener, AdminReply, AdminServer, Answering};
use crate::config::{ADMIN_SOCKET, AdminListen, Config};
use crate::control::through_folder;
use crate::load_from::spool_beside;
use crate::log::log_folder;
use crate::print::{note, to_stdout};

/// The paths that the page asks for.
const PATHS: [&str; 2] = ["/status", "/history"];
/// Maximum time that the server may need for each part of its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
const ANSWER_BYTES_MAX: u64 = 32 << 20;
/// Random bytes of the token.
const TOKEN_BYTES: usize = 24;

/// Shows the page of the server of a configuration until Ctrl-C. Port 0 is a free port.
///
/// # Errors
/// No server answers, its admin listener is off or on TCP, or the port is in use.
pub(crate) fn serve(path: &Path, port: u16) -> anyhow::Result<ExitCode> {
    let relay = Relay::find(path)?;
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let listener = AdminListener::on(address)
        .with_context(|| format!("cannot listen on {address}: choose another --port"))?;
    let token = random_token().context("the system gives no random bytes")?;
    let url = format!("{}/#token={token}", listener.bound());
    let _server = AdminServer::serve(listener, WebAnswers { access: Access::by_token(token), relay })?;
    to_stdout(|out| {
        writeln!(out, "{url}")?;
        Ok(ExitCode::SUCCESS)
    })?;
    note("open this address in a browser on this machine. Ctrl-C ends the page and its token");
    loop {
        thread::park();
    }
}

fn random_token() -> Result<String, getrandom::Error> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

struct WebAnswers {
    access: Access,
    relay: Relay,
}

impl Answering for WebAnswers {
    fn answer(&self, head: &RequestHead) -> Vec<u8> {
        let is_head = head.method() == Method::Head;
        if let Err(denial) = self.access.check_origin(head) {
            return AdminReply::from(denial).write(is_head);
        }
        if !matches!(head.method(), Method::Get | Method::Head) {
            return AdminReply::method_not_allowed().write(is_head);
        }
        // A browser cannot send the token with its first request. The page holds nothing of the server.
        if head.path() == "/" {
            return AdminReply::page().write(is_head);
        }
        if let Err(denial) = self.access.check_token(head) {
            return AdminReply::from(denial).write(is_head);
        }
        if !PATHS.contains(&head.path()) {
            let text = "not found: the paths are /, /status and /history\n";
            return AdminReply::text(StatusCode::NOT_FOUND, text).write(is_head);
        }
        let method = if is_head { "HEAD" } else { "GET" };
        self.relay.pass(method, head.path(), head.query_bytes()).unwrap_or_else(|error| {
            let text = format!("the server does not answer: {error}\n");
            AdminReply::text(StatusCode::BAD_GATEWAY, text).write(is_head)
        })
    }
}

/// Passes requests to the admin listener of the server.
struct Relay {
    socket: PathBuf,
    /// The token of `[admin]`, if the configuration has one.
    token: Option<String>,
}

impl Relay {
    /// Finds the admin socket: in the log folder, in the folder of fetched segments, or where the
    /// configuration names it. The configuration may have faults if the default socket answers.
    fn find(path: &Path) -> anyhow::Result<Self> {
        let dir = log_folder(path)?;
        if let Err(silence) = ask(&dir) {
            return Err(unanswered(path, &dir, &silence));
        }
        let admin = Config::load(path).map(|config| config.admin);
        let usual = [dir.clone(), spool_beside(&dir)].map(|dir| dir.join(ADMIN_SOCKET));
        let socket = match usual.into_iter().find(|socket| connect(socket).is_ok()) {
            Some(socket) => socket,
            None => match admin.as_ref().map(|admin| &admin.listen) {
                Ok(AdminListen::Unix(socket) | AdminListen::LogFolder(socket)) => socket.clone(),
                Ok(AdminListen::Tcp(address)) => {
                    bail!("the page is at http://{address}/ already: open this address in a browser")
                }
                Ok(AdminListen::Nowhere) => {
                    bail!("listen in [admin] is off: remove this line, then restart the server")
                }
                Err(fault) => return Err(anyhow!("{fault}").context("cannot find the admin listener")),
            },
        };
        let token = admin.ok().and_then(|admin| admin.token).map(|token| token.secret);
        let relay = Self { socket, token };
        relay.check()?;
        Ok(relay)
    }

    /// Asks once, so that a refusal is reported before a browser shows it.
    fn check(&self) -> anyhow::Result<()> {
        let socket = self.socket.display();
        let answer = self.pass("HEAD", "/status", None).with_context(|| format!("cannot ask {socket}"))?;
        let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
        match String::from_utf8_lossy(line).split(' ').nth(1) {
            Some("200") => Ok(()),
            Some("401") => bail!("the server at {socket} needs the token of [admin]: set its variable"),
            _ => bail!("the server at {socket} answers {:?}", String::from_utf8_lossy(line)),
        }
    }

    fn pass(&self, method: &str, path: &str, query: Option<&[u8]>) -> io::Result<Vec<u8>> {
        let mut request = format!("{method} {path}").into_bytes();
        if let Some(query) = query {
            request.push(b'?');
            request.extend_from_slice(query);
        }
        request.extend_from_slice(b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        if let Some(token) = &self.token {
            request.extend_from_slice(format!("Authorization: Bearer {token}\r\n").as_bytes());
        }
        request.extend_from_slice(b"\r\n");
        let mut stream = connect(&self.socket)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        stream.write_all(&request)?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
        Ok(answer)
    }
}

fn connect(socket: &Path) -> io::Result<UnixStream> {
    through_folder(socket, |path| UnixStream::connect(path))
}
