//! Decodes Zstandard (RFC 8878).

use bytes::BytesMut;
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use super::decode::{Decode, Made, Room, Step};

/// Maximum bytes of a block (RFC 8878 section 3.1.1.2.4).
const BLOCK_BYTES_MAX: u64 = 128 << 10;
/// Binary logarithm of the maximum window: 8 MiB (RFC 9659).
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// Decodes Zstandard data, which is a sequence of frames.
pub(super) struct Zstd {
    context: DCtx<'static>,
    is_between_frames: bool,
    room: Room,
    frames: u64,
}

impl Zstd {
    pub(super) fn new() -> Self {
        let mut context = DCtx::create();
        let bound = context.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX));
        assert!(bound.is_ok(), "zstd takes a window of {ZSTD_WINDOW_LOG_MAX} bits");
        Self { context, is_between_frames: true, room: Room::new(), frames: 0 }
    }
}

impl Decode for Zstd {
    fn step(&mut self, input: &mut BytesMut, content: &mut BytesMut) -> Result<Step, &'static str> {
        if input.is_empty() && self.is_between_frames {
            return Ok(Step::NeedMore);
        }
        let Self { context, room, .. } = self;
        let (made, step) = room.step(input, content, |input, output| {
            let (mut from, mut to) = (InBuffer::around(input), OutBuffer::around(output));
            let expected = context.decompress_stream(&mut to, &mut from);
            let end = expected.map_err(zstd_safe::get_error_name)?;
            Ok(Made { used: from.pos(), bytes: to.pos(), end })
        })?;
        self.is_between_frames = made.end == 0;
        self.frames += u64::from(self.is_between_frames);
        if made.used == 0 && made.bytes == 0 && !input.is_empty() {
            return Err("the decoder makes no progress");
        }
        Ok(step)
    }

    fn is_complete(&self) -> bool {
        self.is_between_frames
    }

    fn parts(&self) -> u64 {
        self.frames
    }

    fn block_bytes_max(&self) -> u64 {
        BLOCK_BYTES_MAX
    }

    fn memory_bytes(&self) -> usize {
        self.context.sizeof()
    }
}
