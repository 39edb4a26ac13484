//! Durations of XML Schema Part 2, section 3.2.6.

use std::cmp::Ordering;

use super::temporal::Moment;

/// A duration: months and seconds do not convert into each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Duration {
    is_negative: bool,
    months: i64,
    seconds: i64,
    /// The digits of the fraction of a second, without zeros at the end.
    fraction: String,
}

/// Numbers of more digits are refused, so that seconds fit 64 bits.
const DIGITS_MAX: usize = 9;

/// The dates from which durations are compared.
const REFERENCES: [(i64, i64); 4] = [(1696, 9), (1697, 2), (1903, 3), (1903, 7)];

impl Duration {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (is_negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let text = text.strip_prefix('P')?;
        let (date, time) = match text.split_once('T') {
            Some((_, "")) => return None,
            Some((date, time)) => (date, time),
            None if text.is_empty() => return None,
            None => (text, ""),
        };
        let [years, months, days] = numbers(date, ['Y', 'M', 'D'])?;
        let (time, fraction) = split_fraction(time)?;
        let [hours, minutes, seconds] = numbers(&time, ['H', 'M', 'S'])?;
        let months = years * 12 + months;
        let seconds = ((days * 24 + hours) * 60 + minutes) * 60 + seconds;
        let is_zero = months == 0 && seconds == 0 && fraction.is_empty();
        Some(Self { is_negative: is_negative && !is_zero, months, seconds, fraction })
    }

    /// Compares the dates that are the durations after each reference date.
    pub(super) fn order(&self, other: &Self) -> Option<Ordering> {
        let mut orders = REFERENCES.map(|reference| self.after(reference).cmp(&other.after(reference)));
        orders.sort_unstable();
        (orders[0] == orders[3]).then_some(orders[0])
    }

    /// Returns nanoseconds, with the fraction cut there.
    fn after(&self, (year, month): (i64, i64)) -> i128 {
        let sign = if self.is_negative { -1 } else { 1 };
        let months = year * 12 + (month - 1) + sign * self.months;
        let date = Moment::of_date(months.div_euclid(12), months.rem_euclid(12) + 1).seconds();
        let padded: String = self.fraction.chars().chain("000000000".chars()).take(9).collect();
        let nanoseconds = i128::from(self.seconds) * 1_000_000_000 + padded.parse::<i128>().unwrap_or(0);
        i128::from(date) * 1_000_000_000 + i128::from(sign) * nanoseconds
    }
}

/// Takes the fraction out of the seconds.
fn split_fraction(time: &str) -> Option<(String, String)> {
    let Some((whole, fraction)) = time.split_once('.') else { return Some((time.to_owned(), String::new())) };
    let fraction = fraction.strip_suffix('S')?;
    let is_number = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let has_whole = whole.ends_with(|c: char| c.is_ascii_digit());
    (is_number && has_whole).then(|| (format!("{whole}S"), fraction.trim_end_matches('0').to_owned()))
}

/// Reads numbers with these letters after them, in this order. Each may be absent.
fn numbers(text: &str, letters: [char; 3]) -> Option<[i64; 3]> {
    let mut rest = text;
    let mut numbers = [0; 3];
    for (letter, number) in letters.into_iter().zip(&mut numbers) {
        let count = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Some(after) = rest[count..].strip_prefix(letter) else { continue };
        if count == 0 || count > DIGITS_MAX {
            return None;
        }
        *number = rest[..count].parse().ok()?;
        rest = after;
    }
    rest.is_empty().then_some(numbers)
}
