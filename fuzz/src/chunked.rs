//! Checks chunked bodies: verdict, data and length, for the whole input and for its pieces.

use bytes::BytesMut;
use tollgate_http::{ChunkedDecoder, Decoded};

use super::reference::{self, ReferenceResult};
use super::split::{self, Input};

/// Checks one input.
pub fn check(bytes: &[u8]) {
    let Some(Input { bounds, pieces, data, .. }) = split::input(bytes) else { return };
    let limits = split::limits(&bounds);
    let (expected, expected_body) = reference::chunked(data, &bounds);
    let shown = data.escape_ascii();
    for pieces in [vec![data], pieces] {
        let mut decoder = ChunkedDecoder::new(&limits);
        let (mut buffer, mut body) = (BytesMut::new(), BytesMut::new());
        let mut came = 0;
        let mut decoded = Ok(Decoded::NeedMore);
        for piece in pieces {
            buffer.extend_from_slice(piece);
            came += piece.len();
            decoded = decoder.decode(&mut buffer, &mut body, bounds.body);
            if decoded != Ok(Decoded::NeedMore) {
                break;
            }
        }
        assert_eq!(body, expected_body, "{shown}");
        assert_eq!(decoder.is_done(), decoded == Ok(Decoded::Done), "{shown}");
        match (&decoded, &expected) {
            (Ok(Decoded::NeedMore), ReferenceResult::Incomplete) => assert!(buffer.is_empty(), "{shown}"),
            (Ok(Decoded::Done), ReferenceResult::Read((), used)) => {
                assert_eq!(came - buffer.len(), *used, "{shown}");
            }
            (Err(error), ReferenceResult::Refused(statuses)) => {
                assert!(statuses.contains(&error.status().as_u16()), "{error}, {expected:?}: {shown}");
                let again = decoder.decode(&mut BytesMut::from("\r\n0\r\n\r\n"), &mut body, bounds.body);
                assert_eq!(again.as_ref(), Err(error), "no resync: {shown}");
            }
            _ => panic!("{decoded:?}, {expected:?}: {shown}"),
        }
    }
}
