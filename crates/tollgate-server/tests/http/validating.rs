//! The schema, the documents and the routes of tests of validation.

use std::fs;
use std::sync::Arc;

use tollgate_server::{SchemaFolder, SchemaSpec, ValidateMode, ValidateSpec};

use crate::site::{Running, Site};

/// A schema of orders.
pub(crate) const ORDER: &str = "
    start = element order { attribute id { xsd:integer }, item+ }
    item = element item { attribute sku { text }, xsd:decimal }
";
pub(crate) const VALID: &str = "<order id='1'><item sku='a'>1.5</item></order>";
/// The fault is in line 2, column 2.
pub(crate) const INVALID: &str = "<order id='1'><item sku='a'>1.5</item>\n <itme/></order>";
pub(crate) const MALFORMED: &str = "<order id='1'><item sku='a'>1.5</order>";

/// Returns a valid order that is longer than `bytes`.
pub(crate) fn long_order(bytes: usize) -> String {
    let mut order = "<order id='1'>".to_owned();
    let item = "<item sku='abcdefghijklmnopqrstuvwxyz'>1234567.5</item>";
    order.push_str(&item.repeat(1 + bytes / item.len()));
    order + "</order>"
}

/// Returns a long order whose last item is not valid.
pub(crate) fn long_invalid(bytes: usize) -> String {
    long_order(bytes).replace("</order>", "<itme/></order>")
}

/// The schemas of a route.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sides {
    pub(crate) request: bool,
    pub(crate) reply: bool,
}

pub(crate) const REQUESTS: Sides = Sides { request: true, reply: false };
pub(crate) const REPLIES: Sides = Sides { request: false, reply: true };

/// Returns the schemas of a route, from a file with this text.
pub(crate) fn spec(text: &str, sides: Sides, mode: ValidateMode) -> Arc<ValidateSpec> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("order.rnc"), text).unwrap();
    let schema = || SchemaSpec::read("order.rnc", &SchemaFolder::new(folder.path())).unwrap();
    Arc::new(ValidateSpec { request: sides.request.then(schema), reply: sides.reply.then(schema), mode })
}

impl Site {
    /// Validates orders of the last route.
    pub(crate) fn validate(self, sides: Sides, mode: ValidateMode) -> Self {
        self.tune_route(|route| route.validate = Some(spec(ORDER, sides, mode)))
    }
}

impl Running {
    /// Returns the status of the reply to a request on a new connection.
    pub(crate) fn status_of(&self, request: &str) -> u16 {
        let mut peer = self.connect();
        peer.send(request);
        peer.reply(false).status
    }

    /// Returns the verdicts of all routes on one side that are not zero: `2 valid, 1 invalid`.
    pub(crate) fn judged(&self, side: &str) -> String {
        let routes = self.watch().status().routes;
        let counts = routes.iter().flat_map(|route| &route.judged);
        let counts = counts.filter(|judged| judged.side == side && judged.count > 0);
        counts.map(|judged| format!("{} {}", judged.count, judged.result)).collect::<Vec<_>>().join(", ")
    }
}

/// Returns a request with a document.
pub(crate) fn post(document: &str) -> String {
    post_with("Content-Type: application/xml\r\n", document)
}

pub(crate) fn post_with(fields: &str, document: &str) -> String {
    let length = document.len();
    format!("POST /orders HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: {length}\r\n\r\n{document}")
}

pub(crate) fn chunked(document: &str, bytes: usize) -> String {
    let chunks = document.as_bytes().chunks(bytes);
    let chunks = chunks.map(|chunk| format!("{:x}\r\n{}\r\n", chunk.len(), String::from_utf8_lossy(chunk)));
    let head =
        "POST /orders HTTP/1.1\r\nHost: a\r\nContent-Type: text/xml\r\nTransfer-Encoding: chunked\r\n\r\n";
    format!("{head}{}0\r\n\r\n", chunks.collect::<String>())
}
