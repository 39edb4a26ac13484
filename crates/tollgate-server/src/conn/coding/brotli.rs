//! Decodes Brotli (RFC 7932). The window is at most 16 MiB. The extension to larger windows is off.

use std::cell::Cell;
use std::rc::Rc;

use brotli_decompressor::{
    Allocator, BrotliDecompressStream, BrotliResult, BrotliState, SliceWrapper, SliceWrapperMut,
};
use bytes::BytesMut;

use super::decode::{Decode, Made, Room, Step};

/// Assumed maximum bytes of the codes of a block, which precede its content (RFC 7932 section 9.2).
const CODES_BYTES_MAX: u64 = 128 << 10;

/// Decodes one Brotli stream.
pub(super) struct Brotli {
    state: Box<BrotliState<Counted, Counted, Counted>>,
    held: Counted,
    room: Room,
    has_ended: bool,
}

impl Brotli {
    pub(super) fn new() -> Self {
        let held = Counted::default();
        let state = BrotliState::new_strict(held.clone(), held.clone(), held.clone());
        Self { state: Box::new(state), held, room: Room::new(), has_ended: false }
    }
}

impl Decode for Brotli {
    fn step(&mut self, input: &mut BytesMut, content: &mut BytesMut) -> Result<Step, &'static str> {
        match (self.has_ended, input.is_empty()) {
            (true, true) => return Ok(Step::NeedMore),
            (true, false) => return Err("it has bytes after its end"),
            (false, _) => {}
        }
        let Self { state, room, .. } = self;
        let (made, step) = room.step(input, content, |input, output| {
            let (mut used, mut bytes) = (0, 0);
            let (mut unused, mut free) = (input.len(), output.len());
            let end = BrotliDecompressStream(
                &mut unused,
                &mut used,
                input,
                &mut free,
                &mut bytes,
                output,
                &mut 0,
                state,
            );
            Ok(Made { used, bytes, end })
        })?;
        match made.end {
            BrotliResult::ResultFailure => Err("its data is corrupt"),
            BrotliResult::ResultSuccess => {
                self.has_ended = true;
                Ok(Step::Again)
            }
            BrotliResult::NeedsMoreOutput => Ok(Step::Again),
            BrotliResult::NeedsMoreInput if made.used == 0 && made.bytes == 0 && !input.is_empty() => {
                Err("the decoder makes no progress")
            }
            BrotliResult::NeedsMoreInput => Ok(step),
        }
    }

    fn is_complete(&self) -> bool {
        self.has_ended
    }

    /// A stream has no parts that begin anew.
    fn parts(&self) -> u64 {
        0
    }

    fn block_bytes_max(&self) -> u64 {
        CODES_BYTES_MAX
    }

    fn memory_bytes(&self) -> usize {
        size_of_val(&*self.state) + self.held.bytes.get()
    }
}

/// Allocates the window and the codes, and counts their bytes.
#[derive(Debug, Clone, Default)]
struct Counted {
    bytes: Rc<Cell<usize>>,
}

impl<T: Clone + Default> Allocator<T> for Counted {
    type AllocatedMemory = Held<T>;

    fn alloc_cell(&mut self, len: usize) -> Held<T> {
        let held = Held(vec![T::default(); len].into());
        self.bytes.set(self.bytes.get() + size_of_val(&*held.0));
        held
    }

    fn free_cell(&mut self, held: Held<T>) {
        self.bytes.set(self.bytes.get().saturating_sub(size_of_val(&*held.0)));
    }
}

/// Memory of the decoder.
struct Held<T>(Box<[T]>);

impl<T> Default for Held<T> {
    fn default() -> Self {
        Self(Box::default())
    }
}

impl<T> SliceWrapper<T> for Held<T> {
    fn slice(&self) -> &[T] {
        &self.0
    }
}

impl<T> SliceWrapperMut<T> for Held<T> {
    fn slice_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}
