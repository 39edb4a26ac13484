//! The thread of a backend or of clients, with its own runtime. The thread ends when its handle is dropped.

use std::future::Future;
use std::io;
use std::thread::{Builder, JoinHandle};

use tokio::sync::oneshot;

pub(crate) struct Running {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts the thread. The thread runs the future from `make` until the future ends or the returned handle
    /// is dropped.
    pub(crate) fn start<F, M>(name: &str, make: M) -> io::Result<Self>
    where
        F: Future<Output = ()>,
        M: FnOnce() -> F + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel::<()>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = Builder::new().name(name.to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = make() => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in the thread was already printed.
            let _ = thread.join();
        }
    }
}
