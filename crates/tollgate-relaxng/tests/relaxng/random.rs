//! Random schemas and documents against a plain derivative: the functions of the fuzz targets, from a seed.

use super::generated;

/// A generator of bytes (xorshift), so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let byte = |own: &mut Self| {
            own.0 ^= own.0 << 13;
            own.0 ^= own.0 >> 7;
            own.0 ^= own.0 << 17;
            own.0.to_le_bytes()[3]
        };
        (0..count).map(|_| byte(self)).collect()
    }
}

#[test]
fn random_documents_get_the_verdict_of_a_derivative_without_tables() {
    for seed in 1..=3000_u64 {
        let input = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)).bytes(400);
        let checked = std::panic::catch_unwind(|| generated::check(&input));
        assert!(checked.is_ok(), "seed {seed}");
    }
}

#[test]
fn mutated_schemas_have_a_fault_with_a_place_and_never_panic() {
    let schemas = [
        "default namespace = \"urn:o\"\nstart = order\norder = element order { attribute id { xsd:integer }, \
         element line { mixed { list { xsd:decimal+ } } }*, (text & element * - o:* { empty }?) }",
        "<grammar xmlns=\"http://relaxng.org/ns/structure/1.0\"><start><element name=\"a\"><choice><text/>\
         <value>x</value></choice></element></start><define name=\"b\"><ref name=\"b\"/></define></grammar>",
    ];
    let words = [
        "{", "}", "(", ")", "|", "&", ",", "\"", "~", "\\x{41}", "=", "<", "/>", "&lt;", "#", "[", "]", ">>",
        "-", "*",
    ];
    for seed in 1..=3000_u64 {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut text = schemas[usize::from(random.bytes(1)[0]) % 2].as_bytes().to_vec();
        for _ in 0..=random.bytes(1)[0] % 4 {
            let bytes = random.bytes(3);
            let at = (usize::from(bytes[0]) * 256 + usize::from(bytes[1])) % text.len();
            let word = words[usize::from(bytes[2]) % words.len()];
            let end = (at + usize::from(bytes[2]) % 3).min(text.len());
            text.splice(at..end, word.bytes());
        }
        generated::check_schema(&text);
    }
}
