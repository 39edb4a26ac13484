//! Finds the client of a connection before its first request, by its address or by a PROXY header.

use std::net::IpAddr;

use super::client::{ConnectionClient, Origin};
use super::connection::Connection;
use super::gone::Gone;
use super::stream::{Came, read};
use super::transport::Transport;
use crate::deadline::Phase;
use crate::listen::proxy_header::{self, ProxySource};
use crate::observe::Refusal;

impl<S: Transport> Connection<S> {
    /// Finds the client of the connection, and counts the connection for that client.
    pub(super) async fn find_client(&mut self, origin: Origin) -> Result<(), Gone> {
        let mut peer = origin.peer;
        if origin.proxy_protocol {
            peer = self.read_proxy_header(peer).await?;
        }
        match ConnectionClient::enter(peer, &self.worker, &self.rules) {
            Ok(client) => self.client = client,
            Err(too_many) => {
                self.worker.cells.count_refusal(Refusal::ClientConnections);
                self.end_with(too_many.reply());
            }
        }
        Ok(())
    }

    /// Reads the PROXY header. If no valid header arrives in time, the connection ends, and its bytes are
    /// never read as a request.
    async fn read_proxy_header(&mut self, peer: Option<IpAddr>) -> Result<Option<IpAddr>, Gone> {
        let timeout = self.limits().head_timeout;
        self.slot.arm(Phase::Silent, timeout);
        loop {
            match proxy_header::parse(&self.input) {
                Ok(Some(header)) => {
                    drop(self.input.split_to(header.bytes_len));
                    self.slot.set(Phase::Handling);
                    return Ok(match header.source {
                        ProxySource::Proxy => peer,
                        ProxySource::Client(client) => Some(client),
                        ProxySource::UnixClient => None,
                    });
                }
                Ok(None) if self.input.is_empty() => {}
                Ok(None) => self.slot.pass_to(Phase::Head),
                Err(error) => {
                    tracing::debug!(?peer, "connection refused: {error}");
                    return Err(Gone);
                }
            }
            match read(&mut self.stream, &self.slot, &self.worker.scratch, &mut self.input).await? {
                Came::Bytes => {}
                Came::End | Came::TooLate => return Err(Gone),
            }
        }
    }
}
