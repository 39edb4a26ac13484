//! Finds the values at several paths of a JSON value in one pass (RFC 6901).

use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::halves::Name;
use crate::options::stream::{FieldPath, pointer_to};

/// A tree of paths. Each path has an index.
#[derive(Debug, Default)]
pub(crate) struct PathTree {
    /// The indexes of the paths that end here.
    places: Vec<usize>,
    children: Vec<(String, Self)>,
}

/// The values that were found.
#[derive(Debug)]
pub(crate) struct FoundValues<'v> {
    /// The value of each path, by index. An absent value is `None`.
    pub(crate) values: Vec<Option<&'v RawValue>>,
    /// JSON Pointers to values that no path has. `None` if they are not listed.
    pub(crate) unknown: Option<UnknownPaths>,
}

/// A limited list of JSON Pointers.
#[derive(Debug, Default)]
pub(crate) struct UnknownPaths {
    /// The pointers so far. The list has at most [`UNKNOWN_MAX`] pointers.
    pub(crate) listed: Vec<String>,
    /// The names on the way to the current value.
    at: Vec<String>,
}

/// Maximum number of unknown fields that a reason names.
pub(crate) const UNKNOWN_MAX: usize = 8;

impl PathTree {
    /// Creates a tree of paths. The index of a path is its position.
    pub(crate) fn of<'p>(paths: impl IntoIterator<Item = &'p FieldPath>) -> Self {
        let mut tree = Self::default();
        for (place, path) in paths.into_iter().enumerate() {
            tree.add(path.tokens(), place);
        }
        tree
    }

    /// Adds a path with an index.
    pub(super) fn add(&mut self, tokens: &[String], place: usize) {
        match tokens {
            [] => self.places.push(place),
            [name, rest @ ..] => self.child(name).add(rest, place),
        }
    }

    fn child(&mut self, name: &str) -> &mut Self {
        let known = self.children.iter().position(|(known, _)| known == name);
        let index = known.unwrap_or_else(|| {
            self.children.push((name.to_owned(), Self::default()));
            self.children.len() - 1
        });
        &mut self.children[index].1
    }

    /// Finds the values below `value`. `found` has a place for each index.
    ///
    /// # Errors
    /// A field with a path is repeated.
    pub(crate) fn find<'v>(&self, value: &'v RawValue, found: &mut FoundValues<'v>) -> Result<(), String> {
        self.read(value, found).map_err(|error| format!("item: {error}"))
    }

    fn read<'v>(&self, value: &'v RawValue, found: &mut FoundValues<'v>) -> serde_json::Result<()> {
        for &place in &self.places {
            if found.values[place].replace(value).is_some() {
                return Err(serde_json::Error::custom("a field is repeated"));
            }
        }
        // A value that has a path is known with all its parts.
        let unknown = if self.places.is_empty() { None } else { found.unknown.take() };
        let mut json = serde_json::Deserializer::from_str(value.get());
        match value.get().as_bytes().first() {
            _ if self.children.is_empty() => {}
            Some(b'{') => json.deserialize_map(PartReader { tree: self, found })?,
            Some(b'[') => json.deserialize_seq(PartReader { tree: self, found })?,
            Some(b'n') => {}
            _ => found.note_unknown(None),
        }
        if unknown.is_some() {
            found.unknown = unknown;
        }
        Ok(())
    }

    /// Returns the JSON of a value with only the parts that have a path. All other parts become `hidden`.
    pub(super) fn masked(&self, value: &RawValue, hidden: &str) -> String {
        let mut json = serde_json::Deserializer::from_str(value.get());
        let masked = match value.get().as_bytes().first() {
            _ if !self.places.is_empty() => return value.get().to_owned(),
            Some(b'{') => json.deserialize_map(MaskedReader { tree: self, hidden }),
            Some(b'[') if !self.children.is_empty() => {
                json.deserialize_seq(MaskedReader { tree: self, hidden })
            }
            _ => return hidden.to_owned(),
        };
        masked.unwrap_or_else(|_| hidden.to_owned())
    }

    fn child_at(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|(known, _)| known == name).map(|(_, child)| child)
    }

    /// Returns the child for an element of an array. A token is an index if it has no leading zeros (RFC 6901
    /// section 4).
    fn element(&self, index: usize) -> Option<&Self> {
        self.child_at(&index.to_string())
    }
}

impl UnknownPaths {
    /// Returns the pointers in quotes.
    pub(crate) fn quoted(self) -> impl Iterator<Item = String> {
        self.listed.into_iter().map(|pointer| format!("{pointer:?}"))
    }
}

impl<'v> FoundValues<'v> {
    pub(crate) fn new(count: usize, lists_unknown: bool) -> Self {
        Self { values: vec![None; count], unknown: lists_unknown.then(UnknownPaths::default) }
    }

    /// Reads a part of a value.
    pub(super) fn read_part(
        &mut self,
        name: &str,
        tree: Option<&PathTree>,
        part: &'v RawValue,
    ) -> serde_json::Result<()> {
        let Some(tree) = tree else {
            self.note_unknown(Some(name));
            return Ok(());
        };
        if let Some(unknown) = &mut self.unknown {
            unknown.at.push(name.to_owned());
        }
        tree.read(part, self)?;
        if let Some(unknown) = &mut self.unknown {
            unknown.at.pop();
        }
        Ok(())
    }

    /// Notes that the current value, or one of its fields, has no path.
    fn note_unknown(&mut self, name: Option<&str>) {
        if let Some(unknown) = &mut self.unknown
            && unknown.listed.len() < UNKNOWN_MAX
        {
            let tokens = unknown.at.iter().map(String::as_str).chain(name);
            unknown.listed.push(pointer_to(tokens));
        }
    }
}

/// Reads the parts of an object or an array.
struct PartReader<'t, 'f, 'v> {
    tree: &'t PathTree,
    found: &'f mut FoundValues<'v>,
}

impl<'v> Visitor<'v> for PartReader<'_, '_, 'v> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'v>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Name(name)) = map.next_key()? {
            let part = map.next_value()?;
            let tree = self.tree.child_at(&name);
            self.found.read_part(&name, tree, part).map_err(A::Error::custom)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'v>>(self, mut array: A) -> Result<(), A::Error> {
        let mut index = 0;
        while let Some(part) = array.next_element()? {
            let tree = self.tree.element(index);
            self.found.read_part(&index.to_string(), tree, part).map_err(A::Error::custom)?;
            index += 1;
        }
        Ok(())
    }
}

/// Writes an object or an array with only the parts that have a path.
struct MaskedReader<'t> {
    tree: &'t PathTree,
    hidden: &'t str,
}

impl MaskedReader<'_> {
    fn part(&self, tree: Option<&PathTree>, part: &RawValue) -> String {
        tree.map_or_else(|| self.hidden.to_owned(), |tree| tree.masked(part, self.hidden))
    }
}

impl<'v> Visitor<'v> for MaskedReader<'_> {
    type Value = String;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'v>>(self, mut map: A) -> Result<String, A::Error> {
        let mut fields = std::collections::BTreeMap::new();
        while let Some((Name(name), part)) = map.next_entry::<Name, &RawValue>()? {
            let part = self.part(self.tree.child_at(&name), part);
            fields.insert(name, part);
        }
        let fields =
            fields.into_iter().map(|(name, part)| format!("{}:{part}", serde_json::Value::from(name)));
        Ok(format!("{{{}}}", fields.collect::<Vec<_>>().join(",")))
    }

    fn visit_seq<A: SeqAccess<'v>>(self, mut array: A) -> Result<String, A::Error> {
        let mut elements = Vec::new();
        while let Some(part) = array.next_element()? {
            elements.push(self.part(self.tree.element(elements.len()), part));
        }
        Ok(format!("[{}]", elements.join(",")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(paths: &[&str]) -> PathTree {
        let paths: Vec<_> = paths.iter().map(|path| FieldPath::parse(path).unwrap()).collect();
        PathTree::of(&paths)
    }

    fn check(paths: &[&str], json: &str, values: &[Option<&str>], unknown: &[&str]) {
        let value: &RawValue = serde_json::from_str(json).unwrap();
        let mut found = FoundValues::new(paths.len(), true);
        tree(paths).find(value, &mut found).unwrap();
        let texts: Vec<_> = found.values.iter().map(|value| value.map(RawValue::get)).collect();
        assert_eq!(texts, values, "{json}");
        assert_eq!(found.unknown.unwrap().listed, unknown, "{json}");
    }

    #[test]
    fn values_are_found_in_objects_and_arrays() {
        check(&["/a/b"], r#"{"a":{"b":1}}"#, &[Some("1")], &[]);
        check(&["/a/b", "/a"], r#"{"a":{"b":1,"c":2}}"#, &[Some("1"), Some(r#"{"b":1,"c":2}"#)], &[]);
        check(&["/a/0/b", "/a/1"], r#"{"a":[{"b":1},null]}"#, &[Some("1"), Some("null")], &[]);
        check(&["/a/b"], r#"{"a":null}"#, &[None], &[]);
        check(&["/a/01", "/a/-"], r#"{"a":[1,2]}"#, &[None, None], &["/a/0", "/a/1"]);
        check(&["/a~1b/c"], r#"{"a\/b":{"\u0063":[]}}"#, &[Some("[]")], &[]);
    }

    #[test]
    fn parts_without_a_path_are_listed_by_their_pointer() {
        check(&["/a/b"], r#"{"a":{"c":1,"b":2},"d":3}"#, &[Some("2")], &["/a/c", "/d"]);
        check(&["/a/b"], r#"{"a":5}"#, &[None], &["/a"]);
        check(&["/a/b"], r#"{"a":{"~/":1}}"#, &[None], &["/a/~0~1"]);
        let many = format!("{{{}}}", (0..9).map(|n| format!("\"{n}\":1")).collect::<Vec<_>>().join(","));
        let listed = ["/0", "/1", "/2", "/3", "/4", "/5", "/6", "/7"];
        check(&["/a"], &many, &[None], &listed);
    }

    #[test]
    fn a_repeated_field_is_an_error() {
        let value: &RawValue = serde_json::from_str(r#"{"a":{"b":1,"b":2}}"#).unwrap();
        let error = tree(&["/a/b"]).find(value, &mut FoundValues::new(1, false)).unwrap_err();
        assert!(error.contains("repeated"), "{error}");
    }

    #[test]
    fn a_mask_keeps_the_parts_with_a_path() {
        let check = |paths: &[&str], json: &str, expect: &str| {
            let value: &RawValue = serde_json::from_str(json).unwrap();
            assert_eq!(tree(paths).masked(value, "0"), expect, "{json}");
        };
        check(&["/a/b"], r#"{"c":5,"a":{"b":[1],"d":"x"}}"#, r#"{"a":{"b":[1],"d":0},"c":0}"#);
        check(&["/a/1"], r#"{"a":["x","y"]}"#, r#"{"a":[0,"y"]}"#);
        check(&["/a/b"], r#"{"a":"x"}"#, r#"{"a":0}"#);
        check(&["/a"], r#"["x"]"#, "[0]");
    }
}
