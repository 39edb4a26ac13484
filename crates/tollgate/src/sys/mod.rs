//! Calls that need `unsafe`: functions of the C library that have no safe wrapper.

#![allow(unsafe_code)]

pub(crate) mod allocator;
pub(crate) mod environment;
