//! Validates a request whose content is there already: one that another route passed on, or one of a test.

use std::io;

use tollgate_http::{RequestHead, StatusCode};
use tollgate_script::{Body, BodyFile};

use super::endpoint::Endpoint;
use crate::reply::Reply;

/// Bytes of a spooled content that are read at once.
const READ_BYTES: usize = 64 << 10;

impl Endpoint {
    /// Validates the complete content of a request, if the route validates requests. A spooled content is
    /// read back, which blocks on the disk.
    ///
    /// # Errors
    /// The refusal of the request.
    pub(crate) fn validate_whole(&self, head: &RequestHead, body: &Body) -> Result<(), Box<Reply>> {
        let Some(validation) = &self.validation else { return Ok(()) };
        let Some(mut validation) = validation.begin_request(head, &self.cells) else { return Ok(()) };
        let mut feed = |mut bytes: &[u8]| {
            while !bytes.is_empty() {
                bytes = &bytes[validation.feed(bytes)..];
            }
        };
        match body {
            Body::Memory(bytes) => feed(bytes),
            Body::File(file) => {
                read_through(&**file, feed).map_err(|error| {
                    tracing::warn!(route = self.path, "content cannot be read back: {error}");
                    Box::new(Reply::text(StatusCode::INTERNAL_SERVER_ERROR, "content cannot be read"))
                })?;
            }
        }
        validation.finish();
        validation.refusal().map_or(Ok(()), |refusal| Err(self.refuse_document(refusal, head).into()))
    }
}

/// Passes the bytes of a spooled content to `take`.
fn read_through(file: &dyn BodyFile, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let (mut buffer, mut offset) = (vec![0; READ_BYTES], 0);
    loop {
        let bytes = file.read_at(&mut buffer, offset)?;
        if bytes == 0 {
            return Ok(());
        }
        take(&buffer[..bytes]);
        offset += bytes as u64;
    }
}
