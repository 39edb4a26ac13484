//! Programs that unmount and move a volume. The operator names them.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::state::VolumeId;

/// Interval between two looks whether a program has ended.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// A program that runs when a volume is full or done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeHook {
    /// The program, without arguments.
    pub program: PathBuf,
    /// The time after which the program and its children are killed.
    pub timeout: Duration,
}

impl VolumeHook {
    /// Runs the program. Its environment has `TOLLGATE_VOLUME_ID`, `TOLLGATE_VOLUME_GENERATION` and
    /// `TOLLGATE_VOLUME_PATH`.
    ///
    /// # Errors
    /// It cannot be started, it fails, or it does not end in time.
    pub fn run(&self, id: VolumeId, generation: u64, folder: &Path) -> Result<(), HookError> {
        let program = self.program.clone();
        let started = Command::new(&self.program)
            .env("TOLLGATE_VOLUME_ID", id.to_string())
            .env("TOLLGATE_VOLUME_GENERATION", generation.to_string())
            .env("TOLLGATE_VOLUME_PATH", folder)
            .stdin(Stdio::null())
            .process_group(0)
            .spawn();
        let mut child = match started {
            Ok(child) => child,
            Err(source) => return Err(HookError::Start { program, source }),
        };
        let end = Instant::now() + self.timeout;
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(HookError::Failed { program, status }),
                Ok(None) if Instant::now() < end => thread::sleep(LOOK_PAUSE),
                Ok(None) => break,
                Err(source) => return Err(HookError::Start { program, source }),
            }
        }
        // The program may have started others, so its whole group ends.
        if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            // The group may have ended meanwhile.
            let _ = kill_process_group(group, Signal::KILL);
        }
        drop(child.wait());
        Err(HookError::TimedOut { program, timeout: self.timeout })
    }
}

/// Why a program of a volume failed.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// The program cannot be started.
    #[error("cannot run {}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The program ended with an error.
    #[error("{} failed: {status}", program.display())]
    Failed {
        /// The program.
        program: PathBuf,
        /// How it ended.
        status: ExitStatus,
    },
    /// The program did not end in time and was killed.
    #[error("{} did not end within {timeout:?} and was killed", program.display())]
    TimedOut {
        /// The program.
        program: PathBuf,
        /// The limit.
        timeout: Duration,
    },
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::testing::{eventually, write_program};

    /// Runs a shell script as a hook. Returns its error and the folder of the test.
    fn run(script: &str, timeout: Duration) -> (tempfile::TempDir, Option<String>) {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("hook");
        write_program(&program, script);
        let hook = VolumeHook { program, timeout };
        let id = "000000000000000000000000000000ab".parse().unwrap();
        let result = hook.run(id, 3, folder.path());
        (folder, result.err().map(|error| error.to_string()))
    }

    #[test]
    fn a_hook_gets_the_volume_in_its_environment() {
        let script = "echo $TOLLGATE_VOLUME_ID $TOLLGATE_VOLUME_GENERATION >$TOLLGATE_VOLUME_PATH/seen";
        let (folder, error) = run(script, Duration::from_secs(60));
        assert_eq!(error, None);
        let seen = fs::read_to_string(folder.path().join("seen")).unwrap();
        assert_eq!(seen, "000000000000000000000000000000ab 3\n");
    }

    #[test]
    fn the_failure_of_a_hook_is_returned() {
        let (_folder, error) = run("exit 3", Duration::from_secs(60));
        assert!(error.unwrap().ends_with("failed: exit status: 3"));
        let missing = VolumeHook { program: "missing/hook".into(), timeout: Duration::from_secs(60) };
        let error = missing.run(VolumeId::random().unwrap(), 1, Path::new(".")).unwrap_err();
        assert_eq!(error.to_string(), "cannot run missing/hook");
    }

    #[test]
    fn a_hook_that_does_not_end_is_killed_with_its_children() {
        let script = "sleep 1000 & echo $! >$TOLLGATE_VOLUME_PATH/child; sleep 1000";
        let (folder, error) = run(script, Duration::from_secs(3));
        assert!(error.unwrap().ends_with("did not end within 3s and was killed"));
        let child = fs::read_to_string(folder.path().join("child")).unwrap();
        let stat = format!("/proc/{}/stat", child.trim());
        // A killed child is gone, or a zombie that its new parent has not collected yet.
        eventually("the child is dead", || {
            fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "))
        });
    }
}
