//! Compression: selects content that is worth compressing, and compresses it. The same content always gives
//! the same bytes.

use std::io::{self, Write};
use std::ops::RangeInclusive;

use flate2::Compression;
use flate2::write::GzEncoder;

/// Sizes of content that is compressed, in bytes. Shorter content fits into a packet or two. Compression of
/// longer content would occupy a thread for too long.
pub(crate) const SOURCE_BYTES: RangeInclusive<u64> = 1 << 10..=4 << 20;
/// Compression levels. A higher level costs much more time and saves few bytes.
const ZSTD_LEVEL: i32 = 9;
const GZIP_LEVEL: u32 = 6;

/// A content coding that the server can create.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Coding {
    Zstd,
    Gzip,
}

impl Coding {
    /// All codings, best first.
    pub(crate) const ALL: [Self; 2] = [Self::Zstd, Self::Gzip];

    /// Returns the name in `Content-Encoding`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// Compresses content. `None` if compression saves less than an eighth, because that would not justify
    /// another representation.
    pub(crate) fn compress(self, content: &[u8]) -> Option<Vec<u8>> {
        let compressed = match self {
            Self::Zstd => zstd(content),
            Self::Gzip => gzip(content).ok(),
        };
        compressed.filter(|compressed| compressed.len() <= content.len() / 8 * 7)
    }
}

/// Compresses by RFC 8878. The window is never larger than the content, so it stays within the 8 MiB of RFC
/// 9659.
fn zstd(content: &[u8]) -> Option<Vec<u8>> {
    let mut compressed = vec![0; zstd_safe::compress_bound(content.len())];
    let bytes = zstd_safe::compress(&mut compressed[..], content, ZSTD_LEVEL).ok()?;
    compressed.truncate(bytes);
    compressed.shrink_to_fit();
    Some(compressed)
}

/// Compresses by RFC 1952. The header has neither a file name nor a time.
fn gzip(content: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(GZIP_LEVEL));
    encoder.write_all(content)?;
    let mut compressed = encoder.finish()?;
    compressed.shrink_to_fit();
    Ok(compressed)
}

/// Returns whether content of this type is worth compressing: text, textual formats of other families, and a
/// few uncompressed formats.
pub(crate) fn is_compressible(content_type: &str) -> bool {
    let media = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let Some((family, kind)) = media.split_once('/') else { return false };
    let (_, suffix) = kind.rsplit_once('+').unwrap_or(("", ""));
    match family {
        "text" => true,
        _ if matches!(suffix, "json" | "xml" | "yaml" | "text") => true,
        "application" => UNPACKED.contains(&kind),
        "font" => matches!(kind, "ttf" | "otf" | "collection"),
        "image" => matches!(kind, "bmp" | "x-icon" | "vnd.microsoft.icon"),
        _ => false,
    }
}

const UNPACKED: [&str; 16] = [
    "dart",
    "ecmascript",
    "geo+json-seq",
    "graphql",
    "javascript",
    "json",
    "json-seq",
    "json5",
    "ndjson",
    "rtf",
    "sql",
    "toml",
    "wasm",
    "x-ndjson",
    "xml",
    "yaml",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_compressed_and_what_is_packed_is_not() {
        for kind in [
            "text/html; charset=utf-8",
            "text/css",
            "text/javascript",
            "TEXT/plain",
            "application/json",
            "application/manifest+json",
            "application/javascript",
            "application/xml",
            "application/atom+xml",
            "application/wasm",
            "image/svg+xml",
            "image/x-icon",
            "font/ttf",
            "font/otf",
            "application/yaml",
            "application/toml",
            "application/sql",
        ] {
            assert!(is_compressible(kind), "{kind}");
        }
        for kind in [
            "image/png",
            "image/webp",
            "video/mp4",
            "audio/mpeg",
            "font/woff",
            "font/woff2",
            "application/zip",
            "application/gzip",
            "application/pdf",
            "application/octet-stream",
            "",
            "text",
        ] {
            assert!(!is_compressible(kind), "{kind}");
        }
    }

    #[test]
    fn a_content_that_does_not_become_shorter_is_left_alone() {
        let mut state = 1_u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let noise: Vec<u8> = (0..100_000).map(|_| noise()).collect();
        for coding in Coding::ALL {
            assert_eq!(coding.compress(&noise), None, "{coding:?}");
            let compressed = coding.compress(&[b'a'; 100_000]).unwrap();
            assert!(compressed.len() < 1000);
            assert_eq!(coding.compress(&[b'a'; 100_000]), Some(compressed));
        }
    }
}
