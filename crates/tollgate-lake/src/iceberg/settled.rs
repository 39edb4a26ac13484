//! What the ledger of a sink says about loads, for their tables.

use tollgate_log::{LogId, Sequence};

use crate::error::LakeError;
use crate::ledger::Ledger;
use crate::names::LoadName;

/// Returns which loads are committed in all their tables. Such a load stays committed.
pub trait Settled {
    /// Returns whether a load is.
    ///
    /// # Errors
    /// The place of the ledger does not answer.
    fn has(&mut self, load: LoadName) -> Result<bool, LakeError>;

    /// Returns whether all loads of a log up to a record are.
    ///
    /// # Errors
    /// The place of the ledger does not answer.
    fn is_past(&mut self, log: LogId, last: Sequence) -> Result<bool, LakeError>;
}

impl Settled for Ledger {
    fn has(&mut self, load: LoadName) -> Result<bool, LakeError> {
        self.is_committed(load)
    }

    fn is_past(&mut self, log: LogId, last: Sequence) -> Result<bool, LakeError> {
        Ok(self.position(log)?.is_some_and(|position| position.last >= last))
    }
}
