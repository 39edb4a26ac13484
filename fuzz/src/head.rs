//! Checks request heads: verdict, meaning and length, for the whole input and for its pieces.

use bytes::BytesMut;
use tollgate_http::{BodyFraming, HeadReader, RequestError, RequestHead, UriScheme, Version};

use super::reference::{self, Body, Head, ReferenceResult};
use super::split::{self, Input};

/// Checks one input.
pub fn check(bytes: &[u8]) {
    let Some(Input { bounds, pieces, data, .. }) = split::input(bytes) else { return };
    let limits = split::limits(&bounds);
    let expected = reference::head(data, &bounds);
    for pieces in [vec![data], pieces] {
        let (mut reader, mut buffer) = (HeadReader::default(), BytesMut::new());
        let mut came = 0;
        let mut read = Ok(None);
        for piece in pieces {
            buffer.extend_from_slice(piece);
            came += piece.len();
            read = reader.read(&mut buffer, &limits);
            if !matches!(read, Ok(None)) {
                break;
            }
        }
        // The buffer of an incomplete head may be longer than the bytes that came, because the reader encodes
        // UTF-8 in the target.
        compare(&read, came.checked_sub(buffer.len()), &expected, data);
    }
}

fn compare(
    read: &Result<Option<RequestHead>, RequestError>,
    taken: Option<usize>,
    expected: &ReferenceResult<Head>,
    data: &[u8],
) {
    let shown = data.escape_ascii();
    match (read, expected) {
        (Ok(None), ReferenceResult::Incomplete) => {}
        (Err(error), ReferenceResult::Refused(statuses)) => {
            let status = error.status().as_u16();
            assert!(
                statuses.contains(&status) && error.closes(),
                "{error} ({status}), {expected:?}: {shown}"
            );
        }
        (Ok(Some(head)), ReferenceResult::Read(expected, used)) => {
            assert_eq!((&meaning(head), taken), (expected, Some(*used)), "{shown}");
            assert_eq!(head.bytes_len(), *used, "{shown}");
        }
        _ => panic!("{read:?}, {expected:?}: {shown}"),
    }
}

fn meaning(head: &RequestHead) -> Head {
    Head {
        method: head.method().as_str().into(),
        path: head.path().into(),
        query: head.query().map(Into::into),
        host: head.host().map(Into::into),
        is_https: head.check_scheme(|| UriScheme::Http).is_err(),
        is_1_1: head.version() == Version::Http11,
        fields: head.fields().map(|(name, value)| (name.into(), value.into())).collect(),
        body: match head.framing() {
            BodyFraming::None => Body::None,
            BodyFraming::Length(bytes) => Body::Length(bytes),
            BodyFraming::Chunked => Body::Chunked,
        },
        persists: head.is_persistent(),
        expects_continue: head.expects_continue(),
    }
}
