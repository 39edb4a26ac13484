//! The time of the next order of a name.
//!
//! Times are seconds of the wall clock, because certificates are valid by the wall clock. After a jump of the
//! clock no name is ordered again before a third of the life of its last certificate is over.

use serde::{Deserialize, Serialize};
use tollgate_tls::CertificateFacts;

use crate::exchange::RetryAfter;
use crate::facts::life;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// Pauses after failed orders of a name without a certificate. Let's Encrypt allows five failed checks of a
/// name in an hour.
const FIRST_PAUSES: [u64; 3] = [10, MINUTE, 10 * MINUTE];
/// The pause after a failed renewal. It doubles with each failure.
const PAUSE: u64 = HOUR;
const PAUSE_MAX: u64 = DAY;
/// The longest `Retry-After` that is obeyed. Let's Encrypt asks for up to a week.
const RETRY_AFTER_MAX: u64 = 30 * DAY;
/// Pauses between two questions for the renewal information of a certificate (RFC 9773 section 4.3.2).
const RENEWAL_INFO_PAUSES: std::ops::RangeInclusive<u64> = HOUR..=DAY;

/// What is known about the next order of a name. It is in a file, so that a restart and other machines know
/// it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Due {
    /// The directory of the ACME server that this is about. Another directory begins anew.
    pub(crate) directory: String,
    /// The time of the last certificate from this directory.
    pub(crate) issued_at: Option<u64>,
    /// The URL of the order of this certificate. A kill may leave its order file behind.
    pub(crate) noted: Option<String>,
    /// Number of failed orders since the last certificate.
    pub(crate) failures: u32,
    /// The earliest time of the next order after a failure.
    pub(crate) not_before: Option<u64>,
    /// The reason of the last failure.
    pub(crate) reason: Option<String>,
    /// The renewal window that the ACME server suggests.
    pub(crate) window: Option<Window>,
    /// The time of the next question for this window.
    pub(crate) ask_at: Option<u64>,
    /// Whether a person asked for an order now.
    pub(crate) is_requested: bool,
}

/// A renewal window (RFC 9773 section 4.2), and the time in it that was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Window {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) chosen: u64,
}

impl Due {
    /// Returns what is known about orders at this directory.
    pub(crate) fn at(self, directory: &str) -> Self {
        if self.directory == directory {
            self
        } else {
            Self { directory: directory.to_owned(), ..Self::default() }
        }
    }

    /// Returns the time of the next order. `certificate` is the present one, if it has the name.
    pub(crate) fn next_order(&self, certificate: Option<&CertificateFacts>, now: u64) -> u64 {
        if self.is_requested {
            return now;
        }
        let pause = self.not_before.filter(|until| *until <= now + RETRY_AFTER_MAX).unwrap_or_default();
        let (Some(certificate), Some(issued_at)) = (certificate, self.issued_at) else { return pause };
        let renewal = self.window.map_or_else(|| two_thirds(certificate), |window| window.chosen);
        // The clock jumped, if the last certificate is from the future. Then only its own validity counts.
        let rest = if issued_at <= now { issued_at.saturating_add(life(certificate) / 3) } else { 0 };
        renewal.max(rest).max(pause)
    }

    /// Returns whether the renewal information of the certificate is to be asked for.
    pub(crate) fn is_question_due(&self, now: u64) -> bool {
        self.issued_at.is_some() && self.ask_at.is_none_or(|at| at <= now || at > now + 2 * DAY)
    }

    /// Notes the renewal information. `None`: the server has none. `retry` is the pause that it asked for,
    /// and `random` is a number that spreads the machines.
    pub(crate) fn note_window(&mut self, window: Option<(u64, u64)>, retry: u64, now: u64, random: u64) {
        let pause = retry.clamp(*RENEWAL_INFO_PAUSES.start(), *RENEWAL_INFO_PAUSES.end());
        // A twentieth less at most, so that the question is asked at least once a day.
        self.ask_at = Some(now + pause - random % (pause / 20));
        self.window = window.map(|(start, end)| match self.window {
            Some(known) if (known.start, known.end) == (start, end) => known,
            _ => Window { start, end, chosen: start + random % (end.saturating_sub(start) + 1) },
        });
    }

    /// Notes a failed order.
    pub(crate) fn note_failure(
        &mut self,
        reason: String,
        retry_after: Option<RetryAfter>,
        has_certificate: bool,
        now: u64,
        random: u64,
    ) {
        let pause = pause(self.failures, has_certificate);
        let asked = match retry_after {
            Some(RetryAfter::Seconds(seconds)) => seconds,
            Some(RetryAfter::At(at)) => at.saturating_sub(now),
            None => 0,
        };
        let spread = random % (pause / 10 + 1);
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now + (pause + spread).max(asked.min(RETRY_AFTER_MAX)));
        self.reason = Some(reason);
        self.is_requested = false;
    }

    /// Notes a new certificate, and the URL of its order.
    pub(crate) fn note_success(&mut self, order: String, now: u64) {
        let directory = std::mem::take(&mut self.directory);
        *self = Self { directory, issued_at: Some(now), noted: Some(order), ..Self::default() };
    }
}

/// Returns the time at which two thirds of the life of a certificate are over.
fn two_thirds(certificate: &CertificateFacts) -> u64 {
    certificate.not_before + life(certificate) / 3 * 2
}

/// Returns the pause after a failed order. `failures` is the number of failures before it.
fn pause(failures: u32, has_certificate: bool) -> u64 {
    let first: &[u64] = if has_certificate { &[] } else { &FIRST_PAUSES };
    let failures = failures as usize;
    let doubled = || PAUSE.checked_shl((failures - first.len()).min(16) as u32).unwrap_or(PAUSE_MAX);
    first.get(failures).copied().unwrap_or_else(|| doubled().min(PAUSE_MAX))
}

#[cfg(test)]
mod tests;
