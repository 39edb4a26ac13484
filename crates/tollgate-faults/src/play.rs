//! Plays the steps of a fault on a connection.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::random::Random;
use crate::socket;
use crate::step::Step;

/// The state of the connection after the steps.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// The connection continues.
    Continue,
    /// The sending half has ended, and no more bytes are sent.
    Close,
    /// The connection must end by RST.
    Reset,
}

/// Maximum number of bytes that are sent before other tasks may run.
const PART_BYTES: usize = 64 << 10;

/// Plays the steps one by one.
///
/// # Errors
/// The peer ended the connection while there were bytes to send.
pub(crate) async fn play(stream: &TcpStream, steps: &[Step]) -> io::Result<Then> {
    for step in steps {
        match step {
            Step::Send(bytes) => socket::send(stream, bytes).await?,
            Step::Drip(bytes, pause) => {
                for (index, byte) in bytes.chunks(1).enumerate() {
                    rest(index as u64, *pause).await;
                    socket::send(stream, byte).await?;
                }
            }
            Step::Repeat(bytes, times, pause) => repeat(stream, bytes, *times, *pause).await?,
            Step::Noise { bytes, seed } => noise(stream, *bytes, *seed).await?,
            Step::Wait(pause) => sleep(*pause).await,
            Step::Hold => {
                socket::drain(stream).await;
                return Ok(Then::Close);
            }
            Step::Freeze => {
                socket::gone(stream).await;
                return Ok(Then::Close);
            }
            Step::HalfClose => socket::finish(stream),
            Step::Close => {
                socket::finish(stream);
                return Ok(Then::Close);
            }
            Step::Reset => return Ok(Then::Reset),
        }
    }
    Ok(Then::Continue)
}

async fn rest(index: u64, pause: Duration) {
    if index > 0 && !pause.is_zero() {
        sleep(pause).await;
    }
}

/// Sends the bytes `times` times. If there is no pause, one call sends many repetitions.
async fn repeat(stream: &TcpStream, bytes: &[u8], times: u64, pause: Duration) -> io::Result<()> {
    if !pause.is_zero() {
        for index in 0..times {
            rest(index, pause).await;
            socket::send(stream, bytes).await?;
        }
        return Ok(());
    }
    let at_once = (PART_BYTES / bytes.len().max(1)).max(1) as u64;
    let part = bytes.repeat(at_once.min(times) as usize);
    let mut left = times;
    while left > 0 {
        let now = left.min(at_once);
        socket::send(stream, &part[..now as usize * bytes.len()]).await?;
        left -= now;
    }
    Ok(())
}

async fn noise(stream: &TcpStream, bytes: u64, seed: u64) -> io::Result<()> {
    let mut random = Random::new(seed);
    let mut part = [0; 4096];
    let mut left = bytes;
    while left > 0 {
        let now = left.min(part.len() as u64) as usize;
        random.fill(&mut part[..now]);
        socket::send(stream, &part[..now]).await?;
        left -= now as u64;
    }
    Ok(())
}
