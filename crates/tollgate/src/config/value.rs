//! Values of options that keys set. Each value can be read and set as a number: bytes, milliseconds, an
//! integer, a switch, or the index of a name.

use std::convert::identity;
use std::time::Duration;

/// A value in the options of a section.
pub(super) trait Value {
    /// The value as a number.
    fn number(&self) -> u64;
    /// Changes the value. A number that the type cannot hold changes nothing.
    fn set(&mut self, number: u64);
}

macro_rules! integers {
    ($($integer:ty: $number:expr),+) => {$(
        impl Value for $integer {
            fn number(&self) -> u64 {
                $number(*self)
            }

            fn set(&mut self, number: u64) {
                *self = number.try_into().unwrap_or(*self);
            }
        }
    )+};
}

integers!(u16: u64::from, u32: u64::from, u64: identity, usize: |size| size as u64);

impl Value for Duration {
    fn number(&self) -> u64 {
        u64::try_from(self.as_millis()).unwrap_or(u64::MAX)
    }

    fn set(&mut self, milliseconds: u64) {
        *self = Self::from_millis(milliseconds);
    }
}

impl Value for bool {
    fn number(&self) -> u64 {
        (*self).into()
    }

    fn set(&mut self, number: u64) {
        *self = number != 0;
    }
}

/// A bound that may be off. The number 0 means off.
impl<T: Value + Default> Value for Option<T> {
    fn number(&self) -> u64 {
        self.as_ref().map_or(0, Value::number)
    }

    fn set(&mut self, number: u64) {
        let mut bound = T::default();
        bound.set(number);
        *self = (number != 0).then_some(bound);
    }
}

/// A value that is a name in the configuration.
pub(super) trait Named: Copy + PartialEq + 'static {
    /// Returns all values with their names.
    fn all() -> Vec<(&'static str, Self)>;
}

/// Returns the names of a type.
pub(super) fn names<T: Named>() -> Vec<&'static str> {
    T::all().into_iter().map(|(name, _)| name).collect()
}

impl<T: Named> Value for T {
    fn number(&self) -> u64 {
        T::all().iter().position(|(_, known)| known == self).unwrap_or_default() as u64
    }

    fn set(&mut self, number: u64) {
        let all = T::all();
        let found = usize::try_from(number).ok().and_then(|place| all.get(place));
        *self = found.map_or(*self, |(_, value)| *value);
    }
}

/// Implements [`Named`] for types with `ALL` and `name`.
macro_rules! named {
    ($($named:ty),+) => {$(
        impl $crate::config::value::Named for $named {
            fn all() -> Vec<(&'static str, Self)> {
                Self::ALL.map(|value| (value.name(), value)).into()
            }
        }
    )+};
}

pub(super) use named;
