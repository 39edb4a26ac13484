//! Converts Luau values to JSON text and back (RFC 8259), without an intermediate form.
//!
//! - Numbers: a number that is whole and within 64 bits is written as an integer (`1.0` is `1`, `-0` is `0`).
//!   Any other number is written in the shortest form that decodes to the same number. Integers beyond 2^53
//!   become 64-bit integers of Luau, and are written exactly. Integers beyond 64 bits become the nearest
//!   double. NaN and infinities are errors.
//! - Text: U+FFFD replaces bytes that are not UTF-8 and half surrogates, in both directions.
//! - Tables: keys 1..n make an array. Text keys make an object, whose keys are written in the order of their
//!   bytes. An empty table is `{}` unless `json.array` marked it. Mixed keys, missing indexes and keys of
//!   other types are errors that name the path.
//! - `null` is the value `json.null`. If a text repeats a key, the last value counts.
//! - The depth is at most 128, and the output has at most `reply_bytes_max` bytes. A table that contains
//!   itself therefore ends in an error. Both directions check the CPU budget. Decoding also checks the memory
//!   limit.

mod decode;
mod encode;

pub(crate) use decode::answer;
pub(crate) use encode::{Encoder, Scratch};
