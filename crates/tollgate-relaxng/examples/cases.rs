//! Writes random schemas in both syntaxes, with documents, into a folder, and prints a verdict for each file.
//! `make relaxng-oracles` compares the verdicts with the verdicts of other validators.
//!
//! Arguments: the folder, the first seed, the number of schemas.

#![allow(missing_docs, clippy::expect_used, clippy::print_stdout, reason = "a program for a check")]

use std::fs;
use std::path::PathBuf;

use tollgate_relaxng::{CompiledSchema, SchemaLimits, Source, ValidationLimits};

#[allow(dead_code, unreachable_pub)]
#[path = "../../../fuzz/src/relaxng/mod.rs"]
mod generated;

use generated::choices::Choices;
use generated::{document, judge, print, schema};

/// The number of documents for a schema.
const DOCUMENTS: usize = 8;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().expect("arguments: folder, first seed, count");
    let folder = PathBuf::from(next());
    let first: u64 = next().parse().expect("a seed");
    let count: u64 = next().parse().expect("a count");
    for seed in first..first + count {
        let input = bytes(seed, 2000);
        let mut choices = Choices::new(&input);
        let grammar = schema::grammar(&mut choices);
        let write =
            |name: String, text: &str| fs::write(folder.join(name), text).expect("the folder is writable");
        let (compact, xml) = (print::compact(&grammar), print::xml(&grammar));
        write(format!("{seed:06}.rnc"), &compact);
        write(format!("{seed:06}.rng"), &xml);
        let schema = compiled(&compact);
        println!("{seed:06}.rnc {}", schema.is_some());
        println!("{seed:06}.rng {}", compiled(&xml).is_some());
        for number in 0..DOCUMENTS {
            let root = document::sample(&grammar, &mut choices);
            write(format!("{seed:06}-{number}.xml"), &print::document(&root));
            let Some(schema) = &schema else { continue };
            let thread = schema.for_thread(ValidationLimits::default());
            let verdict = judge(&thread, &root, &mut choices);
            println!("{seed:06}-{number}.xml {}", verdict.expect("no limit is reached"));
        }
    }
}

fn compiled(text: &str) -> Option<CompiledSchema> {
    let load = |_: &str| Err("no file".to_owned());
    CompiledSchema::compile(Source { path: "schema", text }, &load, &SchemaLimits::default()).ok()
}

/// Returns bytes of a seed (xorshift).
fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut state = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..count).map(|_| byte()).collect()
}
