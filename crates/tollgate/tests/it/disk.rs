//! A disk for one test: a file system in an image, mounted by loop, whose power can be cut. Needs root.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A mounted file system. Dropping it unmounts it.
pub(crate) struct Disk {
    kind: String,
    folder: TempDir,
}

impl Disk {
    /// Makes and mounts a disk. If this machine does not allow it, prints a line that is always visible and
    /// returns `None`.
    pub(crate) fn new(kind: &str, mebibytes: u64) -> Option<Self> {
        let disk = Self { kind: kind.to_owned(), folder: tempfile::tempdir().unwrap() };
        let image = disk.image();
        std::fs::File::create(&image).unwrap().set_len(mebibytes << 20).unwrap();
        std::fs::create_dir(disk.path()).unwrap();
        let made = run(Command::new(format!("mkfs.{kind}")).arg("-q").arg(&image));
        match made.and_then(|()| disk.mount()).and_then(|()| run(Command::new("xfs_io").arg("-V"))) {
            Ok(()) => Some(disk),
            Err(error) => {
                // Writes to stderr without `eprintln!`, because the test harness hides the output of
                // `eprintln!` if the test passes.
                let _ = writeln!(std::io::stderr(), "\n!!! NOT TESTED: power cuts on {kind}: {error}\n");
                None
            }
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("mounted")
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    fn mount(&self) -> Result<(), String> {
        run(Command::new("mount").args(["-o", "loop"]).arg(self.image()).arg(self.path()))
    }

    /// Syncs all data written so far to the disk.
    pub(crate) fn sync(&self) {
        run(Command::new("sync").arg("-f").arg(self.path())).unwrap();
    }

    /// Cuts the power: unsynced data never reaches the disk, and every later call is an error. This uses the
    /// shutdown call of ext4 and XFS, without a flush of the journal.
    pub(crate) fn cut_power(&self) {
        run(Command::new("xfs_io").args(["-x", "-c", "shutdown"]).arg(self.path())).unwrap();
    }

    /// Returns whether an fdatasync that returns 0 during a power cut has written the data. On ext4 the data
    /// may be lost: on Linux 6.18, a simple loop of write and fdatasync loses its last record in one of sixty
    /// cuts. On XFS no record is lost.
    pub(crate) fn is_cut_at_once(&self) -> bool {
        self.kind == "xfs"
    }

    /// Mounts the file system again after a power cut. The mount replays the journal.
    pub(crate) fn come_back(&self) {
        unmount(&self.path()).unwrap();
        self.mount().unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // An error is ignored, because the disk may not be mounted.
        let _ = unmount(&self.path());
    }
}

fn unmount(path: &Path) -> Result<(), String> {
    run(Command::new("umount").arg(path))
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().display().to_string();
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("{program}: {error}")),
    }
}
