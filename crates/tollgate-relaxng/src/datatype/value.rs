//! Values of datatypes, and their order.

use std::cmp::Ordering;

use super::decimal::Decimal;
use super::duration::Duration;
use super::temporal::Moment;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Words(Vec<String>),
    Name { namespace: String, local: String },
    Boolean(bool),
    Decimal(Decimal),
    Float(Float),
    Moment(Moment),
    Duration(Duration),
    Octets(Vec<u8>),
}

/// A number of the types `float` and `double`. `NaN` equals itself (XML Schema Part 2, section 3.2.4).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Float(pub(super) f64);

impl PartialEq for Float {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || (self.0.is_nan() && other.0.is_nan())
    }
}

impl Value {
    /// Compares two values of the same type. Some values have no order.
    pub(super) fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Decimal(own), Self::Decimal(other)) => Some(own.cmp(other)),
            (Self::Float(own), Self::Float(other)) if own == other => Some(Ordering::Equal),
            (Self::Float(own), Self::Float(other)) => own.0.partial_cmp(&other.0),
            (Self::Moment(own), Self::Moment(other)) => own.order(other),
            (Self::Duration(own), Self::Duration(other)) => own.order(other),
            _ => None,
        }
    }
}
