//! Threads that check passwords, so that no worker waits for a password hash.
//!
//! The queue is bounded. A full queue refuses further passwords, because each of them would wait for seconds.
//! The threads start with the first password, and end when the pool is dropped.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use tokio::sync::oneshot;
use tollgate_auth::Passwords;

/// Number of threads. Each needs the memory of one hash.
const THREADS: usize = 2;
/// Maximum number of passwords that wait. Each needs some tens of milliseconds.
const QUEUE_MAX: usize = 64;

/// Threads that check passwords.
#[derive(Debug, Default)]
pub(crate) struct PasswordPool {
    jobs: OnceLock<Option<SyncSender<Job>>>,
}

/// A password that has to be checked.
struct Job {
    passwords: Arc<Passwords>,
    name: String,
    password: String,
    answer: oneshot::Sender<bool>,
}

impl PasswordPool {
    /// Puts a password into the queue. Returns `None` if the queue is full.
    pub(crate) fn check(
        &self,
        passwords: &Arc<Passwords>,
        name: &str,
        password: &str,
    ) -> Option<oneshot::Receiver<bool>> {
        let (answer, receiver) = oneshot::channel();
        let job = Job {
            passwords: passwords.clone(),
            name: name.to_owned(),
            password: password.to_owned(),
            answer,
        };
        match self.jobs.get_or_init(start).as_ref()?.try_send(job) {
            Ok(()) => Some(receiver),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => None,
        }
    }
}

/// Starts the threads. Returns `None` if the system allows no thread.
fn start() -> Option<SyncSender<Job>> {
    let (sender, receiver) = sync_channel(QUEUE_MAX);
    let receiver = Arc::new(Mutex::new(receiver));
    let started = (0..THREADS).filter(|index| {
        let receiver = receiver.clone();
        let thread = thread::Builder::new().name(format!("auth-{index}")).spawn(move || work(&receiver));
        thread.inspect_err(|error| tracing::error!("cannot start a thread for passwords: {error}")).is_ok()
    });
    (started.count() > 0).then_some(sender)
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { passwords, name, password, answer }) = job else { return };
        // The client may have left while its password waited.
        if !answer.is_closed() {
            let _ = answer.send(passwords.is_right(&name, &password));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hash of 19 MiB and two passes.
    fn passwords() -> Arc<Passwords> {
        let line = tollgate_auth::password_line("anna", "secret").unwrap().unwrap();
        Arc::new(Passwords::parse(&line).unwrap())
    }

    #[test]
    fn a_full_queue_refuses_passwords_and_takes_them_again_later() {
        let (pool, passwords) = (PasswordPool::default(), passwords());
        let mut answers = Vec::new();
        while let Some(answer) = pool.check(&passwords, "anna", "secret") {
            answers.push(answer);
            assert!(answers.len() < 10_000, "the queue has no bound");
        }
        assert!(answers.len() >= QUEUE_MAX, "{}", answers.len());
        assert_eq!(answers.remove(0).blocking_recv(), Ok(true));
        // The clients of the others have left, so their passwords are skipped.
        answers.clear();
        let answer = loop {
            match pool.check(&passwords, "anna", "wrong") {
                Some(answer) => break answer,
                None => thread::yield_now(),
            }
        };
        assert_eq!(answer.blocking_recv(), Ok(false));
    }
}
