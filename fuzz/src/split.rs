//! The front of an input: what is chosen by it.

use super::reference::Bounds;

/// An input taken apart.
pub struct Input<'a> {
    pub bounds: Bounds,
    /// The pieces in which the data comes, in order; none is empty.
    pub pieces: Vec<&'a [u8]>,
    /// All of them together.
    pub data: &'a [u8],
    /// Bits that a target may use as it likes.
    pub choice: u8,
}

/// Takes the choice, the number of cuts (up to 7) and a byte or two for each, and the data.
///
/// Bounds are small, so that inputs reach them; a bit of the choice makes them the usual ones.
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

/// The same bounds as the engine takes them.
pub fn limits(bounds: &Bounds) -> tollgate_http::Limits {
    use tollgate_http::UnderscoreNames::{Drop, Refuse};
    tollgate_http::Limits {
        head_bytes_max: bounds.head,
        target_bytes_max: bounds.target,
        fields_max: bounds.fields,
        // Which the other reading has, too.
        chunk_framing_per_byte: 4,
        chunk_extension_bytes_max: bounds.extensions,
        trailer_bytes_max: bounds.trailers,
        underscore_names: if bounds.drops_underscores { Drop } else { Refuse },
    }
}
