//! A database whose files are no longer at their paths. No record is loaded into it, and none of its data is
//! written back.

use rusqlite::config::DbConfig;

use super::database::SqliteSink;
use crate::error::SinkError;

impl SqliteSink {
    /// Checks that the files are still at their paths. Rows in a file without a name would be lost.
    pub(super) fn check_files(&self) -> Result<(), SinkError> {
        match self.files.are_in_place(&self.connection) {
            true => Ok(()),
            false => Err(SinkError::Moved { path: self.path.clone() }),
        }
    }

    /// Checks the files, and returns whether another program wrote to the database since the last check.
    pub(super) fn look_at_files(&mut self) -> Result<bool, SinkError> {
        self.check_files()?;
        let version = self.connection.pragma_query_value(None, "data_version", |row| row.get(0));
        let version = match version.map_err(self.failed("read the data version")) {
            // The next check tries again, when the lock may be free.
            Err(SinkError::Locked { .. }) => return Ok(false),
            version => version?,
        };
        Ok(self.data_version.replace(version).is_some_and(|seen| seen != version))
    }
}

impl Drop for SqliteSink {
    fn drop(&mut self) {
        if self.check_files().is_err() {
            // Without this setting, the last connection of a process would write its WAL back to the
            // database, and delete the WAL at the path.
            let kept = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
            debug_assert!(kept.is_ok(), "{kept:?}");
            let database = self.path.display();
            match self.files.put_left_wal_aside(&self.connection) {
                Some(Ok(aside)) => {
                    tracing::warn!(%database, aside = %aside.display(), "the WAL of the replaced database was moved aside");
                }
                Some(Err(error)) => {
                    tracing::error!(%database, %error, "the WAL of the replaced database cannot be moved aside");
                }
                None => {}
            }
        }
    }
}
