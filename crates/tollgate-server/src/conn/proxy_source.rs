//! Reads the PROXY header of a connection, which names its client.

use std::net::IpAddr;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncRead;

use super::gone::Gone;
use super::stream::{Came, read};
use crate::deadline::{Phase, Slot};
use crate::listen::proxy_header::{self, ProxySource};
use crate::scratch::Scratch;

/// Reads the PROXY header, and returns the client. Bytes after the header stay in `input`. If no valid header
/// arrives in time, the connection ends, and its bytes are never read as a request.
pub(super) async fn read_proxy_header<S: AsyncRead + Unpin>(
    stream: &mut S,
    slot: &Slot,
    scratch: &Scratch,
    input: &mut BytesMut,
    peer: Option<IpAddr>,
    timeout: Duration,
) -> Result<Option<IpAddr>, Gone> {
    slot.arm(Phase::Silent, timeout);
    loop {
        match proxy_header::parse(input) {
            Ok(Some(header)) => {
                drop(input.split_to(header.bytes_len));
                slot.set(Phase::Handling);
                return Ok(match header.source {
                    ProxySource::Proxy => peer,
                    ProxySource::Client(client) => Some(client),
                    ProxySource::UnixClient => None,
                });
            }
            Ok(None) if input.is_empty() => {}
            Ok(None) => slot.pass_to(Phase::Head),
            Err(error) => {
                tracing::debug!(?peer, "connection refused: {error}");
                return Err(Gone);
            }
        }
        match read(stream, slot, scratch, input).await? {
            Came::Bytes => {}
            Came::End | Came::TooLate => return Err(Gone),
        }
    }
}
