//! Names of backends, looked up by a thread of each backend that has some: no worker ever waits for a name.
//!
//! What is found replaces what was; what is not found leaves it. The thread ends with its backend.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use crate::backend::Backend;
use crate::target::Place;
use crate::{Address, BackendOptions};

/// Addresses of one name that are used.
const ADDRESSES_MAX: usize = 16;

/// Ends the thread when it is dropped.
#[derive(Debug)]
pub(crate) struct Resolver {
    _alive: SyncSender<()>,
}

/// What becomes the thread.
pub(crate) struct Looker {
    ended: Receiver<()>,
}

impl Resolver {
    pub(crate) fn new() -> Option<(Self, Looker)> {
        let (alive, ended) = sync_channel(0);
        Some((Self { _alive: alive }, Looker { ended }))
    }
}

impl Looker {
    /// Starts the thread, and waits for its first look, not for long.
    pub(crate) fn look_for(self, backend: &Arc<Backend>, timeout: Duration) {
        let (looked, first) = sync_channel(1);
        let name = backend.options.name.clone();
        let weak = Arc::downgrade(backend);
        let run = move || self.run(&weak, &looked);
        match thread::Builder::new().name("resolve".to_owned()).spawn(run) {
            Ok(_) => {
                // Whoever asks meanwhile is told that the name is not known yet.
                let _ = first.recv_timeout(timeout);
            }
            Err(error) => tracing::error!(backend = name, %error, "no thread to look up its names"),
        }
    }

    fn run(self, backend: &Weak<Backend>, looked: &SyncSender<()>) {
        let mut was_found = true;
        loop {
            let Some((options, refresh)) =
                backend.upgrade().map(|backend| (backend.options.clone(), backend.options.dns_refresh))
            else {
                return;
            };
            let found = places(&options);
            if let Some(backend) = backend.upgrade() {
                was_found = tell(&options.name, &found, was_found);
                if let Ok(places) = found {
                    backend.set_places(places);
                }
            }
            let _ = looked.try_send(());
            // A name that is missing is looked for more often.
            let pause = if was_found { refresh } else { refresh.min(Duration::from_secs(1)) };
            if !matches!(self.ended.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
                return;
            }
        }
    }
}

/// Tells of names once when they are lost, and once when they are found again.
fn tell(backend: &str, found: &Result<Vec<Place>, String>, was_found: bool) -> bool {
    match found {
        Err(error) if was_found => tracing::warn!(backend, "{error}"),
        Ok(_) if !was_found => tracing::info!(backend, "its names are found again"),
        Ok(_) | Err(_) => {}
    }
    found.is_ok()
}

/// Where a backend is; an error if one of its names is not found, and then what was known of all is kept.
fn places(options: &BackendOptions) -> Result<Vec<Place>, String> {
    let mut places: Vec<Place> = Vec::new();
    for address in &options.addresses {
        match address {
            Address::Socket { scheme, socket } => {
                push(&mut places, Place::at(*socket, *scheme, address, options));
            }
            Address::Unix(path) => push(&mut places, Place::Unix(path.clone())),
            Address::Name { scheme, name, port } => {
                let found = (name.as_str(), *port).to_socket_addrs();
                let mut found: Vec<SocketAddr> =
                    found.map_err(|error| format!("name {name:?} is not found: {error}"))?.collect();
                // The system shuffles them: the order is no news.
                found.sort();
                for one in found.into_iter().take(ADDRESSES_MAX) {
                    push(&mut places, Place::at(one, *scheme, address, options));
                }
            }
        }
    }
    Ok(places)
}

fn push(places: &mut Vec<Place>, place: Place) {
    if !places.contains(&place) {
        places.push(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_addresses_and_one_that_is_not_found_is_an_error() {
        let options = |addresses: &[&str]| {
            BackendOptions::new("a", addresses.iter().map(|one| one.parse().unwrap()).collect())
        };
        let found = places(&options(&["http://127.0.0.1:1", "http://localhost:1"])).unwrap();
        assert!(found.contains(&Place::Tcp(([127, 0, 0, 1], 1).into())));
        assert_eq!(found.iter().filter(|place| **place == found[0]).count(), 1);
        let missing = places(&options(&["http://127.0.0.1:1", "http://missing.invalid:1"]));
        assert!(missing.unwrap_err().contains("missing.invalid"));
    }

    #[test]
    fn a_backend_whose_name_is_missing_has_no_address_and_ends_with_its_thread() {
        let address = "http://missing.invalid:1".parse().unwrap();
        let options = BackendOptions {
            dns_refresh: Duration::from_millis(1),
            ..BackendOptions::new("a", vec![address])
        };
        let backend = Backend::new(options);
        assert_eq!(backend.targets().len(), 0);
        let weak = Arc::downgrade(&backend);
        drop(backend);
        while weak.upgrade().is_some() {
            thread::yield_now();
        }
    }
}
