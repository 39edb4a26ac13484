//! Pseudorandom numbers. The same seed gives the same numbers.

/// The generator SplitMix64. Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators",
/// OOPSLA 2014.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.next().to_le_bytes()[..part.len()]);
        }
    }
}

/// Returns whether the event with this number is selected. `per_mille` is the share of selected events, in
/// thousandths. The same seed selects the same events.
pub(crate) fn is_hit(seed: u64, number: u64, per_mille: u16) -> bool {
    let mut random = Random::new(seed ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93));
    random.next() % 1000 < u64::from(per_mille)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_hit_as_often_as_it_says_and_the_same_ones_again() {
        for per_mille in [0, 100, 300, 1000] {
            let hits =
                |seed| (0..10_000).filter(|&number| is_hit(seed, number, per_mille)).collect::<Vec<_>>();
            let share = hits(7).len() as i64;
            assert!((share - i64::from(per_mille) * 10).abs() < 200, "{per_mille}: {share}");
            assert_eq!(hits(7), hits(7));
        }
        assert!((0..100).any(|number| is_hit(1, number, 500) != is_hit(2, number, 500)));
    }
}
