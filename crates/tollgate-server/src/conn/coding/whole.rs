//! Decodes a content that has arrived completely.

use bytes::{Bytes, BytesMut};
use tollgate_http::{RequestError, RequestHead};

use super::content_coding::{ContentCoding, Unsupported, unsupported_coding};
use super::decode::Step;
use super::decoding::Decoding;
use crate::reply::Reply;

/// Decodes the content of a request.
///
/// # Errors
/// The reply to a request with a coding that the server does not decode, or with a content that does not
/// conform to its coding or exceeds a limit.
pub(crate) fn decode_whole(head: &RequestHead, content: Bytes, limit: u64) -> Result<Bytes, Box<Reply>> {
    let codings = ContentCoding::all_of(head).map_err(|Unsupported| Box::new(unsupported_coding()))?;
    let Some(decoding) = Decoding::new(&codings) else { return Ok(content) };
    decode(decoding, &content, limit)
        .map_err(|error| Box::new(Reply::text(error.status(), error.client_text())))
}

fn decode(mut decoding: Decoding, content: &[u8], limit: u64) -> Result<Bytes, RequestError> {
    decoding.take(|encoded| {
        encoded.extend_from_slice(content);
        Ok(())
    })?;
    let mut decoded = BytesMut::new();
    while decoding.step(&mut decoded, limit)? == Step::Again {}
    decoding.finish()?;
    Ok(decoded.freeze())
}
