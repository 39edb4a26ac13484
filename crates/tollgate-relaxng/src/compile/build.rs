//! Builds the simplified patterns. References to definitions are replaced by their patterns, which are
//! shared, so that nothing grows by expansion. The content of elements is built later, because it may refer
//! back to its element (section 4.19).

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use super::files::{Files, OpenFiles};
use super::grammars::{self, Definition};
use super::name_class;
use crate::datatype::Datatype;
use crate::pattern::{Arena, Declaration, Element, Grammar, Id, Label, Names, Pattern};
use crate::syntax::{self, At, Combine, Data, NameClass, Node, Part, Reference, SchemaFault, WrittenValue};

pub(super) struct Builder<'f, 'l> {
    files: &'f mut Files<'l>,
    arena: Arena,
    names: Names,
    elements: Vec<(At, NameClass, Id)>,
    attributes: Vec<(At, NameClass)>,
    data: Vec<Datatype>,
    values: Vec<(Datatype, crate::datatype::Value)>,
    /// The number of name classes that are not single names.
    sets: usize,
    scopes: Vec<Scope>,
    /// The contents of elements that are not built yet.
    waiting: VecDeque<Content>,
    /// Levels of patterns around the current one.
    depth: usize,
    /// Whether definitions that nothing refers to are built, only to find their faults.
    is_unreachable: bool,
}

/// The content of an element that is not built yet.
struct Content {
    element: u32,
    part: Part,
    scope: usize,
    /// The files that were open at the element.
    open: OpenFiles,
}

/// The definitions of one grammar.
struct Scope {
    parent: usize,
    defines: Vec<State>,
    by_name: HashMap<Option<String>, usize>,
}

enum State {
    Waiting(Definition),
    /// The definition is being built, so a reference to it is a loop.
    Open,
    Done(Id),
}

/// The scope outside of all grammars, which has no definitions.
const OUTSIDE: usize = 0;

impl<'f, 'l> Builder<'f, 'l> {
    pub(super) fn new(files: &'f mut Files<'l>) -> Self {
        Self {
            files,
            arena: Arena::new(),
            names: Names::default(),
            elements: Vec::new(),
            attributes: Vec::new(),
            data: Vec::new(),
            values: Vec::new(),
            sets: 0,
            scopes: vec![Scope { parent: OUTSIDE, defines: Vec::new(), by_name: HashMap::new() }],
            waiting: VecDeque::new(),
            depth: 0,
            is_unreachable: false,
        }
    }

    pub(super) fn build(mut self, root: &Part) -> Result<Grammar, SchemaFault> {
        let start = self.pattern(root, OUTSIDE)?;
        self.build_contents()?;
        self.build_unreachable()?;
        self.check_size(root.at)?;
        Ok(self.grammar(start))
    }

    fn build_contents(&mut self) -> Result<(), SchemaFault> {
        while let Some(Content { element, part, scope, open }) = self.waiting.pop_front() {
            self.files.set_open(open);
            self.elements[element as usize].2 = self.pattern(&part, scope)?;
        }
        Ok(())
    }

    /// Builds definitions that nothing refers to. Their references must exist nevertheless (section 4.18).
    fn build_unreachable(&mut self) -> Result<(), SchemaFault> {
        self.is_unreachable = true;
        let mut scope = 0;
        while scope < self.scopes.len() {
            for index in 0..self.scopes[scope].defines.len() {
                if let State::Waiting(definition) = &self.scopes[scope].defines[index] {
                    self.define(scope, index, definition.at)?;
                    self.build_contents()?;
                }
            }
            scope += 1;
        }
        Ok(())
    }

    fn grammar(self, start: Id) -> Grammar {
        let names = self.names;
        let declare = |at, class: &NameClass| Declaration {
            at,
            names: names.set(class),
            is_infinite: name_class::is_infinite(class),
            labels: Label::all(class),
        };
        let elements = self
            .elements
            .iter()
            .map(|(at, class, content)| Element { declaration: declare(*at, class), content: *content });
        Grammar {
            elements: elements.collect(),
            attributes: self.attributes.iter().map(|(at, class)| declare(*at, class)).collect(),
            arena: self.arena,
            data: self.data,
            values: self.values,
            start,
            names,
        }
    }

    /// Checks the bounds of the schema. The sets of names need memory for names times name classes.
    fn check_size(&self, at: At) -> Result<(), SchemaFault> {
        let limit = self.files.limits().patterns_max;
        let size = self.arena.size() + self.sets * self.names.len() / 64;
        if size > limit {
            return Err(SchemaFault::new(
                at,
                format!("the schema has too many patterns: {size}, limit {limit}"),
            ));
        }
        if self.arena.is_too_deep() {
            return Err(SchemaFault::new(at, "patterns are nested too deeply"));
        }
        Ok(())
    }

    fn pattern(&mut self, node: &Node, scope: usize) -> Result<Id, SchemaFault> {
        let depth_max = self.files.limits().depth_max;
        if self.depth >= depth_max {
            let text = format!("patterns are nested too deeply: limit {depth_max} levels with definitions");
            return Err(SchemaFault::new(node.at, text));
        }
        self.check_size(node.at)?;
        self.depth += 1;
        let built = self.shallow(node, scope)?;
        self.depth -= 1;
        Ok(built)
    }

    fn shallow(&mut self, node: &Node, scope: usize) -> Result<Id, SchemaFault> {
        use syntax::WrittenPattern as Written;
        Ok(match &node.pattern {
            Written::Empty => Id::EMPTY,
            Written::Text => Id::TEXT,
            Written::NotAllowed => Id::NOT_ALLOWED,
            Written::Element(class, content) => self.element(node.at, class, content, scope)?,
            Written::Attribute(class, content) => self.attribute(node.at, class, content, scope)?,
            Written::Group(parts) => {
                let parts = self.parts(parts, scope)?;
                parts.into_iter().rev().fold(Id::EMPTY, |rest, part| self.arena.group(part, rest))
            }
            Written::Interleave(parts) => {
                let parts = self.parts(parts, scope)?;
                self.arena.interleave(parts)
            }
            Written::Choice(parts) => {
                let parts = self.parts(parts, scope)?;
                self.arena.choice(parts)
            }
            Written::Optional(part) => {
                let part = self.pattern(part, scope)?;
                self.arena.optional(part)
            }
            Written::OneOrMore(part) => {
                let part = self.pattern(part, scope)?;
                self.arena.one_or_more(part)
            }
            Written::ZeroOrMore(part) => {
                let part = self.pattern(part, scope)?;
                let part = self.arena.one_or_more(part);
                self.arena.optional(part)
            }
            Written::Mixed(part) => {
                let part = self.pattern(part, scope)?;
                self.arena.interleave([part, Id::TEXT])
            }
            Written::List(part) => match self.pattern(part, scope)? {
                Id::NOT_ALLOWED => Id::NOT_ALLOWED,
                part => self.arena.intern(Pattern::List(part)),
            },
            Written::Ref(name) => self.reference(node.at, name, scope)?,
            Written::ParentRef(name) => {
                if scope == OUTSIDE || self.scopes[scope].parent == OUTSIDE {
                    return Err(SchemaFault::new(
                        node.at,
                        "reference to a parent grammar, but there is none",
                    ));
                }
                self.reference(node.at, name, self.scopes[scope].parent)?
            }
            Written::Value(value) => self.value(node.at, value)?,
            Written::Data(data) => self.data(node.at, data, scope)?,
            Written::External(file) => self.external(node.at, file, scope)?,
            Written::Grammar(grammar) => {
                let inner = self.enter_grammar(grammar, scope)?;
                let start = self.scopes[inner].by_name.get(&None).copied();
                let start = start.ok_or_else(|| SchemaFault::new(node.at, "the grammar has no start"))?;
                self.define(inner, start, node.at)?
            }
        })
    }

    /// Adds the scope of a grammar, with its definitions in the order of the files.
    fn enter_grammar(
        &mut self,
        grammar: &syntax::WrittenGrammar,
        parent: usize,
    ) -> Result<usize, SchemaFault> {
        let mut definitions: Vec<_> = grammars::definitions(grammar, self.files)?.into_iter().collect();
        definitions.sort_by_key(|(_, definition)| {
            let At { file, line, column } = definition.at;
            (file, line, column)
        });
        let (names, bodies): (Vec<_>, Vec<_>) = definitions.into_iter().unzip();
        let by_name = names.into_iter().enumerate().map(|(index, name)| (name, index)).collect();
        let defines = bodies.into_iter().map(State::Waiting).collect();
        self.scopes.push(Scope { parent, defines, by_name });
        Ok(self.scopes.len() - 1)
    }

    fn parts(&mut self, parts: &[Part], scope: usize) -> Result<Vec<Id>, SchemaFault> {
        parts.iter().map(|part| self.pattern(part, scope)).collect()
    }

    fn element(
        &mut self,
        at: At,
        class: &NameClass,
        content: &Part,
        scope: usize,
    ) -> Result<Id, SchemaFault> {
        name_class::check(class, false, at)?;
        self.add_names(class);
        let element = index(self.elements.len());
        self.elements.push((at, class.clone(), Id::NOT_ALLOWED));
        let open = self.files.open();
        self.waiting.push_back(Content { element, part: Rc::clone(content), scope, open });
        Ok(self.arena.intern(Pattern::Element(element)))
    }

    fn attribute(
        &mut self,
        at: At,
        class: &NameClass,
        content: &Part,
        scope: usize,
    ) -> Result<Id, SchemaFault> {
        name_class::check(class, true, at)?;
        self.add_names(class);
        let content = self.pattern(content, scope)?;
        if content == Id::NOT_ALLOWED {
            return Ok(Id::NOT_ALLOWED);
        }
        let attribute = index(self.attributes.len());
        self.attributes.push((at, class.clone()));
        Ok(self.arena.intern(Pattern::Attribute(attribute, content)))
    }

    fn add_names(&mut self, class: &NameClass) {
        self.names.add(class);
        self.sets += usize::from(!matches!(class, NameClass::Name { .. }));
    }

    fn value(&mut self, at: At, value: &WrittenValue) -> Result<Id, SchemaFault> {
        let datatype = Datatype::new(&value.datatype.library, &value.datatype.name, &[]);
        let datatype = datatype.map_err(|text| SchemaFault::new(at, text))?;
        let Some(own) = datatype.value(&value.text, &*value.prefixes) else {
            return Err(SchemaFault::new(
                at,
                format!("\"{}\" is not a value of \"{}\"", value.text, datatype.name()),
            ));
        };
        self.values.push((datatype, own));
        Ok(self.arena.intern(Pattern::Value(index(self.values.len() - 1))))
    }

    fn data(&mut self, at: At, data: &Data, scope: usize) -> Result<Id, SchemaFault> {
        let datatype = Datatype::new(&data.datatype.library, &data.datatype.name, &data.parameters);
        let datatype = datatype.map_err(|text| SchemaFault::new(at, text))?;
        let except = match &data.except {
            None => None,
            // An exception that allows nothing excepts nothing (section 4.20).
            Some(except) => Some(self.pattern(except, scope)?).filter(|except| *except != Id::NOT_ALLOWED),
        };
        self.data.push(datatype);
        Ok(self.arena.intern(Pattern::Data(index(self.data.len() - 1), except)))
    }

    fn external(&mut self, at: At, file: &Reference, scope: usize) -> Result<Id, SchemaFault> {
        let root = self.files.enter(file, at)?;
        let built = self.pattern(&root, scope)?;
        self.files.leave();
        Ok(built)
    }

    fn reference(&mut self, at: At, name: &str, scope: usize) -> Result<Id, SchemaFault> {
        let found = self.scopes[scope].by_name.get(&Some(name.to_owned())).copied();
        let index =
            found.ok_or_else(|| SchemaFault::new(at, format!("definition \"{name}\" does not exist")))?;
        self.define(scope, index, at)
    }

    fn define(&mut self, scope: usize, index: usize, at: At) -> Result<Id, SchemaFault> {
        let state = std::mem::replace(&mut self.scopes[scope].defines[index], State::Open);
        let definition = match state {
            State::Done(id) => {
                self.scopes[scope].defines[index] = State::Done(id);
                return Ok(id);
            }
            // The specification removes unreachable definitions before it looks for loops.
            State::Open if self.is_unreachable => return Ok(Id::NOT_ALLOWED),
            State::Open => {
                return Err(SchemaFault::new(at, "the definition refers to itself outside of an element"));
            }
            State::Waiting(definition) => definition,
        };
        let parts = self.parts(&definition.bodies, scope)?;
        let id = match (parts.as_slice(), definition.combine) {
            ([one], _) => *one,
            (_, Some(Combine::Interleave)) => self.arena.interleave(parts),
            (_, Some(Combine::Choice) | None) => self.arena.choice(parts),
        };
        self.scopes[scope].defines[index] = State::Done(id);
        Ok(id)
    }
}

fn index(length: usize) -> u32 {
    // The bounds on the size of a schema are far below the range of `u32`.
    u32::try_from(length).unwrap_or(u32::MAX)
}
