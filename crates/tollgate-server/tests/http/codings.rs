//! Tests of content codings of requests, and of the media types that `collect` accepts.

use std::io::Write;

use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use flate2::{Compression, Crc};
use tollgate_log::Level;

use crate::peer::Reply;
use crate::site::{Running, Site};

fn site() -> Running {
    Site::new().handler("/", "return { body = req:body() }").start()
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    let mut out = vec![0; zstd_safe::compress_bound(text.len())];
    let bytes = zstd_safe::compress(&mut out[..], text, 3).unwrap();
    out.truncate(bytes);
    out
}

fn zlib(text: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// Returns DEFLATE data without the zlib format.
fn raw_deflate(text: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// Returns a Brotli stream whose blocks are not compressed (RFC 7932 section 9.2), with a window of 64 KiB.
fn brotli_stored(text: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    for (index, part) in text.chunks(1 << 16).enumerate() {
        // One bit for the window, only in the first block. Then three zero bits, 16 bits of length, and the
        // bit of a block that is not compressed.
        let length = part.len() as u32 - 1;
        let shift = u32::from(index == 0);
        let header = (length << 3 | 1 << 19) << shift;
        stream.extend(&header.to_le_bytes()[..3]);
        stream.extend(part);
    }
    // The bits of the last block, which is empty.
    stream.push(if text.is_empty() { 0b110 } else { 0b11 });
    stream
}

/// The content of [`brotli_of_digits`] and [`brotli_of_zeros`] was compressed by the encoder of Node.js.
const DIGITS: &str = "0123456789 ";

/// Returns a Brotli stream of 50,000 times [`DIGITS`].
fn brotli_of_digits() -> Vec<u8> {
    bytes_of_hex("5b6f64885f5438463ac07ac68111401f5c0894533d7b0f")
}

/// Returns a Brotli stream of 64 MiB of zeros.
fn brotli_of_zeros() -> Vec<u8> {
    bytes_of_hex(
        "cbffff3ff82700e2b14020f7fe8fffff7ff04f00c4611180eefd1fffffffe09f0088c30200ddfb3ffeffffc13f0110870500baf77ffcffff837f02200e0b0074effff8ffff07ff04401c1600e8defff1ffff0ffe0980382c00d0bdffcbffff3ffc1300715800a07bff07",
    )
}

fn bytes_of_hex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.bytes().map(|byte| char::from(byte).to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn post(server: &Running, fields: &str, body: &[u8]) -> Reply {
    let mut peer = server.connect();
    peer.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: {}\r\n\r\n", body.len()));
    peer.send(body);
    peer.reply(false)
}

fn post_coded(server: &Running, coding: &str, body: &[u8]) -> (u16, String) {
    let reply = post(server, &format!("Content-Encoding: {coding}\r\n"), body);
    (reply.status, reply.content)
}

#[test]
fn every_coding_is_decoded_for_a_script() {
    let server = site();
    let text = DIGITS.repeat(50_000);
    for (coding, body) in [
        ("gzip", gzip(text.as_bytes())),
        ("x-gzip", gzip(text.as_bytes())),
        (" , GZip ,", gzip(text.as_bytes())),
        ("zstd", zstd(text.as_bytes())),
        ("deflate", zlib(text.as_bytes())),
        ("Deflate", raw_deflate(text.as_bytes())),
        ("br", brotli_of_digits()),
        ("br", brotli_stored(text.as_bytes())),
        ("Identity", text.clone().into()),
    ] {
        assert_eq!(post_coded(&server, coding, &body), (200, text.clone()), "{coding}");
    }
}

#[test]
fn a_content_that_hardly_shrinks_is_decoded_although_its_blocks_have_to_come_whole() {
    let server = site();
    let mut state = 1_u64;
    let text = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b' ' + (state >> 58) as u8)
    });
    let text: String = text.take(700_000).collect();
    for (coding, body) in [
        ("gzip", gzip(text.as_bytes())),
        ("zstd", zstd(text.as_bytes())),
        ("deflate", zlib(text.as_bytes())),
        ("br", brotli_stored(text.as_bytes())),
    ] {
        assert!(body.len() > text.len() / 2, "{coding}");
        assert!(post_coded(&server, coding, &body) == (200, text.clone()), "{coding}");
    }
}

#[test]
fn members_and_frames_may_follow_each_other_and_come_byte_by_byte() {
    let server = site();
    for (coding, parts) in [
        ("gzip", [gzip(b"one "), gzip(b""), gzip(b"two")]),
        ("zstd", [zstd(b"one "), zstd(b""), zstd(b"two")]),
    ] {
        let body = parts.concat();
        let mut peer = server.connect();
        peer.send(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: {coding}\r\nTransfer-Encoding: chunked\r\n\r\n"
        ));
        for byte in body {
            peer.send([b"1\r\n", &[byte][..], b"\r\n"].concat());
        }
        peer.send("0\r\n\r\n");
        peer.expect("200", "one two");
    }
}

/// Returns a gzip member with every optional field.
fn gzip_with_all_fields(text: &[u8]) -> Vec<u8> {
    let header = [&[0x1f, 0x8b, 8, 0b1_1110, 0, 0, 0, 0, 0, 255][..], b"\x03\0abc", b"name\0", b"comment\0"];
    let header = header.concat();
    let mut checksum = Crc::new();
    checksum.update(&header);
    [&header, &checksum.sum().to_le_bytes()[..2], &gzip(text)[10..]].concat()
}

#[test]
fn gzip_with_every_optional_field_is_decoded() {
    let body = gzip_with_all_fields(b"hello").repeat(2);
    assert_eq!(post_coded(&site(), "gzip", &body), (200, "hellohello".to_owned()));
}

#[test]
fn a_gzip_header_that_differs_from_its_checksum_is_400() {
    let server = site();
    let sound = gzip_with_all_fields(b"hello");
    let header_bytes = sound.len() - (gzip(b"hello").len() - 10);
    // The loop changes the bytes of the time, the system, the optional fields and the checksum itself. A
    // change of any other byte makes the header invalid before its checksum is read.
    for at in (4..10).chain(12..header_bytes) {
        let mut flipped = sound.clone();
        flipped[at] ^= 0x40;
        assert_eq!(post_coded(&server, "gzip", &flipped).0, 400, "byte {at}");
    }
}

#[test]
fn content_that_is_not_what_its_coding_says_is_400() {
    let server = site();
    for (coding, whole) in [
        ("gzip", gzip(b"hello")),
        ("zstd", zstd(b"hello")),
        ("deflate", zlib(b"hello")),
        ("deflate", raw_deflate(b"hello")),
        ("br", brotli_stored(b"hello")),
        ("br", bytes_of_hex("0b028068656c6c6f03")),
    ] {
        for cut in 1..whole.len() {
            assert_eq!(post_coded(&server, coding, &whole[..cut]).0, 400, "{coding} cut at {cut}");
        }
        let garbage = [&whole[..], b"garbage"].concat();
        assert_eq!(post_coded(&server, coding, &garbage).0, 400, "{coding} and garbage");
        assert_eq!(post_coded(&server, coding, b"plain text, no coding").0, 400, "{coding}");
    }
    for (coding, mut flipped, checksum_bytes) in [("gzip", gzip(b"hello"), 8), ("deflate", zlib(b"hello"), 4)]
    {
        let checksum = flipped.len() - checksum_bytes;
        flipped[checksum] ^= 1;
        assert_eq!(post_coded(&server, coding, &flipped).0, 400, "{coding}");
    }
}

#[test]
fn no_content_is_no_content_in_any_coding() {
    let server = site();
    for coding in ["gzip", "deflate", "br", "zstd", "br, gzip"] {
        assert_eq!(post_coded(&server, coding, b""), (200, String::new()), "{coding}");
    }
}

#[test]
fn several_codings_are_decoded_from_the_last_to_the_first() {
    let server = site();
    let text = DIGITS.repeat(50_000);
    let coded_twice = gzip(&zstd(text.as_bytes()));
    for (coding, body) in [
        ("zstd, gzip", coded_twice.clone()),
        ("zstd\r\nContent-Encoding: gzip", coded_twice.clone()),
        ("zstd,identity,gzip", coded_twice.clone()),
        ("deflate, br", brotli_stored(&zlib(text.as_bytes()))),
        ("zstd, gzip, deflate", zlib(&coded_twice)),
    ] {
        assert_eq!(post_coded(&server, coding, &body), (200, text.clone()), "{coding}");
    }
    assert_eq!(post_coded(&server, "gzip, zstd", &coded_twice).0, 400);
    for cut in [1, coded_twice.len() / 2, coded_twice.len() - 1] {
        assert_eq!(post_coded(&server, "zstd, gzip", &coded_twice[..cut]).0, 400, "cut at {cut}");
        let inner_cut = gzip(&zstd(text.as_bytes())[..cut.min(20)]);
        assert_eq!(post_coded(&server, "zstd, gzip", &inner_cut).0, 400, "inner cut at {cut}");
    }
}

#[test]
fn codings_that_are_not_known_or_too_many_are_415_and_say_what_is_taken() {
    let server = site();
    for coding in ["compress", "exi", "gzip, compress", "gzip, gzip, gzip, gzip"] {
        let reply = post(&server, &format!("Content-Encoding: {coding}\r\n"), b"hello");
        let accepted = Some("gzip, deflate, br, zstd");
        assert_eq!((reply.status, reply.field("accept-encoding")), (415, accepted), "{coding}");
        assert_eq!(reply.field("connection"), None, "{coding}");
    }
}

#[test]
fn a_bomb_ends_at_the_limit_of_the_route() {
    let server = site();
    let zeros = vec![0; 1 << 20];
    let exact = "0".repeat(1 << 20);
    assert_eq!(post_coded(&server, "gzip", &gzip(exact.as_bytes())), (200, exact));
    for (coding, part) in [("gzip", gzip(&zeros)), ("zstd", zstd(&zeros))] {
        let bomb = part.repeat(200);
        assert!(bomb.len() < 1 << 20);
        assert_eq!(post_coded(&server, coding, &bomb).0, 413, "{coding}");
    }
    for (coding, bomb) in [
        ("deflate", zlib(&zeros.repeat(2))),
        ("deflate", raw_deflate(&zeros.repeat(2))),
        ("br", brotli_of_zeros()),
        ("gzip, gzip", gzip(&gzip(&zeros.repeat(8)))),
    ] {
        assert_eq!(post_coded(&server, coding, &bomb).0, 413, "{coding}");
    }
}

#[test]
fn content_that_expands_beyond_reason_is_413_below_the_limit_of_the_route_too() {
    let server = Site::new()
        .handler("/", "return 'taken'")
        .tune(|options| options.routes[0].body_bytes_max = 1 << 30)
        .start();
    let (status, text) = post_coded(&server, "zstd", &zstd(&vec![0; 64 << 20]));
    assert_eq!((status, text.as_str()), (413, "decoded content is too large for its encoded content\n"));
    let refused = (413, "decoded content is too large for its encoded content\n".to_owned());
    assert_eq!(post_coded(&server, "br", &brotli_of_zeros()), refused);
    let coded = gzip(&vec![0; 64 << 20]);
    assert_eq!(post_coded(&server, "gzip", &coded).0, 200);
    // Each of the two codings keeps its bound, but both together do not.
    assert_eq!(post_coded(&server, "gzip, gzip", &gzip(&coded)), refused);
}

/// Returns a gzip file of one member without content, with this number of blocks with fixed codes (RFC 1951
/// section 3.2.6).
fn gzip_of_empty_blocks(blocks: usize) -> Vec<u8> {
    // The header of a block is 010, or 011 for the last block. Seven zeros end the data of a block.
    let mut data = vec![0; (blocks * 10).div_ceil(8)];
    let mut set = |bit: usize| data[bit / 8] |= 1 << (bit % 8);
    (0..blocks).for_each(|block| set(block * 10 + 1));
    set((blocks - 1) * 10);
    [&gzip(b"")[..10], &data, &[0; 8]].concat()
}

#[test]
fn a_coding_that_takes_more_than_its_share_of_the_content_is_400() {
    let server = site();
    for (coding, body) in [
        ("gzip", gzip(b"").repeat(500)),
        ("zstd", zstd(b"").repeat(500)),
        ("gzip", gzip_of_empty_blocks(10_000)),
    ] {
        assert_eq!(post_coded(&server, coding, &body), (200, String::new()), "{coding}");
    }
    let refused = (400, "content coding has too much overhead for its content\n".to_owned());
    for (coding, body) in [
        ("gzip", gzip(b"").repeat(501)),
        ("zstd", zstd(b"").repeat(501)),
        ("gzip", gzip(b"0123456789").repeat(2000)),
        ("zstd", zstd(b"0123456789").repeat(2000)),
        ("gzip", gzip_of_empty_blocks(20_000)),
    ] {
        assert_eq!(post_coded(&server, coding, &body), refused, "{coding}");
    }
    let line = "0123456789".repeat(2);
    for (coding, part) in [("gzip", gzip(line.as_bytes())), ("zstd", zstd(line.as_bytes()))] {
        assert_eq!(post_coded(&server, coding, &part.repeat(5000)), (200, line.repeat(5000)), "{coding}");
    }
}

#[test]
fn a_zstd_window_above_8_mib_is_refused() {
    // The frame has a window descriptor, no size, and one empty block, the last one. Exponent 13 is a window
    // of 8 MiB, and 14 a window of 16 MiB.
    let frame = |exponent: u8| [0x28, 0xb5, 0x2f, 0xfd, 0, exponent << 3, 1, 0, 0];
    let server = site();
    assert_eq!(post_coded(&server, "zstd", &frame(13)).0, 200);
    assert_eq!(post_coded(&server, "zstd", &frame(14)).0, 400);
}

#[test]
fn collected_items_may_be_coded_and_records_see_them_decoded() {
    let server = Site::new()
        .stream("events", Level::Synced, &["n int record.n", "all text body"])
        .collect("/")
        .start();
    let reply =
        post(&server, "Content-Encoding: gzip\r\nContent-Type: application/json\r\n", &gzip(b"{\"n\":1}"));
    assert_eq!((reply.status, reply.content.as_str()), (200, "{\"recorded\":1}\n"));
    assert_eq!(server.records(), ["n=1 all={\"n\":1}"]);
}

#[test]
fn collect_takes_json_lines_text_and_no_type_and_says_so_to_others() {
    let server = Site::new().stream("events", Level::Synced, &["n int record.n"]).collect("/").start();
    for taken in [
        "",
        "Content-Type: application/json\r\n",
        "Content-Type: Application/JSON; charset=utf-8\r\n",
        "Content-Type: application/x-ndjson\r\n",
        "Content-Type: text/plain;charset=UTF-8\r\n",
        "Content-Type: application/cloudevents+json\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
    ] {
        assert_eq!(post(&server, taken, b"{}").status, 200, "{taken}");
    }
    for refused in ["application/xml", "text/html", "multipart/form-data; boundary=x", "json"] {
        let reply = post(&server, &format!("Content-Type: {refused}\r\n"), b"{}");
        let accept = Some("application/json, application/x-ndjson, text/plain");
        assert_eq!((reply.status, reply.field("accept")), (415, accept), "{refused}");
    }
}
