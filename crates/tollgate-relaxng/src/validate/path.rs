//! The path of the current element, for messages: `/order/item[2]`.

use crate::name::is_same;
use crate::pattern::Symbol;

#[derive(Debug, Default)]
pub(super) struct Path {
    /// The local names of the open elements, one after another.
    names: String,
    levels: Vec<Level>,
    /// How often each name occurred among the children of each open element.
    counts: Vec<(Symbol, u32)>,
    /// The namespaces of the open elements. Neighbours with the same namespace share an entry.
    namespaces: Vec<Box<str>>,
}

#[derive(Debug)]
struct Level {
    name_start: usize,
    /// Where the counts of its children begin.
    counts_start: usize,
    position: u32,
    /// The number of namespaces up to this level.
    namespaces: usize,
}

/// The number of different names of children that are counted.
const COUNTED_NAMES_MAX: usize = 16;

/// Levels in a message. Those in the middle are left out.
const SHOWN_LEVELS_MAX: usize = 16;

/// Characters of a name in a message.
const SHOWN_NAME_MAX: usize = 64;

impl Path {
    pub(super) fn depth(&self) -> usize {
        self.levels.len()
    }

    /// Enters an element.
    pub(super) fn push(&mut self, namespace: &str, local: &str, name: Symbol) {
        let position = self.count(name);
        if self.namespaces.last().is_none_or(|last| !is_same(last, namespace)) {
            self.namespaces.push(namespace.into());
        }
        self.levels.push(Level {
            name_start: self.names.len(),
            counts_start: self.counts.len(),
            position,
            namespaces: self.namespaces.len(),
        });
        self.names.push_str(local);
    }

    /// Leaves the current element.
    pub(super) fn pop(&mut self) {
        if let Some(level) = self.levels.pop() {
            self.names.truncate(level.name_start);
            self.counts.truncate(level.counts_start);
            let namespaces = self.levels.last().map_or(0, |parent| parent.namespaces);
            self.namespaces.truncate(namespaces);
        }
    }

    /// Counts a child of the current element, and returns its position among those with its name. Zero stands
    /// for a position that is not known.
    fn count(&mut self, name: Symbol) -> u32 {
        let start = self.levels.last().map_or(0, |level| level.counts_start);
        let counts = &mut self.counts[start..];
        if let Some((_, count)) = counts.iter_mut().rev().find(|(own, _)| *own == name) {
            *count = count.saturating_add(1);
            return *count;
        }
        if counts.len() >= COUNTED_NAMES_MAX {
            return 0;
        }
        self.counts.push((name, 1));
        1
    }

    /// Returns the local name of the current element.
    pub(super) fn local(&self) -> String {
        clipped(self.levels.last().map_or("", |level| &self.names[level.name_start..]))
    }

    /// Returns the namespace of the current element.
    pub(super) fn namespace(&self) -> &str {
        self.namespaces.last().map_or("", |namespace| namespace)
    }

    /// Returns the path of the current element, with a bounded length.
    pub(super) fn shown(&self) -> String {
        if self.levels.is_empty() {
            return "/".to_owned();
        }
        let mut shown = String::new();
        let ends = self.levels.iter().skip(1).map(|level| level.name_start).chain([self.names.len()]);
        let hidden = self.levels.len().saturating_sub(SHOWN_LEVELS_MAX);
        for (index, (level, end)) in self.levels.iter().zip(ends).enumerate() {
            let half = SHOWN_LEVELS_MAX / 2;
            if (half..half + hidden).contains(&index) {
                if index == half {
                    shown.push_str("/...");
                }
                continue;
            }
            shown.push('/');
            shown.push_str(&clipped(&self.names[level.name_start..end]));
            if level.position > 1 {
                shown.push_str(&format!("[{}]", level.position));
            }
        }
        shown
    }
}

/// Returns a name with a bounded length.
pub(super) fn clipped(name: &str) -> String {
    match name.char_indices().nth(SHOWN_NAME_MAX) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}
