//! Direct work on the VM's own stack, without the handles of mlua.
//!
//! A handle uses a slot in a table of references, and often a protected call. For the few values of a reply,
//! handles cost more than the script itself.
//!
//! All unsafe code of the crate is here. `--example call_speed` measured these times:
//!
//! | call | with handles | on the stack |
//! | --- | --- | --- |
//! | `return 204` | 0.40 us | 0.24 us |
//! | with JSON and a record | 1.27 us | 0.62 us |
//! | with `req.query` in addition | 1.97 us | 1.10 us |
//! | a turn of an empty loop, which has an interrupt | 13 ns | 7 ns |
#![allow(unsafe_code)]

pub(crate) mod coroutine;
pub(crate) mod interrupt;
pub(crate) mod library_guards;
pub(crate) mod operation;
pub(crate) mod raw;
pub(crate) mod stack;
