//! Sockets from systemd: descriptors from 3 on, described by LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES.
//!
//! Source: sd_listen_fds(3).

use std::io;
use std::os::fd::RawFd;

use rustix::net::{AddressFamily, SocketType, sockopt};
use socket2::Socket;

use super::tune::tune_tcp;
use crate::error::StartError;
use crate::sys;

const FIRST: RawFd = 3;
/// The name of a socket that systemd did not name.
const UNNAMED: &str = "unknown";

/// Sockets from systemd that no address has taken yet.
pub(super) struct Inherited {
    sockets: Vec<(RawFd, String)>,
}

impl Inherited {
    /// Finds the sockets that systemd passed to this process. Sockets that were passed to its parent are
    /// ignored.
    ///
    /// # Errors
    /// The variables are invalid.
    pub(super) fn from_environment() -> Result<Self, StartError> {
        let variable = |name| std::env::var(name).ok();
        let (count, names) = (variable("LISTEN_FDS"), variable("LISTEN_FDNAMES"));
        if variable("LISTEN_PID").is_none_or(|pid| pid != std::process::id().to_string()) {
            return Ok(Self { sockets: Vec::new() });
        }
        Self::parse(&count.unwrap_or_default(), names.as_deref())
    }

    fn parse(count: &str, names: Option<&str>) -> Result<Self, StartError> {
        let count = count.parse::<u16>().map_err(|_| {
            StartError::Inherited(format!("LISTEN_FDS is {count:?}, allowed is a number from 0 to 65535"))
        })?;
        let mut names = names.into_iter().flat_map(|names| names.split(':'));
        let sockets = (0..count).map(|index| {
            let name = names.next().filter(|name| !name.is_empty()).unwrap_or(UNNAMED);
            (FIRST + RawFd::from(index), name.to_owned())
        });
        Ok(Self { sockets: sockets.collect() })
    }

    /// Removes and returns the sockets with `name`, or all remaining sockets.
    ///
    /// # Errors
    /// There is no such socket, or a socket is not a listening stream socket.
    pub(super) fn take(&mut self, name: Option<&str>) -> Result<Vec<Socket>, StartError> {
        let is_wanted = |found: &str| name.is_none_or(|name| name == found);
        let (taken, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.sockets).into_iter().partition(|(_, found)| is_wanted(found));
        self.sockets = left;
        if taken.is_empty() {
            let named = name.map(|name| format!(" named {name:?}")).unwrap_or_default();
            return Err(StartError::Inherited(format!("systemd passed no socket{named}")));
        }
        taken
            .into_iter()
            .map(|(number, name)| {
                listening(number).map_err(|error| {
                    StartError::Inherited(format!("descriptor {number}, {name:?}, cannot be used: {error}"))
                })
            })
            .collect()
    }

    /// Logs the sockets that no configured address uses, because their clients would wait forever.
    pub(super) fn warn_of_the_rest(self) {
        for (number, name) in self.sockets {
            tracing::warn!(number, name, "systemd passed a socket that no address of `listen` names");
        }
    }
}

fn listening(number: RawFd) -> io::Result<Socket> {
    let socket = sys::duplicate(number)?;
    let is_stream = sockopt::socket_type(&socket)? == SocketType::STREAM;
    let family = sockopt::socket_domain(&socket)?;
    let is_known = [AddressFamily::INET, AddressFamily::INET6, AddressFamily::UNIX].contains(&family);
    if !is_stream || !is_known || !sockopt::socket_acceptconn(&socket)? {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a listening stream socket"));
    }
    let socket = Socket::from(socket);
    socket.set_nonblocking(true)?;
    if family != AddressFamily::UNIX {
        tune_tcp(&socket)?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use super::super::tests::expect_tuned;
    use super::*;

    fn found(count: &str, names: Option<&str>) -> Vec<(RawFd, String)> {
        Inherited::parse(count, names).unwrap().sockets
    }

    #[test]
    fn descriptors_count_from_three_and_have_names() {
        let named = |number, name: &str| (number, name.to_owned());
        assert_eq!(found("0", None), []);
        assert_eq!(found("2", None), [named(3, "unknown"), named(4, "unknown")]);
        assert_eq!(found("3", Some("web:")), [named(3, "web"), named(4, "unknown"), named(5, "unknown")]);
        for count in ["", "-1", "x", "65536"] {
            assert!(Inherited::parse(count, None).is_err(), "{count}");
        }
    }

    #[test]
    fn connections_of_a_socket_that_was_handed_in_are_as_those_of_our_own() {
        let handed_in = TcpListener::bind("127.0.0.1:0").unwrap();
        let listener = listening(handed_in.as_raw_fd()).unwrap();
        let _peer = TcpStream::connect(handed_in.local_addr().unwrap()).unwrap();
        expect_tuned(rustix::net::accept(&listener).unwrap());
    }

    #[test]
    fn a_missing_inherited_socket_is_reported() {
        let mut inherited = Inherited { sockets: vec![(3, "web".to_owned())] };
        let error = inherited.take(Some("admin")).unwrap_err().to_string();
        assert_eq!(error, "systemd passed no socket named \"admin\"");
        assert_eq!(inherited.sockets.len(), 1);
    }
}
