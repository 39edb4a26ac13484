//! Decodes the content codings of requests (RFC 9110 section 8.4) while the content arrives: gzip (RFC 1952),
//! deflate (RFC 1950), br (RFC 7932) and zstd (RFC 8878).
//!
//! A step decodes at most `STEP_BYTES` of content, so a few bytes that expand to gigabytes use little memory.
//! `Decoding` counts and bounds the total. Each coding has a bounded state: 32 KiB of history for gzip and
//! deflate, a window of 16 MiB for br, and the window of 8 MiB that RFC 9659 allows for zstd.

mod brotli;
mod content_coding;
mod decode;
mod decoding;
mod deflate;
mod gzip;
mod whole;
mod zstd;

pub(super) use content_coding::ContentCoding;
pub(super) use decode::Step;
pub(super) use decoding::Decoding;
pub(crate) use whole::decode_whole;
