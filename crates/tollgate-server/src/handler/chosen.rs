//! Chooses the endpoint of a request by the rules of its route.

use std::rc::Rc;

use tollgate_http::StatusCode;
use tollgate_script::{Body, RouteChoice};

use super::endpoint::Endpoint;
use super::exchange::Exchange;
use crate::choice::{Choice, Prefix};
use crate::observe::RequestFault;
use crate::reply::Reply;

impl Exchange {
    /// Moves the request to the endpoint that the rules of its route choose, if the route has rules.
    ///
    /// # Errors
    /// The content is malformed within the look-ahead, or the disk cannot be read. The value is the reply.
    #[inline]
    pub(crate) fn choose(&mut self) -> Result<(), Box<Reply>> {
        let Some(choice) = &self.endpoint.choice else { return Ok(()) };
        let (chosen, found) = self.chosen(choice)?;
        self.request.choice.replace(Some(Rc::new(found)));
        self.endpoint = chosen;
        Ok(())
    }

    fn chosen(&self, choice: &Choice<Rc<Endpoint>>) -> Result<(Rc<Endpoint>, RouteChoice), Box<Reply>> {
        let head = &self.request.head;
        let choose = |bytes: &[u8], is_whole| {
            let chosen = choice.choose(head, &Prefix { bytes, is_whole });
            chosen.map(|(endpoint, found)| (Rc::clone(endpoint), found))
        };
        let most = choice.look_ahead_bytes;
        let chosen = match (&self.upload, &self.request.body) {
            _ if !choice.reads_content() => choose(&[], true),
            (Some(upload), _) => upload.look(|came| choose(&came[..most.min(came.len())], false)),
            (None, Body::Memory(bytes)) => choose(&bytes[..most.min(bytes.len())], bytes.len() <= most),
            (None, Body::File(file)) => {
                let mut bytes = vec![0; most.min(usize::try_from(file.bytes_len()).unwrap_or(most))];
                let read = file.open().and_then(|file| file.read_exact_at(&mut bytes, 0));
                read.map_err(|error| {
                    tracing::warn!(route = self.endpoint.path, "content cannot be read back: {error}");
                    Box::new(Reply::text(StatusCode::INTERNAL_SERVER_ERROR, "content cannot be read"))
                })?;
                choose(&bytes, file.bytes_len() <= most as u64)
            }
        };
        chosen.map_err(|error| {
            let reply = Reply::text(StatusCode::BAD_REQUEST, error.to_string());
            self.endpoint.note_fault(RequestFault::Content, head, &reply);
            self.endpoint.granted(reply, head).into()
        })
    }
}
