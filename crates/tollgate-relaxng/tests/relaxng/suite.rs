//! James Clark's test suite for RELAX NG, unchanged, in the file `suite/spectest.xml`. Its licence is the
//! file `suite/copying.txt`.

use std::collections::HashMap;

use quick_xml::Reader;
use quick_xml::events::Event;
use tollgate_relaxng::{Schema, Source};

use super::feed::validate;

const SUITE: &str = include_str!("suite/spectest.xml");

/// Cases that we judge in another way, by number, with the reason.
const EXCEPTIONS: [(usize, &str); 5] = [(70, NAMES), (72, NAMES), (73, NAMES), (74, NAMES), (79, NAMES)];
const NAMES: &str = "the fifth edition of XML 1.0 allows U+0E35 as the first character of a name";

#[derive(Debug, Default)]
struct Case {
    number: usize,
    section: String,
    schema: String,
    is_correct: bool,
    /// Files that the schema includes.
    files: HashMap<String, String>,
    /// Documents, and whether they are valid.
    documents: Vec<(bool, String)>,
}

/// Returns the cases. Schemas and documents are slices of the text of the suite.
fn cases() -> Vec<Case> {
    let text = SUITE.replace("&dii;", "<\u{E14}\u{E35}/>");
    let mut reader = Reader::from_str(&text);
    let (mut cases, mut case, mut folders) = (Vec::new(), Case::default(), Vec::new());
    loop {
        match reader.read_event().unwrap() {
            Event::Eof => return cases,
            Event::Start(start) => {
                let name = start.name();
                let name: &str = name.as_ref();
                let file = || {
                    let attribute = start.attributes().next().unwrap().unwrap();
                    let value: &str = &attribute.value;
                    value.to_owned()
                };
                let inner = |reader: &mut Reader<&[u8]>| {
                    let span = reader.read_to_end(start.name()).unwrap();
                    let span = usize::try_from(span.start).unwrap()..usize::try_from(span.end).unwrap();
                    text[span].to_owned()
                };
                match name {
                    "testCase" => {
                        case = Case { number: cases.len() + 1, ..Case::default() };
                        folders.clear();
                    }
                    "section" => case.section = inner(&mut reader),
                    "correct" | "incorrect" => {
                        case.is_correct = name == "correct";
                        case.schema = inner(&mut reader);
                    }
                    "valid" | "invalid" => case.documents.push((name == "valid", inner(&mut reader))),
                    "dir" => folders.push(file()),
                    "resource" => {
                        let path = folders.iter().chain([&file()]).cloned().collect::<Vec<_>>().join("/");
                        case.files.insert(path, inner(&mut reader));
                    }
                    _ => {}
                }
            }
            Event::End(end) => match end.name().as_ref() {
                "testCase" => cases.push(std::mem::take(&mut case)),
                "dir" => {
                    folders.pop();
                }
                _ => {}
            },
            _ => {}
        }
    }
}

impl Case {
    /// Returns what is judged in another way than the suite expects.
    fn faults(&self) -> Vec<String> {
        let load = |path: &str| self.files.get(path).cloned().ok_or_else(|| "is not there".to_owned());
        let compiled = Schema::compile(Source { path: "schema", text: &self.schema }, &load);
        let place = format!("case {} (section {})", self.number, self.section);
        let schema = match (compiled, self.is_correct) {
            (Ok(schema), true) => schema,
            (Err(_), false) => return Vec::new(),
            (Ok(_), false) => return vec![format!("{place}: the schema is accepted\n{}", self.schema)],
            (Err(error), true) => return vec![format!("{place}: {error}\n{}", self.schema)],
        };
        let mut faults = Vec::new();
        for (is_valid, document) in &self.documents {
            let judged = validate(&schema, document);
            if judged.is_ok() != *is_valid {
                let reason = judged.map_or_else(|reason| reason.to_string(), |()| "valid".to_owned());
                faults.push(format!("{place}: {reason} for {document}\n{}", self.schema));
            }
        }
        faults
    }
}

#[test]
fn the_test_suite_of_james_clark_is_judged_as_it_expects() {
    let cases = cases();
    assert_eq!(cases.len(), 385);
    assert_eq!(cases.iter().map(|case| case.documents.len()).sum::<usize>(), 580);
    let mut failed = String::new();
    for case in &cases {
        let is_exception = EXCEPTIONS.iter().any(|(number, _)| *number == case.number);
        let faults = case.faults();
        assert!(!is_exception || !faults.is_empty(), "case {} is no exception any more", case.number);
        if !is_exception {
            faults.iter().for_each(|fault| failed.push_str(&format!("{fault}\n")));
        }
    }
    assert!(failed.is_empty(), "{failed}");
}
