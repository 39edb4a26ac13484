//! A request for orders while no server runs: the next start does them.

use std::thread;
use std::time::{Duration, Instant};

use crate::error::AcmeError;
use crate::folder::StateFolder;
use crate::options::AcmeOptions;
use crate::report::{due_file, read_due};
use crate::schedule::Due;

/// Time that another machine has to release the lock. An order takes a few seconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);

/// Notes that these names are to be ordered at once. The next server that looks at the folder orders them.
///
/// # Errors
/// The folder cannot be written, or another machine has its lock for a minute.
pub fn request_orders(options: &AcmeOptions, names: &[String]) -> Result<(), AcmeError> {
    let folder = StateFolder::new(&options.folder);
    folder.create()?;
    let begun = Instant::now();
    let _lock = loop {
        match folder.lock()? {
            Some(lock) => break lock,
            None if begun.elapsed() > LOCK_TIMEOUT => {
                return Err(AcmeError::Options("another machine has the lock of the folder".to_owned()));
            }
            None => thread::sleep(PAUSE),
        }
    };
    for name in names {
        let due = Due { is_requested: true, ..read_due(&folder, name, &options.directory) };
        folder.write_document(&due_file(name), &due)?;
    }
    Ok(())
}
