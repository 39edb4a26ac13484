//! Hexadecimal digits, in which many services write signatures and keys.

/// Reads hexadecimal digits of both cases. Returns `None` for any other text.
pub fn decode_hex(text: &[u8]) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

/// Returns bytes as hexadecimal digits in lower case.
pub fn encode_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_both_cases_are_bytes_and_nothing_else_is() {
        assert_eq!(decode_hex(b"00fFa0"), Some(vec![0, 255, 160]));
        assert_eq!(encode_hex(&[0, 255, 160]), "00ffa0");
        assert_eq!(decode_hex(b""), Some(Vec::new()));
        for text in ["0", "0g", "+1", "0x00", " 00", "é"] {
            assert_eq!(decode_hex(text.as_bytes()), None, "{text}");
        }
    }
}
