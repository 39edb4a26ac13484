//! Finds the client of a connection before its first request, by its address or by a PROXY header.

use super::client::{ConnectionClient, Origin};
use super::connection::Connection;
use super::gone::Gone;
use super::proxy_source::read_proxy_header;
use super::transport::Transport;
use crate::observe::Refusal;

impl<S: Transport> Connection<S> {
    /// Finds the client of the connection, and counts the connection for that client.
    pub(super) async fn find_client(&mut self, origin: Origin) -> Result<(), Gone> {
        let mut peer = origin.peer;
        if origin.proxy_protocol {
            let timeout = self.limits().head_timeout;
            let Self { stream, slot, worker, input, .. } = self;
            peer = read_proxy_header(stream, slot, &worker.scratch, input, peer, timeout).await?;
        }
        match ConnectionClient::enter(peer, &origin, &self.worker, &self.rules) {
            Ok(client) => self.client = client,
            Err(too_many) => {
                self.worker.cells.count_refusal(Refusal::ClientConnections);
                self.end_with(too_many.reply());
            }
        }
        Ok(())
    }
}
