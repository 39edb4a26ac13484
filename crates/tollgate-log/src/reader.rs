//! Reads the fields of a record's body one after the other. The reader never reads beyond the end, whatever
//! the bytes are.

use crate::error::FormatError;

#[derive(Debug, Default, Clone)]
pub(crate) struct Reader<'a> {
    /// Name of the part that is read, for errors.
    what: &'static str,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { what, rest: bytes }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], FormatError> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or(FormatError::CutOff {
            what: self.what,
            found: self.rest.len() as u64,
            needed: count as u64,
        })?;
        self.rest = rest;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// Reads a length of 4 bytes, and as many bytes as the length says.
    pub(crate) fn sized(&mut self) -> Result<&'a [u8], FormatError> {
        let count = u32::from_le_bytes(self.array()?);
        self.take(count as usize)
    }

    /// Returns all bytes that were not read yet.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Checks that all bytes were read.
    pub(crate) fn finish(self, what: &'static str) -> Result<(), FormatError> {
        match self.rest.len() as u64 {
            0 => Ok(()),
            found => Err(FormatError::Value { what, found, allowed: "0" }),
        }
    }
}

pub(crate) fn utf8<'a>(what: &'static str, bytes: &'a [u8]) -> Result<&'a str, FormatError> {
    std::str::from_utf8(bytes).map_err(|_| FormatError::Utf8 { what })
}
