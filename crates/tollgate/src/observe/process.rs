//! Memory, processor time and threads of this process, as the kernel reports them. The files stay open, so
//! that they can also be read when no descriptor is free.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use crate::wall;
use rustix::process::{Resource, getrlimit};

/// Ticks per second in the kernel's figures of processes: `USER_HZ`, which is the same on all Linux systems.
const TICKS: f64 = 100.0;
/// Bytes of the read buffer. The buffer is longer than each of the two files.
const FILE_BYTES_MAX: usize = 4 << 10;

pub(super) struct Process {
    stat: Option<File>,
    status: Option<File>,
    /// Start of the process, in seconds since 1970. It is computed once, because the wall clock may be set
    /// later. A changed value would look like a restart to its readers.
    started_at: f64,
}

/// The resources of the process. A figure that the system does not report is zero.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) resident_bytes: u64,
    pub(crate) virtual_bytes: u64,
    pub(crate) cpu_seconds: f64,
    pub(crate) threads: u64,
    /// Seconds since 1970.
    pub(crate) started_at: f64,
    pub(crate) descriptors: u64,
    pub(crate) descriptors_max: u64,
}

impl Process {
    pub(super) fn new() -> Self {
        let open = |name: &str| File::open(format!("/proc/self/{name}")).ok();
        let (stat, status) = (open("stat"), open("status"));
        let started_at = booted_at() + number(&read(stat.as_ref()), 22) as f64 / TICKS;
        Self { stat, status, started_at }
    }

    pub(super) fn usage(&self) -> Usage {
        let (stat, status) = (read(self.stat.as_ref()), read(self.status.as_ref()));
        let kibibytes = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
            number.unwrap_or_default() * 1024
        };
        Usage {
            resident_bytes: kibibytes("VmRSS:"),
            virtual_bytes: kibibytes("VmSize:"),
            cpu_seconds: (number(&stat, 14) + number(&stat, 15)) as f64 / TICKS,
            threads: number(&stat, 20),
            started_at: self.started_at,
            descriptors: descriptors(),
            descriptors_max: getrlimit(Resource::Nofile).current.unwrap_or_default(),
        }
    }
}

/// Returns a field of `stat` by its place in proc(5). The second field is a name and may contain anything.
/// The third begins after the last parenthesis.
fn number(stat: &str, place: usize) -> u64 {
    let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.nth(place - 3).and_then(|field| field.parse().ok()).unwrap_or_default()
}

fn read(file: Option<&File>) -> String {
    let mut buffer = [0; FILE_BYTES_MAX];
    let bytes = file.and_then(|file| file.read_at(&mut buffer, 0).ok()).unwrap_or_default();
    String::from_utf8_lossy(&buffer[..bytes]).into_owned()
}

/// Returns the present wall time minus the time since boot.
fn booted_at() -> f64 {
    let since_boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let since_boot = since_boot.tv_sec as f64 + since_boot.tv_nsec as f64 / 1e9;
    wall::now().as_millisecond() as f64 / 1e3 - since_boot
}

/// Returns the number of open descriptors. Since Linux 6.2 the size of the folder is this number. Older
/// kernels need a list of the folder.
fn descriptors() -> u64 {
    let told =
        fs::metadata("/proc/self/fd").map_or(0, |folder| std::os::unix::fs::MetadataExt::size(&folder));
    if told > 0 { told } else { fs::read_dir("/proc/self/fd").map_or(0, |listed| listed.count() as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_tells_what_this_process_takes() {
        let process = Process::new();
        let usage = process.usage();
        assert!(usage.resident_bytes > 100_000 && usage.virtual_bytes >= usage.resident_bytes, "{usage:?}");
        assert!(usage.threads > 0 && usage.descriptors > 2 && usage.descriptors_max > 2, "{usage:?}");
        let now = wall::now().as_second() as f64;
        assert!((now - 86_400.0..=now + 1.0).contains(&usage.started_at), "{usage:?}");
        let more: Vec<_> = (0..50).map(|_| File::open("/dev/null").unwrap()).collect();
        assert!(process.usage().descriptors >= usage.descriptors + 40, "{usage:?}");
        drop(more);
        assert_eq!(process.usage().started_at.to_bits(), usage.started_at.to_bits(), "it began once");
    }
}
