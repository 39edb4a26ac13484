//! Descriptors that are kept for the moment when the process has no other left.
//!
//! One is given up to accept a connection and to close it. Meanwhile somebody else may take its place in the
//! table; then it is lacking until a connection that comes next is closed for it. There is one more of them
//! than workers that could do so at the same moment.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use socket2::{Domain, Socket, Type};

pub(crate) struct SpareDescriptors {
    kept: Mutex<Vec<OwnedFd>>,
    lacking: AtomicUsize,
}

impl SpareDescriptors {
    /// # Errors
    /// The system has no descriptors for them.
    pub(crate) fn new(workers: usize) -> io::Result<Self> {
        let kept = (0..=workers).map(|_| descriptor()).collect::<io::Result<_>>()?;
        Ok(Self { kept: Mutex::new(kept), lacking: AtomicUsize::new(0) })
    }

    /// Runs `accept` with one descriptor given up for it, and closes what it accepted.
    pub(crate) fn close_one(&self, accept: impl FnOnce() -> io::Result<OwnedFd>) -> io::Result<()> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let given_up = kept.pop();
        let had_one = given_up.is_some();
        drop(given_up);
        let closed = accept().map(drop);
        match descriptor() {
            Ok(descriptor) => {
                kept.push(descriptor);
                self.lacking.fetch_sub(usize::from(!had_one), Ordering::Relaxed);
            }
            Err(_) => {
                self.lacking.fetch_add(usize::from(had_one), Ordering::Relaxed);
            }
        }
        closed
    }

    /// Gives back a connection that was accepted, unless a descriptor is lacking: then that is made of it.
    pub(crate) fn unless_lacking(&self, accepted: OwnedFd) -> Option<OwnedFd> {
        if self.lacking.load(Ordering::Relaxed) == 0 {
            return Some(accepted);
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        drop(accepted);
        if self.lacking.load(Ordering::Relaxed) > 0
            && let Ok(descriptor) = descriptor()
        {
            kept.push(descriptor);
            self.lacking.fetch_sub(1, Ordering::Relaxed);
        }
        None
    }
}

/// The cheapest descriptor that there is: a socket that is connected to nothing.
fn descriptor() -> io::Result<OwnedFd> {
    Socket::new(Domain::UNIX, Type::STREAM, None).map(OwnedFd::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_spare_descriptor_is_made_again_of_the_next_connection() {
        let spare_descriptors = SpareDescriptors::new(1).unwrap();
        let kept = || spare_descriptors.kept.lock().unwrap().len();
        assert!(spare_descriptors.unless_lacking(descriptor().unwrap()).is_some());
        spare_descriptors.close_one(descriptor).unwrap();
        assert_eq!(kept(), 2);
        spare_descriptors.kept.lock().unwrap().pop();
        spare_descriptors.lacking.store(1, Ordering::Relaxed);
        assert!(spare_descriptors.unless_lacking(descriptor().unwrap()).is_none());
        assert_eq!((kept(), spare_descriptors.lacking.load(Ordering::Relaxed)), (2, 0));
    }
}
