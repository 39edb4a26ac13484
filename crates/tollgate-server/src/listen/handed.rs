//! The listening sockets of a start that may get some of them from its predecessor.

use std::os::fd::OwnedFd;

use super::inherited::Inherited;
use super::listeners::Listeners;
use super::point::ListenPoint;
use crate::error::StartError;
use crate::options::{ListenAddress, ListenSpec, ServerOptions};

/// The sockets of one configured address, as a process hands them to its successor.
pub struct HandedListen {
    /// The address as it is configured.
    pub name: String,
    /// All sockets of the address.
    pub sockets: Vec<OwnedFd>,
}

impl Listeners {
    /// Binds the addresses for all workers. From now on connections queue up.
    ///
    /// Each address is first bound without sharing. A second server therefore fails, and does not take a part
    /// of the connections.
    ///
    /// # Errors
    /// `Listen` names the address. `Inherited` names the socket that systemd did not pass.
    pub fn bind(options: &ServerOptions) -> Result<Self, StartError> {
        AwaitedListeners::bind(options, &[])?.complete(Vec::new())
    }
}

/// A configured address at a start.
enum Slot {
    /// The start bound the address. An address of systemd may have several sockets.
    Bound(Vec<ListenPoint>),
    /// The predecessor has the sockets of the address.
    Awaited(ListenSpec),
}

/// The sockets of a start, some of which a predecessor still has to hand over.
pub struct AwaitedListeners {
    slots: Vec<Slot>,
    inherited: Inherited,
    workers: usize,
    backlog: i32,
}

impl AwaitedListeners {
    /// Binds the addresses that the predecessor does not have. `handed` has the names of the others.
    ///
    /// # Errors
    /// The same as of [`Listeners::bind`].
    pub fn bind(options: &ServerOptions, handed: &[String]) -> Result<Self, StartError> {
        let backlog = i32::try_from(options.backlog).unwrap_or(i32::MAX);
        let (workers, inherited) = (options.workers, Inherited::from_environment()?);
        let mut awaited = Self { slots: Vec::new(), inherited, workers, backlog };
        let mut handed = handed.to_vec();
        for spec in &options.listen {
            let name = spec.address.to_string();
            let slot = match handed.iter().position(|handed| *handed == name) {
                Some(at) => {
                    handed.remove(at);
                    Slot::Awaited(spec.clone())
                }
                None => Slot::Bound(awaited.bind_one(spec)?),
            };
            awaited.slots.push(slot);
        }
        Ok(awaited)
    }

    /// Returns the names of the addresses that the predecessor has to hand over.
    pub fn awaited(&self) -> Vec<String> {
        let awaited = self.slots.iter().filter_map(|slot| match slot {
            Slot::Awaited(spec) => Some(spec.address.to_string()),
            Slot::Bound(_) => None,
        });
        awaited.collect()
    }

    /// Takes the sockets of the predecessor. Binds the addresses that it did not hand over, because it ended.
    ///
    /// # Errors
    /// The same as of [`Listeners::bind`].
    pub fn complete(mut self, mut handed: Vec<HandedListen>) -> Result<Listeners, StartError> {
        let mut points = Vec::new();
        for slot in std::mem::take(&mut self.slots) {
            let spec = match slot {
                Slot::Bound(bound) => {
                    points.extend(bound);
                    continue;
                }
                Slot::Awaited(spec) => spec,
            };
            match take(&mut handed, &spec) {
                Some(sockets) => {
                    let made = ListenPoint::handed(&spec, sockets);
                    let address = spec.address.to_string();
                    points.extend(made.map_err(|source| StartError::Listen { address, source })?);
                }
                None => points.extend(self.bind_one(&spec)?),
            }
        }
        self.inherited.warn_of_the_rest();
        Listeners::of(points, self.workers, self.backlog)
    }

    fn bind_one(&mut self, spec: &ListenSpec) -> Result<Vec<ListenPoint>, StartError> {
        let fail = |source| StartError::Listen { address: spec.address.to_string(), source };
        let one = match &spec.address {
            ListenAddress::Tcp(address) => ListenPoint::tcp(spec, *address, self.workers, self.backlog),
            ListenAddress::Unix { path, mode } => ListenPoint::unix(spec, path, *mode, self.backlog),
            ListenAddress::Systemd(name) => {
                let sockets = self.inherited.take(name.as_deref())?.into_iter();
                let made = sockets.map(|socket| ListenPoint::inherited(spec, socket));
                return made.collect::<Result<_, _>>().map_err(fail);
            }
        };
        one.map(|point| vec![point]).map_err(fail)
    }
}

/// Removes and returns the sockets of an address. An address of systemd has one entry for each socket. Of two
/// addresses with port 0, each has an entry of its own.
fn take(handed: &mut Vec<HandedListen>, spec: &ListenSpec) -> Option<Vec<OwnedFd>> {
    let name = spec.address.to_string();
    let first = handed.iter().position(|handed| handed.name == name)?;
    let mut sockets = handed.remove(first).sockets;
    if matches!(spec.address, ListenAddress::Systemd(_)) {
        handed.extract_if(.., |handed| handed.name == name).for_each(|more| sockets.extend(more.sockets));
    }
    Some(sockets)
}
