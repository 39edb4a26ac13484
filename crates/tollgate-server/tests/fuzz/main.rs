//! Replays the corpus of the fuzz targets without a fuzzer. The test also checks mutations of the corpus,
//! with a fixed seed. `make fuzz` searches further with coverage feedback.

// The functions of the targets are shared with the fuzz crate, in which they are public.
#![allow(unreachable_pub, missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod corpus;
#[path = "../../../../fuzz/src/lib.rs"]
mod fuzz;

use corpus::Corpus;
use fuzz::connection::Connections;
use fuzz::files::Site;
use fuzz::folder::Folders;
use fuzz::mutate::Random;
use fuzz::tls::Sessions;

const SEED: u64 = 20_261_121;

/// The targets, with the number of named seeds and of packed inputs. `fuzz/minimise` prints the new numbers.
const INPUTS: [(&str, usize, usize); 7] = [
    ("head", 31, 851),
    ("chunked", 27, 134),
    ("path", 30, 1004),
    ("connection", 30, 1266),
    ("files", 36, 1300),
    ("folder", 42, 130),
    ("tls", 21, 0),
];

/// Checks each input of the corpus, and then `mutations` mutations. A check that fails prints its input.
fn run(target: &str, mutations: usize, check: impl Fn(&[u8])) {
    let corpus = Corpus::read(target).into_inputs();
    corpus.iter().for_each(|input| check(input));
    let mut random = Random::new(SEED);
    for _ in 0..mutations {
        let mut input = corpus[random.below(corpus.len())].clone();
        random.mutate(&mut input, &corpus);
        check(&input);
    }
}

#[test]
fn the_corpus_has_all_inputs_that_were_put_into_it() {
    let found = INPUTS.map(|(target, ..)| {
        let Corpus { named, packed } = Corpus::read(target);
        (target, named.len(), packed.len())
    });
    assert_eq!(found, INPUTS);
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

#[test]
fn paths_of_a_folder_are_found_as_the_rules_say_without_the_engine() {
    let folders = Folders::new();
    run("folder", 20_000, |input| folders.check(input));
}

#[test]
fn content_inside_tls_arrives_whole_or_with_an_error() {
    let sessions = Sessions::new();
    run("tls", 3_000, |input| sessions.check(input));
}
