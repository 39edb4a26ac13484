//! Spreads the logs of a store over the loaders that share the store, by leases in the database.
//!
//! [`LeaseKeeper`] is a thread that takes, renews and ends leases. A loader fetches only logs that it has a
//! lease for, and takes only its share of the logs (`plan`). A load may last long, so the thread has its own
//! connections.
//!
//! A process with several sinks takes the lease of a log in each of them. The first sink in the order of
//! their names decides which logs the process takes. All processes use the same order, so one process gets
//! the leases of a log in all sinks. A process fetches a log if it has the lease of at least one sink.
//!
//! | fault | effect |
//! | --- | --- |
//! | a loader is killed, or hangs | its leases end after 30 s, and the other loaders take its logs at this moment |
//! | a loader cannot fetch ([`LeaseWatch::pause`]) | the thread ends its leases |
//! | the database does not answer | the thread tries again. The loader fetches nothing once its leases are older than 30 s |
//! | another loader moved the position of a log ([`LeaseWatch::lost`]) | the thread ends the lease of this log |

mod keeper;
mod plan;
mod watch;

pub use keeper::{LeaseKeeper, LeaseOptions, LeaseStartError};
pub use plan::LogOffer;
pub use watch::{LeaseStatus, LeaseWatch};

#[cfg(test)]
mod tests;
