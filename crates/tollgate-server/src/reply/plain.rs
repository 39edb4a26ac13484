//! Replies that differ only in `Date` and the request id. These replies are encoded once, when their route is
//! created.

use bytes::Bytes;
use tollgate_script::RequestId;
use uuid::Uuid;

use super::{REQUEST_ID, Reply, Writing, write_head};

/// An encoded reply for an open HTTP/1.1 connection, with the positions of the parts that differ.
pub(crate) struct PlainReply {
    /// The same reply before its encoding, for connections that need another form. The content of this reply
    /// shares memory with `bytes`.
    pub(crate) reply: Reply,
    bytes: Bytes,
    /// Position of the value of `Date`.
    date_at: usize,
    /// Position of the request id, if the reply has one.
    id_at: Option<usize>,
    /// Position of the empty line that ends the head.
    end_at: usize,
}

impl PlainReply {
    pub(crate) fn new(mut reply: Reply, tells_id: bool) -> Self {
        let id = (tells_id && !reply.has(REQUEST_ID)).then_some(RequestId::Made(Uuid::nil()));
        let writing = Writing::whole([b' '; DATE_BYTES]);
        let mut bytes = Vec::new();
        write_head(&mut bytes, &reply, id.as_ref(), writing);
        let Some(date_at) = bytes.windows(DATE.len()).position(|line| line == DATE) else {
            unreachable!("every head has a Date line")
        };
        let head_bytes = bytes.len();
        let id_at = id.map(|_| head_bytes - ID_BYTES - HEAD_END.len());
        if reply.status.may_have_content() {
            bytes.extend_from_slice(&reply.content);
        }
        let bytes = Bytes::from(bytes);
        if reply.status.may_have_content() {
            reply.content = bytes.slice(head_bytes..);
        }
        Self { reply, bytes, date_at: date_at + DATE.len(), id_at, end_at: head_bytes - LINE_END_BYTES }
    }

    /// Appends the reply with further encoded field `lines`. `id` is called only if the reply has an id.
    #[inline]
    pub(crate) fn write(
        &self,
        out: &mut Vec<u8>,
        date: &[u8; DATE_BYTES],
        lines: &[u8],
        id: impl FnOnce() -> RequestId,
    ) {
        let start = out.len();
        if lines.is_empty() {
            out.extend_from_slice(&self.bytes);
        } else {
            out.extend_from_slice(&self.bytes[..self.end_at]);
            out.extend_from_slice(lines);
            out.extend_from_slice(&self.bytes[self.end_at..]);
        }
        out[start + self.date_at..][..DATE_BYTES].copy_from_slice(date);
        if let Some(id_at) = self.id_at {
            let (id, mut made, at) = (id(), [0; ID_BYTES], start + id_at);
            match id.text(&mut made) {
                text if text.len() == ID_BYTES => out[at..][..ID_BYTES].copy_from_slice(text),
                text => drop(out.splice(at..at + ID_BYTES, text.iter().copied())),
            }
        }
    }
}

/// The end of the status line, and the name of the field `Date`.
const DATE: &[u8] = b"\r\nDate: ";
const DATE_BYTES: usize = 29;
/// Length of a UUID in bytes. The server generates ids in this form.
const ID_BYTES: usize = 36;
const HEAD_END: &[u8] = b"\r\n\r\n";
const LINE_END_BYTES: usize = 2;

#[cfg(test)]
mod tests {
    use tollgate_http::StatusCode;

    use super::*;

    const DATE: &[u8; DATE_BYTES] = b"Sun, 06 Nov 1994 08:49:37 GMT";

    /// Checks that the encoded bytes equal the bytes of a usual reply.
    fn check(reply: &Reply, id: &RequestId, tells_id: bool) {
        let writing = Writing::whole(*DATE);
        let mut expect = b"before".to_vec();
        write_head(&mut expect, reply, Some(id).filter(|_| tells_id), writing);
        if reply.status.may_have_content() {
            expect.extend_from_slice(&reply.content);
        }
        let mut found = b"before".to_vec();
        let plain = PlainReply::new(reply.clone(), tells_id);
        plain.write(&mut found, DATE, b"", || id.clone());
        assert_eq!(plain.reply.content, reply.content);
        let (mut extended, line) = (b"before".to_vec(), b"a: b\r\n");
        plain.write(&mut extended, DATE, line, || id.clone());
        let end = found.windows(HEAD_END.len()).position(|bytes| bytes == HEAD_END).unwrap() + LINE_END_BYTES;
        let expect_extended = [&found[..end], line, &found[end..]].concat();
        assert_eq!(String::from_utf8(extended).unwrap(), String::from_utf8(expect_extended).unwrap());
        assert_eq!(String::from_utf8(found).unwrap(), String::from_utf8(expect).unwrap());
    }

    #[test]
    fn a_plain_reply_is_written_as_any_other() {
        let taken = |text: &'static str| RequestId::Taken {
            text: Bytes::from_static(text.as_bytes()),
            uuid: Uuid::nil(),
        };
        let ids = [
            RequestId::Made(Uuid::from_u128(7)),
            taken("a"),
            taken("a-longer-one-than-a-uuid-would-be-in-text"),
        ];
        for status in [200, 204, 205, 299, 304, 405, 503] {
            let reply = Reply::text(StatusCode::new(status).unwrap(), "Date: none").with("a", "\tDate: b");
            for id in &ids {
                check(&reply, id, true);
                check(&reply, id, false);
                check(&reply.clone().with("x-request-id", "own").prepared(), id, false);
                check(&reply.clone().with("x-request-id", "own"), id, true);
            }
        }
    }
}
