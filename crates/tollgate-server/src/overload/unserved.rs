//! Logs the reasons why connections of a worker are not served. Clients cannot increase the number of log
//! lines.

use std::time::{Duration, Instant};

use tollgate_meter::{Episode, EpisodeNews};

const LINE_PAUSE: Duration = Duration::from_secs(10);

/// Reasons why connections were not served.
pub(crate) struct UnservedConnections {
    /// The maximum number of connections was reached.
    pub(crate) connections: Episode,
    /// The process or the system has no free descriptor, so connections wait in the kernel.
    pub(crate) descriptors: Episode,
    /// Accepting failed with any other error of the system.
    pub(crate) failures: Episode,
}

impl UnservedConnections {
    pub(crate) fn new() -> Self {
        let episode = || Episode::new(LINE_PAUSE);
        Self { connections: episode(), descriptors: episode(), failures: episode() }
    }

    /// Logs the reasons that are new or over.
    pub(crate) fn log_news(&self, now: Instant, worker: usize) {
        let episodes = [&self.connections, &self.descriptors, &self.failures];
        let news = episodes.map(|episode| episode.news(now));
        if let [Some(EpisodeNews::Happened(refused)), ..] = news {
            tracing::warn!(
                worker,
                refused,
                "the server has `connections_max` connections: it refuses further ones"
            );
        }
        if let [_, Some(EpisodeNews::Happened(pauses)), _] = news {
            tracing::error!(
                worker,
                pauses,
                "the process has no free file descriptor: connections wait to be accepted"
            );
        }
        if let [.., Some(EpisodeNews::Happened(failures))] = news {
            tracing::error!(worker, failures, "cannot accept connections, trying again");
        }
        if news.contains(&Some(EpisodeNews::Over)) {
            tracing::info!(worker, "the worker accepts connections again");
        }
    }
}
