//! JSON in both directions (RFC 8259), directly between bytes and Luau values.
//!
//! - Numbers: a number that is whole and within 64 bits is written as an integer (`1.0` is `1`, `-0` is `0`).
//!   All others are written in the shortest form that reads back the same. Integers beyond 2^53 become 64-bit
//!   integers of Luau, and are written exactly. Integers beyond 64 bits are refused, not rounded. NaN and
//!   infinities are errors.
//! - Tables: keys 1..n make an array. Text keys make an object, whose keys are written in the order of their
//!   bytes. An empty table is `{}` unless `json.array` marked it. Mixed keys, holes and other keys are errors
//!   that name the path.
//! - `null` is the value `json.null`. If a text repeats a key, the last value counts.
//! - Depth is bounded (128), and output by `reply_bytes_max`. A table that contains itself therefore ends in
//!   an error. Both directions check the CPU budget. Decoding also checks the memory limit.

mod decode;
mod encode;

pub(crate) use decode::answer;
pub(crate) use encode::{Encoder, Scratch};
