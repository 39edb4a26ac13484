//! Random paths and documents, cut at random, beside the plain evaluator.

use std::collections::HashMap;

use proptest::prelude::*;
use tollgate_xml::{Attributes, Events, Found, Limits, Name, PathMatcher, PathSet, Reader, Stop};

use crate::NAMESPACES;
use crate::tree::{Element, Node, Predicate, Step, Target, evaluate};

const TEXTS: [&str; 4] = ["x", "y", "xy", ""];
const LOCALS: [&str; 2] = ["a", "b"];
const ATTRIBUTES: [&str; 2] = ["i", "j"];

fn one_of<T: Clone + std::fmt::Debug + 'static>(values: &'static [T]) -> impl Strategy<Value = T> {
    prop::sample::select(values)
}

fn element() -> impl Strategy<Value = Element> {
    let name = || (one_of(&["", "", "urn:p", "urn:q"]), one_of(&LOCALS));
    let attributes = || {
        let values = (prop::option::of(one_of(&TEXTS)), prop::option::of(one_of(&TEXTS)));
        values.prop_map(|(first, second)| {
            let named = ATTRIBUTES.into_iter().zip([first, second]);
            named.filter_map(|(name, value)| Some((name, value?))).collect::<Vec<_>>()
        })
    };
    let leaf =
        (name(), attributes()).prop_map(|(name, attributes)| Element { name, attributes, children: vec![] });
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let node = prop_oneof![
            3 => inner.prop_map(Node::Element),
            1 => one_of(&["x", "y", "xy"]).prop_map(Node::Text),
        ];
        (name(), attributes(), prop::collection::vec(node, 0..4))
            .prop_map(|(name, attributes, children)| Element { name, attributes, children })
    })
}

fn step() -> impl Strategy<Value = Step> {
    let test = one_of(&[
        (None, None),
        (Some("urn:p"), None),
        (Some(""), Some("a")),
        (Some(""), Some("b")),
        (Some(""), Some("a")),
        (Some("urn:q"), Some("b")),
    ]);
    let predicate = prop_oneof![
        Just(Predicate::First),
        one_of(&ATTRIBUTES).prop_map(Predicate::Has),
        (one_of(&ATTRIBUTES), any::<bool>(), one_of(&TEXTS))
            .prop_map(|(name, is_equal, text)| Predicate::Compares(name, is_equal, text)),
    ];
    (test, prop::collection::vec(predicate, 0..3)).prop_map(|(test, predicates)| Step {
        is_descendant: false,
        test,
        predicates,
    })
}

fn path() -> impl Strategy<Value = (Vec<Step>, Target)> {
    let target = prop_oneof![
        2 => Just(Target::Element),
        1 => one_of(&ATTRIBUTES).prop_map(Target::Attribute),
        1 => (one_of(&ATTRIBUTES), any::<bool>(), one_of(&TEXTS))
            .prop_map(|(name, is_equal, text)| Target::AttributeCompares(name, is_equal, text)),
        1 => (any::<bool>(), one_of(&TEXTS))
            .prop_map(|(is_equal, text)| Target::TextCompares(is_equal, text)),
    ];
    (prop::collection::vec(step(), 1..4), prop::option::of(any::<prop::sample::Index>()), target).prop_map(
        |(mut steps, descendant, target)| {
            if let Some(place) = descendant {
                let place = place.index(steps.len());
                steps[place].is_descendant = true;
            }
            (steps, target)
        },
    )
}

/// Collects what each path finds. Elements are their texts.
struct Finder<'a> {
    set: &'a PathSet,
    matcher: PathMatcher,
    found: Vec<Vec<String>>,
    /// Rule, depth and text of each open element.
    open: Vec<(usize, usize, String)>,
    may_match: HashMap<usize, bool>,
}

impl Finder<'_> {
    /// Notes which paths are decided. A path that finds something later was not decided before.
    fn note(&mut self) {
        for rule in 0..self.set.len() {
            let may = self.matcher.may_match(self.set, rule);
            self.may_match.insert(rule, may);
        }
    }
}

impl Events for Finder<'_> {
    fn start(&mut self, name: Name<'_>, attributes: &Attributes<'_>) -> Result<(), Stop> {
        let depth = self.matcher.depth() + 1;
        let Self { set, matcher, found, open, may_match } = self;
        matcher.start(set, name, attributes, |rule, what| {
            assert!(may_match.get(&rule).is_none_or(|may| *may), "path {rule} was decided");
            match what {
                Found::Element => open.push((rule, depth, String::new())),
                Found::Attribute(value) => found[rule].push(format!("@{value}")),
                Found::True => found[rule].push("true".to_owned()),
                Found::End => unreachable!(),
            }
        });
        self.note();
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), Stop> {
        self.matcher.text(self.set, text);
        self.open.iter_mut().for_each(|open| open.2.push_str(text));
        Ok(())
    }

    fn end(&mut self, _: Name<'_>) -> Result<(), Stop> {
        let Self { set, matcher, found, open, may_match } = self;
        matcher.end(set, |rule, what| match what {
            Found::End => {
                let place = open.iter().rposition(|known| known.0 == rule).unwrap();
                found[rule].push(format!("<{}", open.remove(place).2));
            }
            what => {
                assert!(may_match[&rule], "path {rule} was decided");
                assert_eq!(what, Found::True);
                found[rule].push("true".to_owned());
            }
        });
        self.note();
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn paths_find_what_a_plain_evaluator_of_the_tree_finds(
        root in element(),
        paths in prop::collection::vec(path(), 1..6),
        piece_bytes in 1_usize..200,
    ) {
        let texts: Vec<String> = paths
            .iter()
            .map(|(steps, target)| steps.iter().map(Step::shown).collect::<String>() + &target.shown())
            .collect();
        let set = PathSet::new(texts.iter().map(String::as_str), &NAMESPACES).unwrap();
        let mut finder = Finder {
            set: &set,
            matcher: PathMatcher::new(&set),
            found: vec![Vec::new(); set.len()],
            open: Vec::new(),
            may_match: HashMap::new(),
        };
        let document = root.xml();
        let mut reader = Reader::new(Limits::default());
        for piece in document.as_bytes().chunks(piece_bytes) {
            reader.feed(piece, &mut finder).unwrap();
        }
        reader.finish(&mut finder).unwrap();
        for (rule, (steps, target)) in paths.iter().enumerate() {
            let mut expected = evaluate(&root, steps, target);
            expected.sort();
            finder.found[rule].sort();
            prop_assert_eq!(&finder.found[rule], &expected, "{} in {}", texts[rule], document);
        }
    }
}
