//! Measures a route lookup among one route and among ten thousand. The program prints figures and asserts
//! nothing. `cargo run --release -p tollgate-http --example route_speed`

use std::hint::black_box;
use std::time::Instant;

use tollgate_http::route::{RouteTable, Routed};
use tollgate_http::{Method, Methods};

const LOOKUPS: usize = 1_000_000;
const ROUNDS: u32 = 7;
const MANY: usize = 10_000;

/// A pattern and a path that matches it. `N` is the number of the route.
const KINDS: [(&str, &str, &str); 6] = [
    ("literal", "/rN", "/rN"),
    ("literal, four segments", "/api/v1/rN/list", "/api/v1/rN/list"),
    ("capture", "/rN/{id}", "/rN/4711"),
    ("capture, four segments", "/api/{tenant}/rN/{id}", "/api/acme/rN/4711"),
    ("tail", "/rN/*", "/rN/css/main.css"),
    ("nothing there", "/rN", "/none"),
];

fn main() {
    println!("ns a lookup, best of {ROUNDS} rounds; in the last column another route each time");
    println!("{:<24} {:>8} {:>8} {:>7} {:>8}", "", "1", MANY, "ratio", "all");
    for (name, pattern, path) in KINDS {
        let path = path.replace('N', "0");
        let one = measure(&table(pattern, 1), &[&path]);
        let many = table(pattern, MANY);
        let same = measure(&many, &[&path]);
        let paths: Vec<_> = (0..MANY).map(|index| pattern_path(name, index)).collect();
        let paths: Vec<_> = paths.iter().map(String::as_str).collect();
        let all = measure(&many, &paths);
        println!("{name:<24} {one:>8.1} {same:>8.1} {:>7.2} {all:>8.1}", same / one);
    }
}

fn pattern_path(name: &str, index: usize) -> String {
    let kind = KINDS.iter().find(|(known, ..)| *known == name);
    kind.map(|(.., path)| path.replace('N', &index.to_string())).unwrap_or_default()
}

fn table(pattern: &str, count: usize) -> RouteTable<usize> {
    let mut table = RouteTable::default();
    for index in 0..count {
        let pattern = pattern.replace('N', &index.to_string());
        table.insert(None, &pattern, Methods::from_iter([Method::Get]), index);
    }
    table
}

/// Returns the shortest mean time of a lookup in nanoseconds. The lookups use each of `paths` in turn.
fn measure(table: &RouteTable<usize>, paths: &[&str]) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for path in paths.iter().cycle().take(LOOKUPS) {
            if let Routed::Found(found) = table.find(|| None, black_box(path.as_bytes()), Method::Get) {
                black_box((found.endpoint(), found.place(path.as_bytes())));
            }
        }
        best = best.min(began.elapsed().as_secs_f64() * 1e9 / LOOKUPS as f64);
    }
    best
}
