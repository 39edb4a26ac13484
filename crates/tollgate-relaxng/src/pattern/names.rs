//! The alphabet of a schema: the names that its name classes can tell apart.
//!
//! Each name that a schema mentions has a symbol. All other names of a namespace that it mentions share one
//! symbol, and so do the names of all other namespaces. A document therefore never adds a symbol.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::{NameSet, Symbol};
use crate::name::{hash, is_same};
use crate::syntax::NameClass;

#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// The names, by the hash of the local name.
    by_hash: HashMap<u64, Vec<Entry>, FixedState>,
    namespaces: Vec<Box<str>>,
    namespace_ids: HashMap<Box<str>, u32, FixedState>,
    count: u32,
}

#[derive(Clone, Debug)]
struct Entry {
    namespace: u32,
    local: Box<str>,
    symbol: Symbol,
}

/// Namespaces that are compared one by one, before a hash is computed.
const FIRST_NAMESPACES: usize = 4;

impl Names {
    /// Adds the names of a class.
    pub(crate) fn add(&mut self, class: &NameClass) {
        match class {
            NameClass::Name { namespace, local } => self.add_name(namespace, local),
            NameClass::AnyName(except) => except.iter().for_each(|except| self.add(except)),
            NameClass::NamespaceName { namespace, except } => {
                self.add_namespace(namespace);
                except.iter().for_each(|except| self.add(except));
            }
            NameClass::Choice(choices) => choices.iter().for_each(|choice| self.add(choice)),
        }
    }

    fn add_namespace(&mut self, namespace: &str) -> u32 {
        if let Some(&id) = self.namespace_ids.get(namespace) {
            return id;
        }
        let id = u32::try_from(self.namespaces.len()).unwrap_or(u32::MAX);
        self.namespaces.push(namespace.into());
        self.namespace_ids.insert(namespace.into(), id);
        id
    }

    fn add_name(&mut self, namespace: &str, local: &str) {
        let id = self.add_namespace(namespace);
        let known = self.by_hash.entry(hash(local)).or_default();
        if known.iter().all(|entry| entry.namespace != id || *entry.local != *local) {
            known.push(Entry { namespace: id, local: local.into(), symbol: Symbol(self.count) });
            self.count += 1;
        }
    }

    /// Returns the number of symbols.
    pub(crate) fn len(&self) -> usize {
        self.count as usize + self.namespaces.len() + 1
    }

    /// Returns the symbol of a name.
    pub(crate) fn symbol(&self, namespace: &str, local: &str) -> Symbol {
        let id = self.namespace_id(namespace);
        if let (Some(id), Some(known)) = (id, self.by_hash.get(&hash(local))) {
            for entry in known {
                if entry.namespace == id && is_same(&entry.local, local) {
                    return entry.symbol;
                }
            }
        }
        self.other_symbol(id)
    }

    fn namespace_id(&self, namespace: &str) -> Option<u32> {
        let first = self.namespaces.iter().take(FIRST_NAMESPACES);
        for (id, known) in (0..).zip(first) {
            if is_same(known, namespace) {
                return Some(id);
            }
        }
        if self.namespaces.len() <= FIRST_NAMESPACES {
            return None;
        }
        self.namespace_ids.get(namespace).copied()
    }

    /// Returns the symbol of the names of a namespace that the schema does not mention.
    fn other_symbol(&self, namespace: Option<u32>) -> Symbol {
        let namespaces = u32::try_from(self.namespaces.len()).unwrap_or(u32::MAX);
        Symbol(self.count + namespace.unwrap_or(namespaces))
    }

    /// Returns the symbols of a class. All its names were added before.
    pub(crate) fn set(&self, class: &NameClass) -> NameSet {
        match class {
            NameClass::Name { namespace, local } => NameSet::One(self.symbol(namespace, local)),
            NameClass::AnyName(except) => {
                let all = (0..self.len()).filter_map(|index| u32::try_from(index).ok());
                self.without(all.map(Symbol), except.as_deref())
            }
            NameClass::NamespaceName { namespace, except } => {
                let id = self.namespace_id(namespace);
                let names = self.by_hash.values().flatten();
                let own = names.filter(|entry| Some(entry.namespace) == id).map(|entry| entry.symbol);
                self.without(own.chain([self.other_symbol(id)]), except.as_deref())
            }
            NameClass::Choice(choices) => {
                let mut set = NameSet::none(self.len());
                choices.iter().for_each(|choice| set.unite(&self.set(choice)));
                set
            }
        }
    }

    fn without(&self, symbols: impl Iterator<Item = Symbol>, except: Option<&NameClass>) -> NameSet {
        let mut set = NameSet::none(self.len());
        symbols.for_each(|symbol| set.insert(symbol));
        if let Some(except) = except {
            set.remove_all(&self.set(except));
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::{NameClass, Names};

    fn name(namespace: &str, local: &str) -> NameClass {
        NameClass::Name { namespace: namespace.to_owned(), local: local.to_owned() }
    }

    #[test]
    fn a_class_contains_the_names_that_it_describes_and_no_others() {
        let any_but_a = NameClass::AnyName(Some(Box::new(name("u", "a"))));
        let u_but_b =
            NameClass::NamespaceName { namespace: "u".to_owned(), except: Some(Box::new(name("u", "b"))) };
        let either = NameClass::Choice(vec![name("u", "a"), name("v", "c")]);
        let mut names = Names::default();
        for class in [&any_but_a, &u_but_b, &either] {
            names.add(class);
        }
        let check = |class: &NameClass, expected: [bool; 6]| {
            let set = names.set(class);
            let asked = [("u", "a"), ("u", "b"), ("u", "z"), ("v", "c"), ("v", "z"), ("w", "a")];
            let found = asked.map(|(namespace, local)| set.contains(names.symbol(namespace, local)));
            assert_eq!(found, expected, "{class:?}");
        };
        check(&any_but_a, [false, true, true, true, true, true]);
        check(&u_but_b, [true, false, true, false, false, false]);
        check(&either, [true, false, false, true, false, false]);
        assert!(names.set(&any_but_a).overlaps(&names.set(&either)));
        assert!(!names.set(&name("u", "a")).overlaps(&names.set(&any_but_a)));
    }
}
