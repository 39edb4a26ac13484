//! Tests of the digest of a segment that is larger than one stride of the scan.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256, Sha512};
use tollgate_log::{SegmentDigestAlgorithm, SegmentState, Sequence, read_footer, recover, verify_segment};

use crate::sim::Sim;
use crate::workload::{batch, dir, file_bytes, new_writer, segments_of};

/// Size of the segment in bytes: several strides after which the scan publishes its offset to the digest.
const SEGMENT_BYTES: u64 = 5 << 20;

/// Makes a dead run with one large open segment. The segment ends with a small batch and the bytes `torn`.
fn crashed(torn: &[u8]) -> Sim {
    let sim = Sim::new();
    let mut writer = new_writer(&sim);
    let mut next = 1;
    while writer.active_bytes() < SEGMENT_BYTES {
        next = writer.write(&[batch(next, 500)], Sequence(0), 0).unwrap().after(1).0;
    }
    writer.write(&[batch(next, 1)], Sequence(0), 0).unwrap();
    let (_, path) = segments_of(&sim, writer.log()).remove(0);
    drop(writer);
    sim.edit(&path, |bytes| bytes.extend_from_slice(torn));
    sim.restart()
}

#[test]
fn a_large_segment_is_sealed_with_the_digest_of_all_its_bytes() {
    for (algorithm, torn) in
        [(SegmentDigestAlgorithm::Sha256, &b""[..]), (SegmentDigestAlgorithm::Sha512, b"no batch")]
    {
        let sim = crashed(torn);
        let report = recover(&sim.storage(), &dir(), algorithm).unwrap();
        assert_eq!((report.logs[0].sealed, report.logs[0].torn_bytes), (1, torn.len() as u64));
        let (name, path) = segments_of(&sim, report.logs[0].log).remove(0);
        assert_eq!(name.state, SegmentState::Sealed);
        let footer = read_footer(&sim, &path).unwrap().unwrap();
        let content = &file_bytes(&sim, &path)[..footer.content_bytes as usize];
        let expected = match algorithm {
            SegmentDigestAlgorithm::Sha512 => Sha512::digest(content).to_vec(),
            _ => Sha256::digest(content).to_vec(),
        };
        let hex = expected.iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        });
        assert_eq!(footer.digest.to_string(), format!("{}:{hex}", algorithm.name()));
        assert_eq!(verify_segment(&sim, name, &path, None).unwrap().problem, None);
    }
}

#[test]
fn a_large_segment_whose_footer_holds_another_digest_is_told() {
    let sim = crashed(b"");
    let report = recover(&sim.storage(), &dir(), SegmentDigestAlgorithm::Sha256).unwrap();
    let (name, path) = segments_of(&sim, report.logs[0].log).remove(0);
    sim.edit(&path, |bytes| {
        let footer = bytes.len() - 224;
        bytes[footer + 56] ^= 1;
        let end = bytes.len() - 4;
        let checksum = crc32c::crc32c(&bytes[footer..end]);
        bytes[end..].copy_from_slice(&checksum.to_le_bytes());
    });
    let problem = verify_segment(&sim, name, &path, None).unwrap().problem.unwrap();
    assert!(problem.reason.starts_with("the segment has digest sha256:"), "{problem:?}");
}
