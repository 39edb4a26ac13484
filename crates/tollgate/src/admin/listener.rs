//! The socket of the admin listener.

use std::fmt;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use rustix::io::Errno;
use socket2::{Domain, SockAddr, Socket, Type};
use tollgate_log::FOLDER_MODE;

use crate::config::AdminListen;

/// Permissions of the socket: only the user of the server may connect.
const SOCKET_MODE: u32 = 0o600;
const BACKLOG: i32 = 64;

/// The address that the listener is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bound {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "http://{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

pub(crate) struct AdminListener {
    socket: Socket,
    bound: Bound,
    /// Whether another process has the socket too. The file of a Unix socket then stays.
    outlives_us: Arc<AtomicBool>,
}

impl AdminListener {
    /// Binds a TCP socket. Port 0 is a free port.
    pub(crate) fn on(address: SocketAddr) -> io::Result<Self> {
        bind_tcp(address).map(|bound| Self::new(bound, false))
    }

    /// Returns the address of the listener.
    pub(crate) fn bound(&self) -> &Bound {
        &self.bound
    }

    /// Binds the socket. `None`: the listener is off, or the default socket in the log folder cannot be made.
    pub(super) fn bind(listen: &AdminListen) -> anyhow::Result<Option<Self>> {
        let bound = match listen {
            AdminListen::Nowhere => return Ok(None),
            AdminListen::Tcp(address) => {
                bind_tcp(*address).with_context(|| format!("cannot listen for [admin] on {address}"))
            }
            AdminListen::Unix(path) => {
                bind_unix(path).with_context(|| format!("cannot listen for [admin] on {}", path.display()))
            }
            AdminListen::LogFolder(path) => match bind_unix(path) {
                Ok(bound) => Ok(bound),
                Err(error) => {
                    let path = path.display();
                    tracing::warn!(
                        %error,
                        %path,
                        "the default admin socket cannot be opened: set listen in [admin]"
                    );
                    return Ok(None);
                }
            },
        };
        Ok(Some(Self::new(bound?, false)))
    }

    /// Takes the socket of a predecessor. Until the server owns it, the socket belongs to the predecessor.
    pub(super) fn adopt(listen: &AdminListen, socket: OwnedFd) -> io::Result<Self> {
        let socket = Socket::from(socket);
        let bound = match (listen, socket.local_addr()?.as_socket()) {
            (AdminListen::Unix(path) | AdminListen::LogFolder(path), _) => Bound::Unix(path.clone()),
            (_, Some(address)) => Bound::Tcp(address),
            (_, None) => return Err(ErrorKind::InvalidInput.into()),
        };
        Ok(Self::new((socket, bound), true))
    }

    fn new((socket, bound): (Socket, Bound), outlives_us: bool) -> Self {
        Self { socket, bound, outlives_us: Arc::new(AtomicBool::new(outlives_us)) }
    }

    /// Returns a copy of the socket.
    pub(super) fn copy(&self) -> io::Result<Socket> {
        self.socket.try_clone()
    }

    /// Returns the mark that another process has the socket too.
    pub(super) fn outlives_us(&self) -> Arc<AtomicBool> {
        self.outlives_us.clone()
    }

    /// Accepts the next client. `None`: the client has already closed the connection.
    pub(super) fn accept(&self) -> io::Result<Option<Socket>> {
        match self.socket.accept() {
            Ok((socket, _)) => {
                socket.set_nonblocking(true)?;
                Ok(Some(socket))
            }
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => Ok(None),
                _ => Err(error),
            },
        }
    }
}

impl AsFd for AdminListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for AdminListener {
    fn drop(&mut self) {
        if let Bound::Unix(path) = &self.bound
            && !self.outlives_us.load(Ordering::Acquire)
        {
            // If this fails, the next start replaces the socket.
            drop(fs::remove_file(path));
        }
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<(Socket, Bound)> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // With this option, a restart need not wait until connections of the last run leave TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    let bound = socket.local_addr()?.as_socket().unwrap_or(address);
    Ok((socket, Bound::Tcp(bound)))
}

/// Binds a Unix socket, and replaces a socket file that no process listens on. The file may be removed,
/// because it is in the server's own log folder or the operator chose the path.
fn bind_unix(path: &Path) -> io::Result<(Socket, Bound)> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
    // The path of a socket has at most 107 bytes (unix(7)), and the path of the folder may be longer. The
    // path through `/proc/self/fd` is short.
    let folder = File::open(folder)?;
    let through = Path::new("/proc/self/fd")
        .join(folder.as_raw_fd().to_string())
        .join(path.file_name().unwrap_or_default());
    let address = SockAddr::unix(&through)?;
    remove_dead(&through, &address)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&address)?;
    // The mode is set before the socket listens, so no client can connect earlier.
    fs::set_permissions(&through, Permissions::from_mode(SOCKET_MODE))?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok((socket, Bound::Unix(path.to_owned())))
}

fn remove_dead(path: &Path, address: &SockAddr) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {}
        Ok(_) => return Err(io::Error::new(ErrorKind::AlreadyExists, "the file exists and is not a socket")),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    match socket.connect(address) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        // A server with a full accept queue is alive too.
        Ok(()) => Err(ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(ErrorKind::AddrInUse.into()),
        Err(error) => Err(error),
    }
}
