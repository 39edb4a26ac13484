//! The head of a request that a test sends.

use bytes::BytesMut;
use tollgate_http::{HeadReader, Limits, RequestHead};
use tollgate_script::TestRequest;

/// Creates a head from the values of a test, like the head that a client would send.
pub(super) fn head(asked: &TestRequest, limits: &Limits) -> Result<RequestHead, String> {
    let mut text = format!("{} {} HTTP/1.1\r\n", asked.method, asked.target).into_bytes();
    let has = |what: &str| asked.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case(what.as_bytes()));
    let mut push = |name: &[u8], value: &[u8]| text.extend([name, b": ", value, b"\r\n"].concat());
    if !has("host") {
        push(b"host", b"localhost");
    }
    if let Some(content) = asked.content.as_ref().filter(|_| !has("content-length")) {
        push(b"content-length", content.len().to_string().as_bytes());
    }
    asked.fields.iter().for_each(|(name, value)| push(name, value));
    let given = [asked.method.as_bytes(), asked.target.as_bytes()];
    let fields = asked.fields.iter().flat_map(|(name, value)| [name.as_slice(), value]);
    if given.into_iter().chain(fields).any(|part| part.contains(&b'\r') || part.contains(&b'\n')) {
        return Err("method, path or headers have a line break".to_owned());
    }
    text.extend(b"\r\n");
    let read = HeadReader::default().read(&mut BytesMut::from(text.as_slice()), limits);
    read.map_err(|error| error.to_string())?.ok_or_else(|| "the request head is incomplete".to_owned())
}
