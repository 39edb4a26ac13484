//! Tests of chunked bodies: the decoded data, or the refusal.

use super::*;

type Outcome = Result<(Decoded, BytesMut, BytesMut), RequestError>;

#[test]
fn trailers_are_kept_for_whoever_asks_without_those_that_none_may_be() {
    let trailers = |mut decoder: ChunkedDecoder| {
        let mut input = BytesMut::from(
            "1\r\na\r\n0\r\nX-Sum: \t9 \r\nContent-Length: 1\r\nset-cookie: a\r\nConnection: x\r\nETag: 1\r\n\
             Server-Timing: a:b\r\nEmpty:\r\n\r\nGET /",
        );
        let decoded = decoder.decode(&mut input, &mut BytesMut::new(), 9).unwrap();
        assert_eq!((decoded, &input[..]), (Decoded::Done, &b"GET /"[..]));
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        decoder.trailers().map(|(name, value)| (text(name), text(value))).collect::<Vec<_>>()
    };
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        trailers(ChunkedDecoder::keeping_trailers(&Limits::default())),
        [pair("X-Sum", "9"), pair("Server-Timing", "a:b"), pair("Empty", "")]
    );
    assert_eq!(trailers(ChunkedDecoder::new(&Limits::default())), []);
}

fn decode(pieces: &[&[u8]], body_bytes_max: u64) -> Outcome {
    let mut decoder = ChunkedDecoder::new(&Limits::default());
    let (mut input, mut body) = (BytesMut::new(), BytesMut::new());
    let mut decoded = Decoded::NeedMore;
    for piece in pieces {
        input.extend_from_slice(piece);
        decoded = decoder.decode(&mut input, &mut body, body_bytes_max)?;
    }
    assert_eq!(decoder.body_bytes(), body.len() as u64);
    assert_eq!(decoder.is_done(), decoded == Decoded::Done);
    Ok((decoded, body, input))
}

/// Decodes a body as one piece, and again byte by byte.
#[allow(clippy::needless_pass_by_value)] // Rows read better without references.
fn check(input: &str, expect: Result<(Decoded, &str, &str), RequestError>) {
    let bytes: Vec<&[u8]> = input.as_bytes().chunks(1).collect();
    for pieces in [vec![input.as_bytes()], bytes] {
        let found = decode(&pieces, 1 << 20);
        let expect = expect.clone().map(|(decoded, body, rest)| (decoded, body.into(), rest.into()));
        assert_eq!(found, expect, "{input:?}");
    }
}

#[test]
fn chunks_become_data_and_the_next_request_stays() {
    check("0\r\n\r\n", Ok((Decoded::Done, "", "")));
    check("5\r\nhello\r\n0\r\n\r\nGET", Ok((Decoded::Done, "hello", "GET")));
    check("5\r\nhello\r\nA\r\n, chunked!\r\n000\r\n\r\n", Ok((Decoded::Done, "hello, chunked!", "")));
    check("0000000000000001\r\na\r\n0\r\n\r\n", Ok((Decoded::Done, "a", "")));
    check("5\r\nhel", Ok((Decoded::NeedMore, "hel", "")));
    check("5\r\nhello\r\n0\r\n", Ok((Decoded::NeedMore, "hello", "")));
    check("5\r\nhello\r\n0\r\n\r", Ok((Decoded::NeedMore, "hello", "")));
}

#[test]
fn size_is_hexadecimal_digits_and_nothing_else() {
    let refused = |input: &str, byte| check(input, Err(RequestError::ChunkSizeInvalid { byte }));
    refused("\r\n", b'\r');
    refused(";a\r\n", b';');
    refused("g\r\n", b'g');
    refused("0x5\r\n", b'x');
    refused("+5\r\n", b'+');
    refused("-5\r\n", b'-');
    refused("5_0\r\n", b'_');
    refused(" 5\r\n", b' ');
    refused("5 \r\n", b' ');
    refused("5 ;a\r\n", b' ');
    refused("5\n", b'\n');
    refused("5\r5\r\n", b'5');
    refused("00000000000000001\r\n", b'1');
    refused("5\r\nhello\r\n\r\n", b'\r');
}

#[test]
fn data_ends_exactly_where_its_size_says() {
    let refused = |input: &str, byte| check(input, Err(RequestError::ChunkEndInvalid { byte }));
    refused("5\r\nhello!\r\n", b'!');
    refused("5\r\nhello\n", b'\n');
    refused("5\r\nhello\r0", b'0');
    refused("5\r\nhello0\r\n\r\n", b'0');
}

#[test]
fn extensions_follow_their_grammar_and_are_discarded() {
    for good in [";a", ";a=b", "; a = b", ";a;b=c ;d", ";a=\"\"", ";a=\"x;\\\"\\\\ \t\u{e9}\"", ";a=\"b\" ;c"]
    {
        check(&format!("1{good}\r\nx\r\n0{good}\r\n\r\n"), Ok((Decoded::Done, "x", "")));
    }
    let refused = |input: &str, byte| {
        check(&format!("1{input}\r\nx\r\n"), Err(RequestError::ChunkExtensionInvalid { byte }));
    };
    refused(";", b'\r');
    refused(";=a", b'=');
    refused(";a=", b'\r');
    refused(";a b", b'b');
    refused(";a ", b'\r');
    refused(";a=b c", b'c');
    refused(";a=\"b\"c", b'c');
    refused(";a=\"b", b'\r');
    refused(";a=\"b\n\"", b'\n');
    refused(";a=\"\\\r", b'\r');
    refused(";a\n", b'\n');
    refused(";a\0", 0);
    refused(";a=\x7f", 0x7f);
    check("1;a\rb\r\n", Err(RequestError::ChunkSizeInvalid { byte: b'b' }));
}

#[test]
fn trailers_are_checked_and_discarded() {
    check("0\r\na: b\r\nC-d:\r\n\r\nG", Ok((Decoded::Done, "", "G")));
    check("0\r\ncontent-length: 5\r\n\r\n", Ok((Decoded::Done, "", "")));
    let refused = |input: &str, byte| check(input, Err(RequestError::TrailerInvalid { byte }));
    refused("0\r\n\n", b'\n');
    refused("0\r\na\r\n\r\n", b'\r');
    refused("0\r\n:a\r\n\r\n", b':');
    refused("0\r\na : b\r\n\r\n", b' ');
    refused("0\r\na: b\r\n c\r\n\r\n", b' ');
    refused("0\r\na_b: c\r\n\r\n", b'_');
    refused("0\r\na: b\n\r\n", b'\n');
    refused("0\r\na: b\rc\r\n\r\n", b'c');
    refused("0\r\na: \0\r\n\r\n", 0);
    refused("0\r\n\rG", b'G');
}

#[test]
fn extensions_and_trailers_have_a_limit_over_the_whole_body() {
    let limits = Limits::default();
    let long = "x".repeat(limits.chunk_extension_bytes_max / 2);
    let error = RequestError::ChunkExtensionsTooLarge { limit: limits.chunk_extension_bytes_max };
    check(&format!("1;{long}\r\na\r\n1;{long}\r\na\r\n"), Err(error));
    let error = RequestError::TrailerTooLarge { limit: limits.trailer_bytes_max };
    check(&format!("0\r\na: {long}\r\n\r\n"), Err(error));
}

#[test]
fn a_body_over_its_limit_is_refused_at_the_size_line() {
    let check = |input: &str, bytes, limit| {
        let found = decode(&[input.as_bytes()], limit).unwrap_err();
        assert_eq!(found, RequestError::BodyTooLarge { bytes, limit }, "{input:?}");
    };
    check("6\r\n", 6, 5);
    check("5\r\nhello\r\n1\r\n", 6, 5);
    check("ffffffffffffffff\r\n", u64::MAX, 5);
    check("1\r\na\r\nffffffffffffffff\r\n", u64::MAX, 5);
    assert!(decode(&[b"5\r\nhello\r\n0\r\n\r\n"], 5).is_ok());
}

#[test]
fn a_long_run_of_tiny_chunks_is_refused() {
    let run = |chunks| decode(&["1\r\nx\r\n".repeat(chunks).as_bytes()], u64::MAX);
    assert!(run(16_000).is_ok());
    assert!(matches!(run(17_000), Err(RequestError::ChunkOverhead { .. })));
    let padded = "0000000000000001\r\nx\r\n".repeat(1_100);
    assert!(matches!(decode(&[padded.as_bytes()], u64::MAX), Err(RequestError::ChunkOverhead { .. })));
}

#[test]
fn a_fault_ends_the_decoding_without_a_resync() {
    let mut decoder = ChunkedDecoder::new(&Limits::default());
    let (mut input, mut body) = (BytesMut::from("1\r\naXX"), BytesMut::new());
    let error = decoder.decode(&mut input, &mut body, 10).unwrap_err();
    input = BytesMut::from("\r\n0\r\n\r\n");
    assert_eq!(decoder.decode(&mut input, &mut body, 10), Err(error));
    assert_eq!(body, "a");
}

#[test]
fn chunks_are_written_with_the_fewest_digits() {
    let check = |bytes: usize, expect: &str| {
        let mut out = Vec::new();
        write_chunk(&mut out, &vec![b'x'; bytes]);
        let size = out.split(|&byte| byte == b'\r').next().unwrap_or_default();
        assert_eq!(std::str::from_utf8(size).unwrap(), expect);
    };
    check(0, "");
    check(1, "1");
    check(15, "f");
    check(16, "10");
    check(255, "ff");
    check(256, "100");
    check(65_536, "10000");
}
