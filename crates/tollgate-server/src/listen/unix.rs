//! Unix sockets. The file of a dead server is replaced, and the file of a running server is kept.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

use super::listener::OutlivesUs;

/// Time before a socket file counts as left by a dead server. A starting server listens a few microseconds
/// after it created its file, or later on a busy machine.
const START_WAIT: Duration = Duration::from_millis(100);

/// The file of a socket, which is deleted when this value is dropped.
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: Identity,
    /// Whether another process has the socket too. The file then stays.
    outlives_us: OutlivesUs,
}

impl SocketFile {
    /// Takes the file of a socket that a predecessor bound. `None`: the file is gone.
    pub(super) fn adopt(path: &Path, mode: u32, outlives_us: OutlivesUs) -> io::Result<Option<Self>> {
        let found = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        if found.mode() & 0o777 != mode {
            fs::set_permissions(path, Permissions::from_mode(mode))?;
        }
        Ok(Some(Self { path: path.to_owned(), identity: identity(path)?, outlives_us }))
    }
}

/// The identity of a file. Inode numbers are reused at once, so the identity includes the time of the last
/// change.
type Identity = (u64, u64, i64, i64);

/// Binds a socket to a file with permissions `mode`, and listens.
///
/// # Errors
/// `AddrInUse` if another server listens at this path. `AlreadyExists` if the file is not a socket.
pub(super) fn bind(
    path: &Path,
    mode: u32,
    backlog: i32,
    outlives_us: OutlivesUs,
) -> io::Result<(Socket, SocketFile)> {
    let address = SockAddr::unix(path)?;
    remove_dead(path, &address, || thread::sleep(START_WAIT))?;
    let socket = stream()?;
    socket.bind(&address)?;
    // No client can connect before the socket listens, so the permissions apply to all clients.
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    let file = SocketFile { path: path.to_owned(), identity: identity(path)?, outlives_us };
    socket.listen(backlog)?;
    Ok((socket, file))
}

/// Removes the socket file of a dead server. Two connection attempts with a wait between them have to fail,
/// because the file of a starting server exists before the server listens.
fn remove_dead(path: &Path, address: &SockAddr, wait: impl FnOnce()) -> io::Result<()> {
    let kind = match fs::symlink_metadata(path) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !kind.is_socket() {
        return Err(io::Error::new(
            ErrorKind::AlreadyExists,
            "the path has a file that is not a socket: delete the file or change the path",
        ));
    }
    let dead = identity(path);
    expect_nobody(address)?;
    wait();
    expect_nobody(address)?;
    match identity(path) {
        Ok(found) if dead.is_ok_and(|dead| found == dead) => fs::remove_file(path),
        Ok(_) => Err(ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn expect_nobody(address: &SockAddr) -> io::Result<()> {
    match stream()?.connect(address) {
        Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound) => Ok(()),
        // A full queue also means that a server is running.
        Ok(()) => Err(ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(ErrorKind::AddrInUse.into()),
        Err(error) => Err(error),
    }
}

fn stream() -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn identity(path: &Path) -> io::Result<Identity> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // The file is deleted only if it is still the same, because another server may have replaced it.
        if !self.outlives_us.is_set()
            && identity(&self.path).is_ok_and(|found| found == self.identity)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot delete the socket file");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_living_server_is_refused_and_a_dead_one_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let (socket, file) = bind(&path, 0o600, 8, OutlivesUs::default()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(bind(&path, 0o600, 8, OutlivesUs::default()).err().unwrap().kind(), ErrorKind::AddrInUse);
        drop(socket);
        assert!(UnixStream::connect(&path).is_err());
        let (_socket, successor) = bind(&path, 0o660, 8, OutlivesUs::default()).unwrap();
        drop(file);
        UnixStream::connect(&path).unwrap();
        drop(successor);
        assert!(!path.exists());
    }

    #[test]
    fn a_server_that_is_starting_keeps_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let address = SockAddr::unix(&path).unwrap();
        let starting = stream().unwrap();
        starting.bind(&address).unwrap();
        let refused = remove_dead(&path, &address, || starting.listen(8).unwrap());
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::AddrInUse);
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn the_file_of_a_dead_server_is_replaced_by_one_server() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let address = SockAddr::unix(&path).unwrap();
        drop(stream().unwrap().bind(&address));
        let replaced = stream().unwrap();
        let refused = remove_dead(&path, &address, || {
            // The clock of the file system has to advance before the file is replaced.
            thread::sleep(Duration::from_millis(20));
            fs::remove_file(&path).unwrap();
            replaced.bind(&address).unwrap();
        });
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::AddrInUse);
        assert!(path.exists());
    }

    #[test]
    fn a_living_server_whose_queue_is_full_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let _living = bind(&path, 0o600, 0, OutlivesUs::default()).unwrap();
        let _first = UnixStream::connect(&path).unwrap();
        assert_eq!(bind(&path, 0o600, 8, OutlivesUs::default()).err().unwrap().kind(), ErrorKind::AddrInUse);
    }

    #[test]
    fn a_file_that_is_no_socket_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        fs::write(&path, "precious").unwrap();
        assert_eq!(
            bind(&path, 0o600, 8, OutlivesUs::default()).err().unwrap().kind(),
            ErrorKind::AlreadyExists
        );
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }
}
