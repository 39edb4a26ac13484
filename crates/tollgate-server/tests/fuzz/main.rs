//! The fuzz targets without a fuzzer: their corpus, and mutations of it by a fixed seed. `make fuzz` goes further.

// The functions of the targets are shared with a crate of its own, where they are public.
#![allow(unreachable_pub, missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;

#[path = "../../../../fuzz/src/lib.rs"]
mod fuzz;

use fuzz::connection::Connections;
use fuzz::files::Site;
use fuzz::mutate::Random;

const SEED: u64 = 20_261_121;

/// Checks each file of the corpus, then so many mutations. What fails is told as it was checked.
fn run(target: &str, mutations: usize, check: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let corpus: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    assert!(!corpus.is_empty(), "the corpus of {target} is there");
    corpus.iter().for_each(|input| check(input));
    let mut random = Random::new(SEED);
    for _ in 0..mutations {
        let mut input = corpus[random.below(corpus.len())].clone();
        random.mutate(&mut input, &corpus);
        check(&input);
    }
}

#[test]
fn heads_read_as_the_rules_say() {
    run("head", 30_000, fuzz::head::check);
}

#[test]
fn chunked_bodies_read_as_the_rules_say() {
    run("chunked", 30_000, fuzz::chunked::check);
}

#[test]
fn targets_and_paths_read_as_the_rules_say() {
    run("path", 30_000, fuzz::path::check);
}

#[test]
fn whole_connections_are_answered_as_the_rules_say() {
    let connections = Connections::new();
    run("connection", 10_000, |input| connections.check(input));
}

#[test]
fn files_are_found_as_the_rules_say() {
    let site = Site::new();
    run("files", 20_000, |input| site.check(input));
}
