//! Properties that hold for any input: no panic occurs, the split of the input has no effect, and encoded
//! data decodes to the original.

use bytes::BytesMut;
use proptest::prelude::*;
use tollgate_http::{
    ChunkedDecoder, Decoded, HeadReader, LAST_CHUNK, Limits, RequestError, RequestHead, is_field_name,
    is_field_value, normalise_path, query_pairs, write_chunk, write_target,
};

/// Outcome of reading a head, as far as a caller can see it.
#[derive(Debug, PartialEq)]
enum Outcome {
    Incomplete,
    Refused(std::mem::Discriminant<RequestError>),
    Head(String),
}

fn outcome(read: Result<Option<RequestHead>, RequestError>) -> Outcome {
    match read {
        Ok(None) => Outcome::Incomplete,
        Err(error) => Outcome::Refused(std::mem::discriminant(&error)),
        Ok(Some(head)) => {
            let fields: Vec<_> = head.fields().collect();
            let flags = (head.is_persistent(), head.expects_continue(), head.bytes_len());
            Outcome::Head(format!("{head:?} {:?} {:?} {flags:?} {fields:?}", head.target(), head.host()))
        }
    }
}

/// Reads `input` in pieces that end at `cuts`. Also returns the bytes that remain in the buffer after a head.
fn read(input: &[u8], cuts: &[usize], limits: &Limits) -> (Outcome, Option<BytesMut>) {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (input.len() + 1)).chain([input.len()]).collect();
    cuts.sort_unstable();
    let (mut reader, mut buffer, mut start) = (HeadReader::default(), BytesMut::new(), 0);
    for cut in cuts {
        buffer.extend_from_slice(&input[start..cut]);
        start = cut;
        match outcome(reader.read(&mut buffer, limits)) {
            Outcome::Incomplete => {}
            Outcome::Head(head) => {
                buffer.extend_from_slice(&input[start..]);
                return (Outcome::Head(head), Some(buffer));
            }
            refused => return (refused, None),
        }
    }
    (Outcome::Incomplete, None)
}

fn decode(input: &[u8], cuts: &[usize]) -> (Result<Decoded, RequestError>, BytesMut) {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (input.len() + 1)).chain([input.len()]).collect();
    cuts.sort_unstable();
    let mut decoder = ChunkedDecoder::new(&Limits::default());
    let (mut buffer, mut body, mut start) = (BytesMut::new(), BytesMut::new(), 0);
    let mut decoded = Ok(Decoded::NeedMore);
    for cut in cuts {
        buffer.extend_from_slice(&input[start..cut]);
        start = cut;
        decoded = decoder.decode(&mut buffer, &mut body, 1 << 16);
        if decoded.is_err() {
            break;
        }
    }
    (decoded, body)
}

/// Generates pieces of valid and malformed heads, so that a random sequence of pieces resembles a real head.
fn head_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "GET ",
        "POST ",
        "/a?b ",
        "http://a/ ",
        "* ",
        "HTTP/1.1\r\n",
        "HTTP/1.0\r\n",
        "Host: a\r\n",
        "host: [::1]\r\n",
        "Content-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Connection: close\r\n",
        "Expect: 100-continue\r\n",
        "Upgrade: x\r\n",
        "\r\n",
        "\n",
        "\r",
        " ",
        ":",
        "a: b\r\n",
        "a_b: c\r\n",
        "\0",
        "\t",
        "x",
    ]);
    let pieces = prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat().into_bytes());
    let sound = "(GET|PUT|OPTIONS) /[a-z]{0,9}(\\?[a-z=&]{0,9})? HTTP/1\\.[01]\r\nHost: [a-z]{1,9}\r\n([A-Za-z-]{1,12}: [ -~]{0,20}\r\n){0,6}\r\n[ -~]{0,9}";
    prop_oneof![pieces, sound.prop_map(String::into_bytes), prop::collection::vec(any::<u8>(), 0..200)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1024) })]

    #[test]
    fn a_head_reads_the_same_however_it_is_cut(
        input in head_like(),
        cuts in prop::collection::vec(any::<usize>(), 0..8),
    ) {
        // The small limits make the reader return the errors for exceeded limits.
        let small = Limits { head_bytes_max: 60, target_bytes_max: 8, fields_max: 3, ..Limits::default() };
        for limits in [Limits::default(), small] {
            let every_byte: Vec<usize> = (0..input.len()).collect();
            let whole = read(&input, &[], &limits);
            prop_assert_eq!(&read(&input, &cuts, &limits), &whole);
            prop_assert_eq!(&read(&input, &every_byte, &limits), &whole);
        }
    }

    #[test]
    fn chunks_decode_to_what_was_encoded(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..600), 0..8),
        cuts in prop::collection::vec(any::<usize>(), 0..8),
    ) {
        let mut encoded = Vec::new();
        pieces.iter().for_each(|piece| write_chunk(&mut encoded, piece));
        encoded.extend_from_slice(LAST_CHUNK);
        let (decoded, body) = decode(&encoded, &cuts);
        prop_assert_eq!(decoded, Ok(Decoded::Done));
        prop_assert_eq!(body, pieces.concat());
    }

    #[test]
    fn chunked_bytes_decode_the_same_however_they_are_cut(
        input in "([0-9a-f]{1,2}|5\r\nhello|;a|=|\"b\"|\r\n|\r|\n|0\r\n|a: b\r\n|x){0,12}",
        cuts in prop::collection::vec(any::<usize>(), 0..8),
    ) {
        prop_assert_eq!(decode(input.as_bytes(), &cuts), decode(input.as_bytes(), &[]));
    }

    #[test]
    fn no_bytes_panic(input in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&input, &[], &Limits::default());
        let _ = decode(&input, &[]);
        let text = String::from_utf8_lossy(&input);
        let _ = normalise_path(&text);
        query_pairs(&input).for_each(drop);
        let _ = (is_field_name(&input), is_field_value(&input));
        let _ = tollgate_http::parse_http_date(&input);
    }

    #[test]
    fn a_normal_path_stays_below_the_root(raw in "(/|[.]|%2e|%2F|%00|a|%c3%a9|%|\\\\){0,10}") {
        if let Ok(path) = normalise_path(&format!("/{raw}")) {
            prop_assert!(path.starts_with('/') && !path.contains(['\0', '\\']));
            prop_assert!(path.split('/').all(|segment| segment != "." && segment != ".."));
        }
    }

    #[test]
    fn a_rewritten_target_is_ascii_and_means_the_same(raw in "\\PC{0,30}") {
        let mut out = Vec::new();
        write_target(&mut out, &raw);
        prop_assert!(out.iter().all(u8::is_ascii_graphic));
        let once: Vec<_> = query_pairs(raw.as_bytes()).map(|(a, b)| (a.into_owned(), b.into_owned())).collect();
        let text = String::from_utf8(out).unwrap_or_default();
        let twice: Vec<_> = query_pairs(text.as_bytes()).map(|(a, b)| (a.into_owned(), b.into_owned())).collect();
        prop_assert_eq!(once, twice);
    }
}
