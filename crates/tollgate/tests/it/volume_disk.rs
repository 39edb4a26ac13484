//! A disk that moves between machines. With `TOLLGATE_VOLUMES` it is a loop device with ext4, which needs
//! root. Otherwise it is a plain folder, and moving the disk renames the folder.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes of an image.
const IMAGE_BYTES: u64 = 32 << 20;

/// Returns whether disks are loop devices.
pub(crate) fn are_devices() -> bool {
    let is_wanted = std::env::var_os("TOLLGATE_VOLUMES").is_some();
    if !is_wanted {
        // Writes directly, because the test harness hides the output of a test that passes.
        let text = "volumes are plain folders here; `make volumes` uses loop devices, as root\n";
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
    is_wanted
}

/// A disk that is in a machine, or in none.
pub(crate) struct VolumeDisk {
    /// The image with its file system. `None`: the disk is a plain folder.
    image: Option<PathBuf>,
    /// Where the plain folder is while it is in no machine.
    drawer: PathBuf,
    /// The folder where it is mounted. `None`: it is in no machine.
    place: Option<PathBuf>,
}

impl VolumeDisk {
    /// Makes a disk that is in no machine.
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        let drawer = folder.join(format!("{name}.drawer"));
        if !are_devices() {
            fs::create_dir(&drawer).unwrap();
            return Self { image: None, drawer, place: None };
        }
        let image = folder.join(format!("{name}.image"));
        fs::File::create(&image).unwrap().set_len(IMAGE_BYTES).unwrap();
        run(Command::new("mkfs.ext4").arg("-q").arg(&image));
        Self { image: Some(image), drawer, place: None }
    }

    /// Attaches the disk to a machine, and mounts it at a folder that is empty.
    pub(crate) fn put(&mut self, place: &Path) {
        self.put_with(place, "rw");
    }

    /// Attaches the disk, and mounts it read-only.
    pub(crate) fn put_to_read(&mut self, place: &Path) {
        self.put_with(place, "ro");
    }

    fn put_with(&mut self, place: &Path, options: &str) {
        assert!(self.place.is_none(), "the disk is in a machine");
        assert_eq!(fs::read_dir(place).unwrap().count(), 0, "nothing is written below a mount point");
        if let Some(image) = &self.image {
            // A call that was in progress when the disk was pulled out may still hold the device.
            crate::program::eventually("the device is free", || {
                run(Command::new("losetup").arg("-j").arg(image)).is_empty().then_some(())
            });
            let device = run(Command::new("losetup").args(["--find", "--show"]).arg(image));
            let mounted = Command::new("mount").args(["-o", options, device.trim()]).arg(place).status();
            // The mount keeps the device. It is detached with the unmount.
            run(Command::new("losetup").arg("-d").arg(device.trim()));
            assert!(mounted.unwrap().success());
        } else {
            fs::remove_dir(place).unwrap();
            fs::rename(&self.drawer, place).unwrap();
        }
        self.place = Some(place.to_owned());
    }

    /// Unmounts the disk and detaches it, as an operator does.
    pub(crate) fn pull(&mut self) {
        let Some(place) = self.place.clone() else { return };
        if self.image.is_some() {
            // A look at the volume may be in progress.
            crate::program::eventually("it is unmounted", || {
                Command::new("umount").arg(&place).output().unwrap().status.success().then_some(())
            });
            self.place = None;
        } else {
            self.rip();
        }
    }

    /// Pulls the disk out without warning: what is not synced is lost, and each call on open files fails.
    pub(crate) fn rip(&mut self) {
        let Some(place) = self.place.take() else { return };
        if self.image.is_some() {
            run(Command::new("xfs_io").args(["-x", "-c", "shutdown"]).arg(&place));
            run(Command::new("umount").arg("-l").arg(&place));
        } else {
            fs::rename(&place, &self.drawer).unwrap();
            fs::create_dir(&place).unwrap();
        }
    }

    /// Unmounts the disk from the place among these where a program has mounted it.
    pub(crate) fn unmount_from(&mut self, places: &[PathBuf]) {
        self.place = None;
        if self.image.is_some() {
            for place in places {
                // Nothing may be mounted there.
                let _ = Command::new("umount").arg("-l").arg(place).output();
            }
        }
    }

    pub(crate) fn place(&self) -> Option<&Path> {
        self.place.as_deref()
    }
}

impl Drop for VolumeDisk {
    fn drop(&mut self) {
        if let (Some(place), Some(_)) = (&self.place, &self.image) {
            let _ = Command::new("umount").arg("-l").arg(place).output();
        }
    }
}

/// Runs a program that must succeed, and returns what it printed.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
