//! Reads and updates the counts of refused rows by segment, in the transaction of a load.

use tollgate_log::{LogId, Sequence};

use super::error::Failure;
use super::names::{table, uuid_of};
use super::options::PostgresOptions;
use super::session::Session;
use crate::sink::refusals::Refusals;

/// Returns the number of rows of a segment that the database refused in earlier loads.
pub(super) fn read(
    session: &mut Session,
    options: &PostgresOptions,
    sink: &str,
    log: LogId,
    segment: Sequence,
) -> Result<u64, Failure> {
    let refusals = table(options, "refusals");
    let question = format!("SELECT refused FROM {refusals} WHERE sink = $1 AND log = $2 AND segment = $3");
    let rows = session.query(&question, &[&sink, &uuid_of(log), &segment.0.cast_signed()])?;
    Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0).cast_unsigned()))
}

/// Adds the counts of the refused rows of a load.
pub(super) fn add(
    session: &mut Session,
    options: &PostgresOptions,
    sink: &str,
    log: LogId,
    refusals: &Refusals,
) -> Result<(), Failure> {
    let upsert = format!(
        "INSERT INTO {} AS old (sink, log, segment, refused) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (sink, log, segment) DO UPDATE SET refused = old.refused + excluded.refused",
        table(options, "refusals")
    );
    for (segment, refused) in refusals.new_ones() {
        let (segment, refused) = (segment.0.cast_signed(), refused.cast_signed());
        session.execute(&upsert, &[&sink, &uuid_of(log), &segment, &refused])?;
    }
    Ok(())
}
