//! Converts a request to the form for a backend: the target, the fields that may be forwarded, and the fields
//! that name the client.

use std::borrow::Cow;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;

use tollgate_backend::{Outgoing, OutgoingContent, SpooledContent};
use tollgate_http::{
    BodyFraming, Method, RequestHead, UriScheme, Version, connection_options, is_hop_by_hop_field,
    write_target,
};
use tollgate_script::{Body, BodyFile, Request, TraceRule};

use super::forwarded_prefix::{X_FORWARDED_PREFIX, path_without_dots, split_path};
use super::hops::{self, MAX_FORWARDS};
use super::target::Proxy;
use crate::handler::exchange::Exchange;
use crate::options::HostSent;
use crate::trust::ClientHeader;

/// Fields that ask for a part of a content, or for a coding.
const PARTIAL_FIELDS: [&str; 3] = ["accept-encoding", "range", "if-range"];
const TRACE_FIELDS: [&str; 2] = ["traceparent", "tracestate"];

impl Proxy {
    /// Creates the request for the backend.
    pub(super) fn outgoing(&self, exchange: &Exchange) -> Outgoing {
        let request = &exchange.request;
        let head = &request.head;
        let host = match self.spec.host {
            HostSent::Pass => head.host().unwrap_or(self.upstream.host()),
            HostSent::Backend => self.upstream.host(),
        };
        let (method, name) = (head.method(), head.method_name());
        let mut out = Outgoing::with_method(method, name, host, |target| self.write_target(target, head));
        let name_header = exchange.endpoint.name_header();
        self.push_fields(&mut out, request, exchange, name_header);
        if needs_plain_reply(exchange) {
            out.push_sound("Accept-Encoding", b"identity");
        }
        self.push_caller(&mut out, request, name_header);
        self.push_origin(&mut out, exchange);
        let via: &[u8] = match head.version() {
            Version::Http11 => b"1.1 tollgate",
            Version::Http10 => b"1.0 tollgate",
        };
        out.push_sound("Via", via);
        if !self.sets("X-Request-Id") {
            out.push_sound("X-Request-Id", request.id.text(&mut [0; 36]));
        }
        request.each_trace_field(|name, value| {
            if !self.is_set(name) {
                out.push_sound(name, value);
            }
        });
        if head.accepts_trailers() {
            out.accept_trailers();
        }
        for (name, value) in &self.spec.set_headers {
            out.push(name, value.as_bytes());
        }
        out.finish(match &exchange.upload {
            Some(upload) => Some(OutgoingContent::Streamed(upload.clone())),
            None => content(head, &request.body),
        })
    }

    /// Writes the path as it was sent, except that dot segments and stripped segments are removed, and the
    /// prefix of the route is added.
    fn write_target(&self, out: &mut Vec<u8>, head: &RequestHead) {
        out.extend_from_slice(self.spec.prefix.as_bytes());
        write_target(out, split_path(&path_without_dots(head), self.stripped).1);
        if let Some(query) = head.query() {
            out.push(b'?');
            write_target(out, query);
        }
    }

    /// Copies fields, except fields of the connection, fields that `Connection` names, fields that the server
    /// writes, and fields that the route removes.
    fn push_fields(
        &self,
        out: &mut Outgoing,
        request: &Request,
        exchange: &Exchange,
        name_header: Option<&str>,
    ) {
        let head = &request.head;
        let is_from_proxy = exchange.is_from_proxy();
        let needs_plain = needs_plain_reply(exchange);
        // The request gets a new trace field with the span of this server, so the received trace fields are
        // left out. With traces off, they are copied like any other field.
        let ends_traces = request.trace_rule != TraceRule::Off;
        let counts_hops = hops::are_counted(head.method());
        let mut hops = if counts_hops { hops::least(head) } else { None };
        for (name, value) in head.raw_fields() {
            let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
            // A backend must not trust fields that no trusted proxy wrote.
            let is_forged = !is_from_proxy && begins_with(name, b"x-forwarded-");
            if is_own_field(name)
                || (self.strips() && is(X_FORWARDED_PREFIX))
                || is_hop_by_hop_field(name)
                || (needs_plain && PARTIAL_FIELDS.into_iter().any(is))
                || is_forged
                || name_header.is_some_and(is)
                || (ends_traces && TRACE_FIELDS.into_iter().any(is))
                || (head.connection_names_fields() && is_named_by_connection(head, name))
                || self.spec.remove_headers.iter().any(|removed| is(removed))
                || self.spec.set_headers.iter().any(|(set, _)| is(set))
            {
                continue;
            }
            if counts_hops && is(MAX_FORWARDS) {
                // The field is written once, even if there were several lines.
                if let Some(hops) = hops.take() {
                    hops::write_next(out, hops);
                }
            } else {
                out.push_sound(name, value);
            }
        }
    }

    /// Adds the name of the caller. A name has no control characters, so it is a valid value.
    fn push_caller(&self, out: &mut Outgoing, request: &Request, name_header: Option<&str>) {
        if let (Some(field), Some(caller)) = (name_header, &request.caller)
            && !self.is_set(field)
        {
            out.push(field, caller.name.as_bytes());
        }
    }

    /// Adds the client and the requested host: `Forwarded` (RFC 7239) and the older fields. Values of a
    /// trusted proxy are kept and extended. Values of other peers are replaced.
    fn push_origin(&self, out: &mut Outgoing, exchange: &Exchange) {
        let head = &exchange.request.head;
        let peer = exchange.peer.map(|peer| peer.to_canonical());
        if !self.is_set("Forwarded") {
            let trusted = trusted_elements(exchange, ClientHeader::Forwarded);
            out.push_with("Forwarded", |line| {
                write_list(line, &trusted, true);
                write_forwarded(line, peer, head.host(), exchange.scheme);
            });
        }
        if !self.is_set("X-Forwarded-For") {
            let trusted = trusted_elements(exchange, ClientHeader::XForwardedFor);
            if peer.is_some() || !trusted.is_empty() {
                out.push_with("X-Forwarded-For", |line| {
                    write_list(line, &trusted, peer.is_some());
                    if let Some(peer) = peer {
                        write_address(line, peer);
                    }
                });
            }
        }
        let kept = |name: &str| head.field(name).filter(|_| exchange.is_from_proxy());
        if !self.is_set("X-Forwarded-Proto") {
            out.push_sound(
                "X-Forwarded-Proto",
                kept("x-forwarded-proto").unwrap_or(exchange.scheme.name().as_bytes()),
            );
        }
        if let Some(host) = head.host().filter(|_| !self.is_set("X-Forwarded-Host")) {
            out.push_sound("X-Forwarded-Host", kept("x-forwarded-host").unwrap_or(host.as_bytes()));
        }
        if self.strips() && !self.is_set(X_FORWARDED_PREFIX) {
            out.push_sound(X_FORWARDED_PREFIX, self.forwarded_prefix(exchange).whole());
        }
    }

    fn sets(&self, name: &str) -> bool {
        self.spec.set_headers.iter().any(|(set, _)| set.eq_ignore_ascii_case(name))
    }

    /// Returns whether the route sets or removes a field.
    fn is_set(&self, name: &str) -> bool {
        self.sets(name) || self.spec.remove_headers.iter().any(|removed| removed.eq_ignore_ascii_case(name))
    }
}

/// Returns whether the reply must be a whole document without a coding, because a schema describes it.
fn needs_plain_reply(exchange: &Exchange) -> bool {
    exchange.endpoint.validation.as_ref().is_some_and(|validation| validation.refuses_replies())
}

/// Returns whether the server writes this field itself, or the field concerns only this connection. `Expect`
/// was answered already.
fn is_own_field(name: &[u8]) -> bool {
    let as_long: &[&str] = match name.len() {
        4 => &["host"],
        6 => &["expect"],
        9 => &["forwarded", "x-real-ip"],
        12 => &["x-request-id"],
        14 => &["content-length"],
        15 => &["x-forwarded-for"],
        16 => &["x-forwarded-host"],
        17 => &["x-forwarded-proto"],
        _ => &[],
    };
    as_long.iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
}

fn begins_with(name: &[u8], front: &[u8]) -> bool {
    name.get(..front.len()).is_some_and(|found| found.eq_ignore_ascii_case(front))
}

/// Returns whether `Connection` names this field (RFC 9110 section 7.6.1).
fn is_named_by_connection(head: &RequestHead, name: &[u8]) -> bool {
    let lines = head.raw_fields().filter(|(field, _)| field.eq_ignore_ascii_case(b"connection"));
    lines.flat_map(|(_, value)| connection_options(value)).any(|option| option.eq_ignore_ascii_case(name))
}

/// Returns the elements of an address list before our own element.
///
/// If the trusted proxy writes this list, its elements are kept. A list that the trusted proxy does not write
/// is forwarded by that proxy as its client sent it. Such a list is not trusted, so it starts anew with the
/// client that the proxy names.
fn trusted_elements(exchange: &Exchange, list: ClientHeader) -> Vec<Cow<'_, [u8]>> {
    let request = &exchange.request;
    match exchange.trusted_header {
        None => Vec::new(),
        Some(header) if header == list => {
            header.closed_entries(&request.head).into_iter().map(Cow::from).collect()
        }
        Some(_) => {
            let canonical = |address: Option<IpAddr>| address.map(|address| address.to_canonical());
            let client =
                canonical(request.remote_addr).filter(|client| Some(*client) != canonical(exchange.peer));
            client.map(|client| element(list, client).into()).into_iter().collect()
        }
    }
}

fn element(list: ClientHeader, client: IpAddr) -> Vec<u8> {
    let mut element = Vec::new();
    match list {
        ClientHeader::XForwardedFor => write_address(&mut element, client),
        ClientHeader::Forwarded => write_for(&mut element, Some(client)),
    }
    element
}

/// Appends the members of a list, with commas between them. If `is_followed`, a comma is also written after
/// the last member.
fn write_list(out: &mut Vec<u8>, members: &[Cow<'_, [u8]>], is_followed: bool) {
    for (place, member) in members.iter().enumerate() {
        out.extend_from_slice(member);
        if is_followed || place + 1 < members.len() {
            out.extend_from_slice(b", ");
        }
    }
}

/// Appends one element of RFC 7239 section 4. The host is quoted, because it may have a port.
fn write_forwarded(out: &mut Vec<u8>, peer: Option<IpAddr>, host: Option<&str>, scheme: UriScheme) {
    write_for(out, peer);
    if let Some(host) = host {
        out.extend_from_slice(b";host=\"");
        out.extend_from_slice(host.as_bytes());
        out.push(b'"');
    }
    out.extend_from_slice(b";proto=");
    out.extend_from_slice(scheme.name().as_bytes());
}

fn write_for(out: &mut Vec<u8>, client: Option<IpAddr>) {
    match client {
        None => out.extend_from_slice(b"for=unknown"),
        Some(client @ IpAddr::V4(_)) => {
            out.extend_from_slice(b"for=");
            write_address(out, client);
        }
        Some(client @ IpAddr::V6(_)) => {
            out.extend_from_slice(b"for=\"[");
            write_address(out, client);
            out.extend_from_slice(b"]\"");
        }
    }
}

/// Appends an address as text. An IPv4 address is written without Rust's formatter, which needs ten times as
/// long.
fn write_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            for (place, octet) in address.octets().into_iter().enumerate() {
                if place > 0 {
                    out.push(b'.');
                }
                write_octet(out, octet);
            }
        }
        IpAddr::V6(address) => out.extend_from_slice(address.to_string().as_bytes()),
    }
}

fn write_octet(out: &mut Vec<u8>, octet: u8) {
    if octet >= 100 {
        out.push(b'0' + octet / 100);
    }
    if octet >= 10 {
        out.push(b'0' + octet / 10 % 10);
    }
    out.push(b'0' + octet % 10);
}

/// Returns the content. Empty content is sent if it was announced, or if the method suggests content (RFC
/// 9110 section 8.6).
fn content(head: &RequestHead, body: &Body) -> Option<OutgoingContent> {
    let means_content = matches!(head.method(), Method::Post | Method::Put | Method::Patch);
    if head.framing() == BodyFraming::None && !means_content {
        return None;
    }
    Some(match body {
        Body::Memory(bytes) => OutgoingContent::Memory(bytes.clone()),
        Body::File(file) => OutgoingContent::Spooled(Rc::new(Spooled(file.clone()))),
    })
}

#[derive(Debug)]
struct Spooled(Rc<dyn BodyFile>);

impl SpooledContent for Spooled {
    fn bytes_len(&self) -> u64 {
        self.0.bytes_len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwarded_names_the_peer_by_rfc_7239() {
        let check = |peer: Option<&str>, host, expect: &str| {
            let peer = peer.map(|peer| peer.parse().unwrap());
            let mut found = Vec::new();
            write_forwarded(&mut found, peer, host, UriScheme::Http);
            assert_eq!(String::from_utf8(found).unwrap(), expect);
        };
        check(Some("10.0.0.1"), Some("a:80"), "for=10.0.0.1;host=\"a:80\";proto=http");
        check(Some("255.100.99.1"), None, "for=255.100.99.1;proto=http");
        check(Some("2001:db8::1"), None, "for=\"[2001:db8::1]\";proto=http");
        check(None, None, "for=unknown;proto=http");
    }
}
