//! Hostile schemas and documents end at a limit.

use std::fmt::Write;

use tollgate_relaxng::{
    Attribute, CompiledSchema, Fault, Schema, SchemaLimits, Source, Start, ValidationLimits, Validator,
};

use super::faults::schema;

fn start(validator: &mut Validator, local: &str) -> Result<(), tollgate_relaxng::Invalid> {
    let attributes: &[Attribute<'_>] = &[];
    validator.start(&Start { namespace: "", local, attributes, namespaces: &(), byte: 0 })
}

fn bounded(text: &str, limits: ValidationLimits) -> Schema {
    schema(text).compiled().for_thread(limits)
}

/// A schema that has to remember which of the last `count` elements was a `b`.
fn remembering(count: usize) -> String {
    let any = "(a | b)";
    let tail = vec![any; count].join(", ");
    format!("start = element r {{ {any}*, b, {tail} }}\na = element a {{ empty }}\nb = element b {{ empty }}")
}

#[test]
fn a_document_with_too_much_work_ends_at_the_limit() {
    let limits = ValidationLimits { work_max: 20_000, ..ValidationLimits::default() };
    let schema = bounded(&remembering(30), limits);
    let mut validator = Validator::new(&schema);
    start(&mut validator, "r").unwrap();
    let mut random = 1_u64;
    let fault = (0..100_000).find_map(|_| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let name = if random >> 63 == 1 { "a" } else { "b" };
        start(&mut validator, name).and_then(|()| validator.end(&(), 0)).err()
    });
    let fault = fault.unwrap();
    assert_eq!(fault.fault, Fault::Limit);
    assert_eq!(fault.to_string(), "the document needs too much work: limit 20000 units");
    assert!(validator.work() < 30_000, "{}", validator.work());
}

#[test]
fn an_automaton_that_is_emptied_gives_the_same_verdicts() {
    let limits = ValidationLimits { patterns_max: 3000, transitions_max: 100, ..ValidationLimits::default() };
    let schema = bounded(&remembering(12), limits);
    let mut validators: Vec<Validator> = (0..3).map(|_| Validator::new(&schema)).collect();
    for validator in &mut validators {
        start(validator, "r").unwrap();
    }
    let mut random = 1_u64;
    let mut names: Vec<Vec<bool>> = vec![Vec::new(); 3];
    for _ in 0..3000 {
        for (validator, names) in validators.iter_mut().zip(&mut names) {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let is_b = random >> 63 == 1;
            names.push(is_b);
            start(validator, if is_b { "b" } else { "a" }).unwrap();
            validator.end(&(), 0).unwrap();
        }
    }
    for (validator, names) in validators.iter_mut().zip(&names) {
        assert_eq!(validator.end(&(), 0).is_ok(), names[names.len() - 13]);
    }
}

#[test]
fn a_document_that_needs_too_many_states_ends_at_the_limit() {
    let limits = ValidationLimits { patterns_max: 10, ..ValidationLimits::default() };
    let schema = bounded(&remembering(12), limits);
    let mut validator = Validator::new(&schema);
    start(&mut validator, "r").unwrap();
    let fault = (0..100).find_map(|_| start(&mut validator, "b").and_then(|()| validator.end(&(), 0)).err());
    assert_eq!(fault.unwrap().to_string(), "the document has too many states: limit 10 patterns");
}

#[test]
fn elements_and_values_have_bounds() {
    let limits = ValidationLimits { depth_max: 3, data_bytes_max: 10, ..ValidationLimits::default() };
    let schema = bounded("start = a\na = element a { a | xsd:token }", limits);
    let mut validator = Validator::new(&schema);
    for _ in 0..3 {
        start(&mut validator, "a").unwrap();
    }
    let fault = start(&mut validator, "a").unwrap_err();
    assert_eq!(fault.to_string(), "elements are nested too deeply: limit 3 levels");
    let mut validator = Validator::new(&schema);
    start(&mut validator, "a").unwrap();
    validator.text("0123456789", 0).unwrap();
    let fault = validator.text("0", 0).unwrap_err();
    assert_eq!(fault.to_string(), "text of \"/a\" is too long: limit 10 bytes");
}

#[test]
fn a_recursive_schema_has_the_same_states_at_each_depth() {
    let limits = ValidationLimits { depth_max: 100_000, patterns_max: 50, ..ValidationLimits::default() };
    let schema = bounded("start = d\nd = element d { d?, element e { empty }? }", limits);
    let mut validator = Validator::new(&schema);
    for _ in 0..50_000 {
        start(&mut validator, "d").unwrap();
    }
    for _ in 0..50_000 {
        start(&mut validator, "e").unwrap();
        validator.end(&(), 0).unwrap();
        validator.end(&(), 0).unwrap();
    }
}

#[test]
fn a_schema_of_ten_thousand_names_is_compiled_and_used() {
    let mut text = "start = element r { (".to_owned();
    let names: Vec<String> = (0..10_000).map(|index| format!("e{index}")).collect();
    text.push_str(&names.join(" | "));
    text.push_str(")* }\n");
    for name in &names {
        writeln!(text, "{name} = element {name} {{ attribute {name} {{ text }}?, {name}? }}").unwrap();
    }
    let schema = schema(&text);
    let mut validator = Validator::new(&schema);
    start(&mut validator, "r").unwrap();
    for name in names.iter().take(100) {
        start(&mut validator, name).unwrap();
        validator.end(&(), 0).unwrap();
    }
    assert!(start(&mut validator, "e10000").is_err());
}

#[test]
fn a_schema_beyond_a_limit_is_refused_with_the_limit() {
    let check = |text: &str, limits: SchemaLimits, expected: &str| {
        let load = |_: &str| Ok("element a { empty }".to_owned());
        let error = CompiledSchema::compile(Source { path: "s", text }, &load, &limits).unwrap_err();
        assert!(error.fault.contains(expected), "{error}");
    };
    let limits = SchemaLimits::default;
    let deep = format!("element a {{ {}empty{} }}", "(".repeat(300), ")".repeat(300));
    check(&deep, limits(), "nested too deeply: limit 256 levels");
    let long_chain: String = (0..1000).map(|index| format!("d{index} = (d{}, x)\n", index + 1)).collect();
    let chain = format!("start = element a {{ d0 }}\nx = element x {{ empty }}\n{long_chain}d1000 = x");
    check(&chain, limits(), "nested too deeply: limit 256 levels");
    let files = ["external \"f\""; 10].join(", ");
    check(
        &format!("element a {{ {files} }}"),
        SchemaLimits { files_max: 5, ..limits() },
        "too many files: limit 5",
    );
    check("element a { empty }", SchemaLimits { bytes_max: 5, ..limits() }, "19 bytes, limit 5 bytes");
    check(&remembering(100), SchemaLimits { patterns_max: 50, ..limits() }, "limit 50");
    let wild = ["attribute * { text }+"; 40].join(", ");
    let wild = format!("element a {{ {} }}", wild.replace('*', "* - x"));
    check(&wild, SchemaLimits { comparisons_max: 0, ..limits() }, "too many comparisons");
}

#[test]
fn definitions_that_double_their_size_end_at_the_limit() {
    let doubled: String = (0..60).map(|index| format!("d{index} = (d{0} , d{0})\n", index + 1)).collect();
    let text = format!("start = element a {{ d0 }}\n{doubled}d60 = element x {{ empty }}?");
    let load = |_: &str| Err("no file".to_owned());
    let compiled = Schema::compile(Source { path: "s", text: &text }, &load);
    assert!(compiled.unwrap_err().fault.contains("too many patterns"));
}
