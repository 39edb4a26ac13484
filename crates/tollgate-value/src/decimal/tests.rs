//! Decimal numbers: their digits, their bounds and their text.

use proptest::prelude::*;

use super::*;

fn check(text: &str, expect: Option<&str>) {
    assert_eq!(Decimal::parse(text).map(|value| value.to_string()).as_deref(), expect, "{text}");
}

#[test]
fn a_number_keeps_all_its_digits() {
    check("12.34", Some("12.34"));
    check("-0.010", Some("-0.010"));
    check("1.50", Some("1.50"));
    check("0", Some("0"));
    check("-0.00", Some("0.00"));
    check("007", Some("7"));
    check("1e3", Some("1000"));
    check("1.25E+1", Some("12.5"));
    check("125e-5", Some("0.00125"));
    check("18446744073709551616", Some("18446744073709551616"));
    check("0.1000000000000000055511151231257827021", Some("0.1000000000000000055511151231257827021"));
}

#[test]
fn a_number_has_at_most_38_digits() {
    let nines = "9".repeat(38);
    check(&nines, Some(&nines));
    check(&format!("-{nines}"), Some(&format!("-{nines}")));
    check(&"9".repeat(39), None);
    check("1e37", Some(&format!("1{}", "0".repeat(37))));
    check("1e38", None);
    check("1e-38", Some(&format!("0.{}1", "0".repeat(37))));
    check("1e-39", None);
    check(&format!("1.{}", "0".repeat(60)), Some(&format!("1.{}", "0".repeat(37))));
    check(&format!("{nines}.0"), Some(&nines));
    check(&format!("1.{}5", "0".repeat(38)), None);
    check("0e-100", Some(&format!("0.{}", "0".repeat(38))));
    check("1e999999999999999999", None);
    check("1e-9223372036854775808", None);
}

#[test]
fn another_text_is_no_number() {
    for text in ["", "-", "x", ".5", "5.", "+1", " 1", "1 ", "1_000", "0x1", "NaN", "inf", "1e", "1,5", "--1"]
    {
        check(text, None);
    }
}

#[test]
fn a_size_takes_a_number_that_loses_no_digit() {
    let size = DecimalSize::new(5, 2).unwrap();
    let sized = |text: &str| {
        Decimal::parse(text).unwrap().with_size(size).map(|value| value.to_string()).unwrap_or_default()
    };
    assert_eq!(sized("1"), "1.00");
    assert_eq!(sized("1.5"), "1.50");
    assert_eq!(sized("-1.500"), "-1.50");
    assert_eq!(sized("999.99"), "999.99");
    assert_eq!(sized("1.234"), "");
    assert_eq!(sized("1000"), "");
    assert_eq!(sized("99999999999999999999999999999999999999"), "");
    assert_eq!(size.to_string(), "5,2");
    let possible = |precision, scale| DecimalSize::new(precision, scale).is_some();
    assert!(possible(1, 0) && possible(38, 38));
    assert!(!possible(0, 0) && !possible(39, 0) && !possible(2, 3));
}

#[test]
fn a_double_is_a_decimal_only_where_it_is_exactly_one() {
    let of_double = |value: f64| Decimal::of_double(value).map(|value| value.to_string());
    assert_eq!(of_double(0.5).as_deref(), Some("0.5"));
    assert_eq!(of_double(-12.25).as_deref(), Some("-12.25"));
    assert_eq!(of_double(300.0).as_deref(), Some("300"));
    assert_eq!(of_double(1e22).as_deref(), Some("10000000000000000000000"));
    for value in [0.1, 12.34, 1e300, f64::MIN_POSITIVE, f64::NAN, f64::INFINITY] {
        assert_eq!(of_double(value), None, "{value}");
    }
}

proptest! {
    #[test]
    fn a_number_reads_as_it_was_written(coefficient: i128, scale in 0..=Decimal::DIGITS_MAX) {
        let coefficient = coefficient % 10_i128.pow(Decimal::DIGITS_MAX.into());
        let value = Decimal::new(coefficient, scale).unwrap();
        prop_assert_eq!(Decimal::parse(&value.to_string()), Some(value));
        prop_assert_eq!((value.coefficient(), value.scale()), (coefficient, scale));
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "-?[0-9.]{0,60}([eE][-+]?[0-9]{0,20})?") {
        if let Some(value) = Decimal::parse(&text) {
            prop_assert_eq!(Decimal::parse(&value.to_string()), Some(value));
        }
    }
}
