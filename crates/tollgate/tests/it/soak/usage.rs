//! Memory and descriptors of a process, over time.

use std::fmt;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::program::{PATIENCE, eventually};

/// Time after which the last segment has been sealed, loaded and deleted.
const SETTLED_AFTER: Duration = Duration::from_secs(6);
const SAMPLE_PAUSE: Duration = Duration::from_millis(250);

pub(super) struct Usage {
    process: u32,
    pub(super) descriptors_before: usize,
    memory_kib: Vec<u64>,
    descriptors: Vec<usize>,
    sampled: Instant,
}

impl Usage {
    /// Counts the resources of a server that no client uses any more.
    pub(super) fn new(process: u32) -> Self {
        let begun = Instant::now();
        let mut descriptors_before = usize::MAX;
        while begun.elapsed() < SETTLED_AFTER {
            descriptors_before = descriptors_before.min(descriptors(process));
            thread::sleep(SAMPLE_PAUSE);
        }
        Self {
            process,
            descriptors_before,
            memory_kib: Vec::new(),
            descriptors: Vec::new(),
            sampled: Instant::now(),
        }
    }

    /// Waits for the time of the next sample, and takes it.
    pub(super) fn sample(&mut self) {
        thread::sleep(SAMPLE_PAUSE.saturating_sub(self.sampled.elapsed()));
        self.sampled = Instant::now();
        self.memory_kib.push(memory_kib(self.process));
        self.descriptors.push(descriptors(self.process));
    }

    pub(super) fn memory_kib_max(&self) -> u64 {
        self.memory_kib.iter().copied().max().unwrap()
    }

    /// Returns the medians of the second third of the time, and of the last third.
    pub(super) fn medians_kib(&self) -> (u64, u64) {
        let third = self.memory_kib.len() / 3;
        (median(&self.memory_kib[third..2 * third]), median(&self.memory_kib[2 * third..]))
    }

    /// Returns the present targets of its descriptors.
    pub(super) fn links(&self) -> String {
        links(self.process).join(" ")
    }

    /// Returns the number of descriptors that remain when clients and files are gone: the minimum of repeated
    /// counts.
    pub(super) fn descriptors_settled(&self) -> usize {
        let begun = Instant::now();
        let mut least = usize::MAX;
        eventually("descriptors are as many as before", || {
            least = least.min(descriptors(self.process));
            (least <= self.descriptors_before || begun.elapsed() > PATIENCE / 2).then_some(())
        });
        least
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let third = self.memory_kib.len() / 3;
        let warm = median(&self.memory_kib[..third]);
        let (second, last) = self.medians_kib();
        let most = self.memory_kib_max();
        writeln!(
            f,
            "memory, median of each third: {warm}, {second}, {last} KiB; at most {most} KiB; {} samples",
            self.memory_kib.len()
        )?;
        write!(f, "descriptors at most {}", self.descriptors.iter().max().unwrap())
    }
}

fn median(samples: &[u64]) -> u64 {
    let mut samples = samples.to_vec();
    samples.sort_unstable();
    samples[samples.len() / 2]
}

fn memory_kib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Returns the number of descriptors, without segments of the log. The number of open segments changes all
/// the time, and depends on the sinks.
fn descriptors(process: u32) -> usize {
    links(process).into_iter().filter(|link| !link.contains(".sealed") && !link.contains(".open")).count()
}

/// Returns the target of each descriptor.
fn links(process: u32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let mut links: Vec<_> = links.map(|link| link.display().to_string()).collect();
    links.sort();
    links
}
