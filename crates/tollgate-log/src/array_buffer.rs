//! Makes the values of array columns.

use crate::column_type::ElementType;
use crate::value::{ARRAY_ELEMENTS_MAX, Array, UnfitValue, Value, array_bytes, encode_value};

/// Collects the elements of an array.
#[derive(Debug)]
pub struct ArrayBuffer {
    element: ElementType,
    count: usize,
    present: Vec<u8>,
    values: Vec<u8>,
}

/// Why an array does not accept an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementError {
    /// The element has another type.
    Type,
    /// The text has U+0000 at this byte.
    Nul(usize),
    /// The array has [`ARRAY_ELEMENTS_MAX`] elements already.
    TooMany,
}

impl From<UnfitValue> for ElementError {
    fn from(unfit: UnfitValue) -> Self {
        match unfit {
            UnfitValue::Type => Self::Type,
            UnfitValue::Nul(at) => Self::Nul(at),
        }
    }
}

impl ArrayBuffer {
    /// Makes an array without elements.
    pub const fn new(element: ElementType) -> Self {
        Self { element, count: 0, present: Vec::new(), values: Vec::new() }
    }

    /// Adds an element.
    ///
    /// # Errors
    /// The array does not accept the element, and stays as it was.
    pub fn push(&mut self, value: Value<'_>) -> Result<(), ElementError> {
        if self.count == ARRAY_ELEMENTS_MAX {
            return Err(ElementError::TooMany);
        }
        encode_value(&mut self.values, value, self.element.column_type())?;
        let (byte, bit) = (self.count / 8, 1 << (self.count % 8));
        self.present.resize(byte + 1, 0);
        if !matches!(value, Value::Null) {
            self.present[byte] |= bit;
        }
        self.count += 1;
        Ok(())
    }

    /// Returns the array.
    pub fn finish(&self) -> OwnedArray {
        // The bound of the count is far below 2^32.
        let count = self.count as u32;
        OwnedArray { bytes: array_bytes(self.element, count, &self.present, &self.values) }
    }
}

/// An array that owns its elements.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnedArray {
    bytes: Vec<u8>,
}

impl OwnedArray {
    /// Returns the array as the value of a column.
    pub fn value(&self) -> Value<'_> {
        Value::Array(Array::of_bytes(&self.bytes))
    }
}

impl From<Array<'_>> for OwnedArray {
    fn from(array: Array<'_>) -> Self {
        Self { bytes: array.bytes().to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_value::{Decimal, DecimalSize};

    use super::*;

    fn elements(array: &OwnedArray) -> Vec<Value<'_>> {
        let Value::Array(array) = array.value() else { panic!("{array:?}") };
        assert_eq!(array.elements().len(), array.elements().count());
        array.elements().collect()
    }

    #[test]
    fn an_array_has_its_elements_in_order_and_nulls_between_them() {
        let mut buffer = ArrayBuffer::new(ElementType::Text);
        assert_eq!(elements(&buffer.finish()), []);
        let values: Vec<_> =
            (0..20).map(|n| if n % 3 == 0 { Value::Null } else { Value::Text("a") }).collect();
        values.iter().for_each(|value| buffer.push(*value).unwrap());
        let array = buffer.finish();
        assert_eq!(elements(&array), values);
        assert_eq!(array.value().column_type().unwrap().name(), "text[]");
        assert!(format!("{:?}", array.value()).starts_with("Array([Null, Text(\"a\"), "));
    }

    #[test]
    fn an_array_refuses_an_element_that_its_column_cannot_hold() {
        let mut buffer = ArrayBuffer::new(ElementType::Text);
        assert_eq!(buffer.push(Value::Int(1)), Err(ElementError::Type));
        assert_eq!(buffer.push(Value::Text("a\0")), Err(ElementError::Nul(1)));
        for _ in 0..ARRAY_ELEMENTS_MAX {
            buffer.push(Value::Text("")).unwrap();
        }
        assert_eq!(buffer.push(Value::Null), Err(ElementError::TooMany));
        let mut prices = ArrayBuffer::new(ElementType::Decimal(DecimalSize::new(3, 1)));
        let push =
            |prices: &mut ArrayBuffer, text| prices.push(Value::Decimal(Decimal::parse(text).unwrap()));
        assert_eq!(push(&mut prices, "12.5"), Ok(()));
        assert_eq!(push(&mut prices, "12"), Err(ElementError::Type));
        assert_eq!(push(&mut prices, "123.5"), Err(ElementError::Type));
    }
}
