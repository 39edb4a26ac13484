//! The socket between the two processes of an upgrade. One packet has one message, and descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use super::message::Message;

/// Maximum descriptors of one packet. The kernel allows 253 (unix(7)).
pub(super) const DESCRIPTORS_MAX: usize = 250;
/// Maximum bytes of one message.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Time after which a process that reads nothing counts as hung.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// One end of the socket. The kernel closes it when its process ends, so the other end learns of any death.
pub(super) struct Channel(OwnedFd);

/// Why no message arrived.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReceiveError {
    #[error("the process closed the connection")]
    Ended,
    #[error("the process sent nothing for {} s", .0.as_secs())]
    Late(Duration),
    #[error("the process sent a message of another program: {0}")]
    Foreign(String),
    #[error("the connection to the process failed: {0}")]
    Failed(#[from] io::Error),
}

impl Channel {
    /// Makes a socket. Returns the own end, and the end for the other process.
    pub(super) fn pair() -> io::Result<(Self, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Self::of(ours)?, theirs))
    }

    /// Takes an end of the socket.
    pub(super) fn of(socket: OwnedFd) -> io::Result<Self> {
        set_socket_timeout(&socket, Timeout::Send, Some(SEND_TIMEOUT))?;
        Ok(Self(socket))
    }

    /// Sends a message with descriptors, of which the receiver gets copies.
    pub(super) fn send(&self, message: &Message, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let text = message.text();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        sendmsg(&self.0, &[IoSlice::new(text.as_bytes())], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Waits for the next message.
    pub(super) fn receive(&self, within: Duration) -> Result<(Message, Vec<OwnedFd>), ReceiveError> {
        let end = Instant::now() + within;
        while !self.is_readable(end.saturating_duration_since(Instant::now()))? {
            if Instant::now() >= end {
                return Err(ReceiveError::Late(within));
            }
        }
        self.read()
    }

    /// Waits for the next message without a deadline.
    pub(super) fn read(&self) -> Result<(Message, Vec<OwnedFd>), ReceiveError> {
        let mut bytes = vec![0; MESSAGE_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = loop {
            match recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags) {
                Err(Errno::INTR) => {}
                // The process ended, and left messages unread. Its own messages come after this error.
                Err(Errno::CONNRESET) => {}
                received => break received.map_err(io::Error::from)?.bytes,
            }
        };
        if received == 0 {
            return Err(ReceiveError::Ended);
        }
        let mut descriptors = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        let text = String::from_utf8_lossy(&bytes[..received]);
        match Message::read(&text) {
            Some(message) => Ok((message, descriptors)),
            None => Err(ReceiveError::Foreign(text.chars().take(80).collect())),
        }
    }

    /// Returns whether the other process has ended.
    pub(super) fn has_ended(&self) -> bool {
        let mut asked = [PollFd::new(&self.0, PollFlags::empty())];
        poll(&mut asked, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
            && asked[0].revents().contains(PollFlags::HUP)
    }

    fn is_readable(&self, within: Duration) -> io::Result<bool> {
        let timeout = Timespec::try_from(within).ok();
        match poll(&mut [PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN)], timeout.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek, Write};

    use super::*;

    #[test]
    fn a_message_carries_descriptors_of_the_same_open_file() {
        let (ours, theirs) = Channel::pair().unwrap();
        let theirs = Channel::of(theirs).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        ours.send(&Message::Lock, &[file.as_fd()]).unwrap();
        let (message, descriptors) = theirs.receive(SEND_TIMEOUT).unwrap();
        assert_eq!((message, descriptors.len()), (Message::Lock, 1));
        let mut copy = File::from(descriptors.into_iter().next().unwrap());
        copy.write_all(b"same").unwrap();
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "same");
    }

    #[test]
    fn the_end_of_a_process_is_told_after_its_last_message() {
        let (ours, theirs) = Channel::pair().unwrap();
        let theirs = Channel::of(theirs).unwrap();
        assert!(!ours.has_ended());
        theirs.send(&Message::Serving, &[]).unwrap();
        drop(theirs);
        assert!(ours.has_ended());
        assert_eq!(ours.receive(SEND_TIMEOUT).unwrap().0, Message::Serving);
        assert!(matches!(ours.receive(SEND_TIMEOUT), Err(ReceiveError::Ended)));
    }

    #[test]
    fn the_last_message_of_a_process_that_left_messages_unread_arrives() {
        let (ours, theirs) = Channel::pair().unwrap();
        let theirs = Channel::of(theirs).unwrap();
        ours.send(&Message::Go, &[]).unwrap();
        theirs.send(&Message::Serving, &[]).unwrap();
        drop(theirs);
        assert_eq!(ours.receive(SEND_TIMEOUT).unwrap().0, Message::Serving);
        assert!(matches!(ours.receive(SEND_TIMEOUT), Err(ReceiveError::Ended)));
    }

    #[test]
    fn silence_and_foreign_texts_are_told_apart() {
        let (ours, theirs) = Channel::pair().unwrap();
        assert!(matches!(ours.receive(Duration::ZERO), Err(ReceiveError::Late(_))));
        rustix::io::write(&theirs, b"HTTP/1.1 200 OK").unwrap();
        let Err(ReceiveError::Foreign(text)) = ours.receive(SEND_TIMEOUT) else { panic!() };
        assert_eq!(text, "HTTP/1.1 200 OK");
    }
}
