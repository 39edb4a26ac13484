//! Octets as text: `hexBinary` and `base64Binary`.

/// Decodes pairs of hexadecimal digits.
pub(super) fn hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

/// Decodes base64. White space between digits is allowed, and unused bits must be zero.
pub(super) fn base64(text: &str) -> Option<Vec<u8>> {
    let mut digits: Vec<u8> =
        text.bytes().filter(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n')).collect();
    if !digits.len().is_multiple_of(4) {
        return None;
    }
    while digits.last() == Some(&b'=') {
        digits.pop();
    }
    if !(text.bytes().filter(|byte| *byte == b'=').count() <= 2 && digits.len() % 4 != 1) {
        return None;
    }
    let (mut octets, mut bits, mut count) = (Vec::with_capacity(digits.len() / 4 * 3 + 2), 0_u32, 0);
    for digit in digits {
        bits = bits << 6 | sextet(digit)?;
        count += 6;
        if count >= 8 {
            count -= 8;
            octets.push(u8::try_from(bits >> count).ok()?);
            bits &= (1 << count) - 1;
        }
    }
    (bits == 0).then_some(octets)
}

fn sextet(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}
