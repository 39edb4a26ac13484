//! HTTP/1.1 as bytes: request heads, body framing, chunks and reply heads (RFC 9110, RFC 9112).
//!
//! The parser turns bytes into a [`RequestHead`] with its [`BodyFraming`].
//! The writer turns status, framing and fields of a reply into bytes.
//! [`route`] finds the route for a host, a path and a method.
//! Sockets, deadlines, handlers and bodies on disk belong to the server.
//!
//! Invariants:
//! - There is no I/O, no clock and no unsafe code, and no input causes a panic.
//! - The meaning of the bytes does not depend on how the network splits them.
//! - The parser decides the framing once, at the end of the head. One request is never read as two.
//! - Every refusal is a [`RequestError`]. One table gives its status, its client text, and whether the
//!   connection closes.

mod authority;
mod chunked;
mod conditional;
mod connection;
mod cookie;
mod date;
mod digest;
mod error;
mod field;
mod form_data;
mod framing;
mod grammar;
mod html;
mod limits;
mod method;
mod negotiate;
mod path;
mod query;
mod range;
mod reply;
mod reply_head;
mod request;
pub mod route;
mod scheme;
mod span;
mod status;
mod structured;
mod target;
mod version;

pub use authority::{is_authority, split_authority};
pub use chunked::{ChunkedDecoder, Decoded, LAST_CHUNK, write_chunk};
pub use conditional::{Precondition, Validators, is_range_current, is_selective, named_tags, names_tag};
pub use connection::{connection_options, is_hop_by_hop_field};
pub use cookie::cookie_pairs;
pub use date::{http_date, http_date_of_us, parse_http_date};
pub use digest::{DigestAlgorithm, wanted_digest};
pub use error::RequestError;
pub use field::{is_field_name, is_field_value, is_framing_field, is_single_field};
pub use form_data::{FormError, FormEvent, FormPart, FormPartHead, FormParts, FormStream};
pub use framing::BodyFraming;
pub use html::escaped_html;
pub use limits::{Limits, UnderscoreNames};
pub use method::{Method, Methods};
pub use negotiate::{acceptable_media, accepted_coding, accepted_media, accepts_identity};
pub use path::{normalise_path, normalise_path_with_encoded_slashes, resolve_dot_segments, write_path};
pub use query::query_pairs;
pub use range::{RANGES_MAX, Ranges};
pub use reply::{CONTINUE, Connection, ReplyBody, begin_reply_head, end_reply_head, push_field};
pub use reply_head::{ReplyError, ReplyFraming, ReplyHead, ReplyHeadReader};
pub use request::{HeadReader, RequestHead};
pub use scheme::UriScheme;
pub use status::{StatusCode, reason};
pub use target::{Target, write_target};
pub use version::Version;
