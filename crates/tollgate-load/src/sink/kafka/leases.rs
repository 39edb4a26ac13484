//! A Kafka sink has no leases: only one loader reads a store for it.

use std::collections::BTreeSet;

use crate::error::SinkError;
use crate::sink::leases::{LeaseName, LeaseTable, LiveLease};

/// The leases of a sink without leases: the loader has all that it asks for.
pub(in crate::sink) struct NoLeases;

impl LeaseTable for NoLeases {
    fn take(&mut self, names: &BTreeSet<LeaseName>) -> Result<BTreeSet<LeaseName>, SinkError> {
        Ok(names.clone())
    }

    fn release(&mut self, _: &BTreeSet<LeaseName>) -> Result<(), SinkError> {
        Ok(())
    }

    fn live(&mut self) -> Result<Vec<LiveLease>, SinkError> {
        Ok(Vec::new())
    }
}
