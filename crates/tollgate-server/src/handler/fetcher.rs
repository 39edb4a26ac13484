//! Sends the requests of scripts to backends, over the connections of the worker. Received content counts as
//! held memory as long as a script can use it.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use tollgate_backend::{Client, Failure, Outgoing, OutgoingContent, Upstream};
use tollgate_http::{Method, write_target};
use tollgate_script::{FetchError, FetchRequest, Fetched, Fetcher, Fetching};

use crate::overload::{Capacity, HeldMemory, QueuedMemory};

/// The backends of a worker, for its scripts.
pub(crate) struct BackendFetcher {
    pub(crate) client: Rc<Client>,
    pub(crate) capacity: Arc<Capacity>,
}

/// The content of a reply. The content counts as held memory.
struct Content {
    bytes: Bytes,
    _held: HeldMemory,
}

impl AsRef<[u8]> for Content {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Fetcher for BackendFetcher {
    fn names(&self) -> Vec<String> {
        self.client.names().map(str::to_owned).collect()
    }

    fn fetch(&self, backend: &str, request: FetchRequest) -> Fetching {
        let Some(upstream) = self.client.named(backend).cloned() else {
            let text = format!("unknown backend \"{backend}\"");
            return Box::pin(async move { Err(FetchError { name: "unknown", text }) });
        };
        let outgoing = outgoing(&upstream, &request);
        let timeout = request.timeout;
        let held = HeldMemory::new(&self.capacity);
        Box::pin(async move {
            let bytes_max = upstream.options().reply_bytes_max;
            let incoming = upstream.send(outgoing, timeout).await.map_err(|failure| failed(&failure))?;
            let (head, mut content) = (incoming.head, incoming.content);
            let gathered =
                content.gather(bytes_max, |bytes| held.set_queued(QueuedMemory::of_handler(bytes))).await;
            let bytes = gathered.map_err(|failure| failed(&failure))?;
            let fields = head.forwarded_fields();
            let text = |name: &[u8]| String::from_utf8_lossy(name).to_ascii_lowercase();
            let fields = fields.map(|(name, value)| (text(name), Bytes::copy_from_slice(value)));
            let content = Bytes::from_owner(Content { bytes, _held: held });
            Ok(Fetched { status: head.code(), fields: fields.collect(), content })
        })
    }
}

fn outgoing(upstream: &Upstream, request: &FetchRequest) -> Outgoing {
    let is_host = |name: &str| name.eq_ignore_ascii_case("host");
    let given = request.fields.iter().find(|(name, _)| is_host(name));
    let given = given.and_then(|(_, host)| std::str::from_utf8(host).ok());
    let host = given.unwrap_or_else(|| upstream.host());
    let mut out = Outgoing::new(request.method, host, |target| write_target(target, &request.target));
    for (name, value) in request.fields.iter().filter(|(name, _)| !is_host(name)) {
        out.push(name, value);
    }
    let means_content = matches!(request.method, Method::Post | Method::Put | Method::Patch);
    let content = request.content.clone().or_else(|| means_content.then(Bytes::new));
    out.finish(content.map(OutgoingContent::Memory))
}

/// Scripts get the full error text, because scripts belong to the operator.
fn failed(failure: &Failure) -> FetchError {
    FetchError { name: failure.name(), text: failure.to_string() }
}
