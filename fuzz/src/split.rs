//! The start of an input, which chooses bounds and cuts.

use super::reference::Bounds;

/// The parts of an input.
pub struct Input<'a> {
    pub bounds: Bounds,
    /// The pieces of the data, in order. No piece is empty.
    pub pieces: Vec<&'a [u8]>,
    /// The bytes of all pieces, without the cuts.
    pub data: &'a [u8],
    /// Bits that a target may use for any purpose.
    pub choice: u8,
}

/// Splits an input into the choice, the cuts and the data. There are up to 7 cuts, with one or two bytes
/// each.
///
/// Bounds are small, so that inputs reach them. If a bit of the choice is set, the bounds are the defaults of
/// the server.
pub fn input(bytes: &[u8]) -> Option<Input<'_>> {
    let (&choice, rest) = bytes.split_first()?;
    let (&count, rest) = rest.split_first()?;
    let count = usize::from(count & 7);
    let (cuts, data) = rest.split_at_checked(count)?;
    let is_long = data.len() > 255;
    let mut ends: Vec<usize> = cuts
        .iter()
        .map(|&cut| if is_long { usize::from(cut) * data.len() / 256 } else { usize::from(cut) })
        .map(|cut| cut.min(data.len()))
        .chain([data.len()])
        .collect();
    ends.sort_unstable();
    let mut start = 0;
    let mut pieces = Vec::new();
    for end in ends {
        if end > start {
            pieces.push(&data[start..end]);
            start = end;
        }
    }
    Some(Input { bounds: bounds(choice), pieces, data, choice })
}

fn bounds(choice: u8) -> Bounds {
    let drops_underscores = choice & 1 != 0;
    if choice & 2 != 0 {
        return Bounds {
            head: 16_384,
            target: 8_000,
            fields: 100,
            extensions: 16_384,
            trailers: 8_192,
            body: 1 << 20,
            drops_underscores,
        };
    }
    Bounds { head: 160, target: 24, fields: 5, extensions: 24, trailers: 40, body: 48, drops_underscores }
}

/// Returns the same bounds in the form of the engine.
pub fn limits(bounds: &Bounds) -> tollgate_http::Limits {
    use tollgate_http::UnderscoreNames::{Drop, Refuse};
    tollgate_http::Limits {
        head_bytes_max: bounds.head,
        target_bytes_max: bounds.target,
        fields_max: bounds.fields,
        // The reference reading has the same bound.
        chunk_framing_per_byte: 4,
        chunk_extension_bytes_max: bounds.extensions,
        trailer_bytes_max: bounds.trailers,
        underscore_names: if bounds.drops_underscores { Drop } else { Refuse },
        extension_methods: false,
    }
}
