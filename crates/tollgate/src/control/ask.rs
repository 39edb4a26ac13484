//! One question, one answer.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use tollgate_log::Watermark;

use super::{RELOAD, Reloaded, STATUS, TIMEOUT, WATERMARK, read_watermark, through_folder};

/// How long a reload may take: longer than the server lets it.
const RELOAD_TIMEOUT: Duration = Duration::from_mins(3);
/// An id, a blank, a number and a line end.
const WATERMARK_BYTES_MAX: u64 = 64;
const LINES_BYTES_MAX: u64 = 1 << 20;

/// Asks the server of a log folder how far its log is synced. None: no server answers.
pub(crate) fn ask(dir: &Path) -> Option<Watermark> {
    read_watermark(&exchange(dir, WATERMARK, TIMEOUT, WATERMARK_BYTES_MAX)?)
}

/// Asks the server of a log folder how it does: a line of JSON. None: no server answers.
pub(crate) fn ask_status(dir: &Path) -> Option<String> {
    // The empty line tells an end from a connection that was closed unheard.
    exchange(dir, STATUS, TIMEOUT, LINES_BYTES_MAX)?.strip_suffix('\n').map(str::to_owned)
}

/// Has the server of a log folder reload, and waits until it did or refused to. None: no server answers.
pub(crate) fn ask_reload(dir: &Path) -> Option<Reloaded> {
    let answer = exchange(dir, RELOAD, RELOAD_TIMEOUT, LINES_BYTES_MAX)?;
    let (code, text) = answer.split_once('\n')?;
    Some(Reloaded { code: code.parse().ok()?, text: text.to_owned() })
}

pub(super) fn exchange(dir: &Path, request: &str, timeout: Duration, bytes_max: u64) -> Option<String> {
    let mut stream = through_folder(dir, |path| UnixStream::connect(path)).ok()?;
    stream.set_write_timeout(Some(TIMEOUT)).ok()?;
    stream.set_read_timeout(Some(timeout)).ok()?;
    stream.write_all(format!("{request}\n").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.take(bytes_max).read_to_string(&mut answer).ok()?;
    Some(answer)
}
