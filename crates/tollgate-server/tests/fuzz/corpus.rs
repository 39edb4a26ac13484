//! The corpus of a fuzz target: named seeds, each in a file, and all other inputs in one pack.
//!
//! `fuzz/pack.py` describes the format of a pack and writes it.

use std::fs;
use std::path::Path;

const MAGIC: &[u8] = b"TGPACK01";

/// The inputs of one target.
pub(crate) struct Corpus {
    /// The named seeds, sorted by file name.
    pub(crate) named: Vec<Vec<u8>>,
    /// The packed inputs, sorted by their bytes.
    pub(crate) packed: Vec<Vec<u8>>,
}

impl Corpus {
    /// Reads the named seeds and the pack of a target.
    pub(crate) fn read(target: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
        let mut files: Vec<_> =
            fs::read_dir(folder.join(target)).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        let named = files.iter().map(|file| fs::read(file).unwrap()).collect();
        let pack = fs::read(folder.join(format!("{target}.pack"))).unwrap();
        Self { named, packed: unpacked(&pack).unwrap_or_else(|damage| panic!("{target}.pack: {damage}")) }
    }

    /// Returns all inputs. The named seeds come before the packed inputs.
    pub(crate) fn into_inputs(self) -> Vec<Vec<u8>> {
        [self.named, self.packed].concat()
    }
}

/// Returns the inputs of a pack.
///
/// # Errors
/// The pack was altered. The text names the fault.
fn unpacked(pack: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
    let (content, checksum) = pack.split_last_chunk().ok_or("the file is too short")?;
    if crc32(content) != u32::from_le_bytes(*checksum) {
        return Err("the checksum is wrong");
    }
    let rest = content.strip_prefix(MAGIC).ok_or("the magic is wrong")?;
    let (count, mut rest) = number(rest).ok_or("the count is missing")?;
    let mut inputs: Vec<Vec<u8>> = Vec::new();
    while !rest.is_empty() {
        let (length, after) = number(rest).ok_or("a length is cut")?;
        let (input, after) = after.split_at_checked(length).ok_or("an input is cut")?;
        inputs.push(input.to_vec());
        rest = after;
    }
    if inputs.len() != count {
        return Err("the count is wrong");
    }
    if !inputs.is_sorted_by(|one, next| one < next) {
        return Err("the inputs are not sorted, or not different");
    }
    Ok(inputs)
}

fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u32::from_le_bytes(*number) as usize, rest))
}

/// CRC-32 of IEEE 802.3, bit by bit. The packs are small, so a table is not needed. Python's `zlib.crc32`
/// computes the sum in the pack.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg()))
    })
}

#[test]
fn crc32_of_the_check_string_is_the_published_value() {
    assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
}

#[test]
fn a_pack_gives_its_inputs_back() {
    assert_eq!(unpacked(&pack(2, &[b"a", b"b\r\n"])).unwrap(), [b"a".to_vec(), b"b\r\n".to_vec()]);
}

#[test]
fn an_altered_pack_is_refused() {
    let sound = pack(2, &[b"a", b"b\r\n"]);
    for at in 0..sound.len() {
        for bit in 0..8 {
            let mut altered = sound.clone();
            altered[at] ^= 1 << bit;
            assert!(unpacked(&altered).is_err(), "byte {at}, bit {bit}");
        }
        assert!(unpacked(&sound[..at]).is_err(), "cut at {at}");
    }
}

#[test]
fn a_pack_whose_checksum_fits_is_refused_for_its_content() {
    assert_eq!(unpacked(&pack(3, &[b"a", b"b"])), Err("the count is wrong"));
    assert_eq!(unpacked(&pack(2, &[b"b", b"a"])), Err("the inputs are not sorted, or not different"));
    assert_eq!(unpacked(&pack(2, &[b"a", b"a"])), Err("the inputs are not sorted, or not different"));
    assert_eq!(unpacked(&sealed([MAGIC, &[1, 0, 0, 0, 2, 0, 0, 0, b'a']].concat())), Err("an input is cut"));
    assert_eq!(unpacked(&sealed(b"TGPACK02\0\0\0\0".to_vec())), Err("the magic is wrong"));
}

fn pack(count: u32, inputs: &[&[u8]]) -> Vec<u8> {
    let mut content = [MAGIC, &count.to_le_bytes()].concat();
    for input in inputs {
        content.extend((input.len() as u32).to_le_bytes());
        content.extend(*input);
    }
    sealed(content)
}

fn sealed(mut content: Vec<u8>) -> Vec<u8> {
    content.extend(crc32(&content).to_le_bytes());
    content
}
