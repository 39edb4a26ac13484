//! Trees of elements, and a plain evaluator of paths over them.

/// An element. Names have a namespace and a local name.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    pub(crate) name: (&'static str, &'static str),
    pub(crate) attributes: Vec<(&'static str, &'static str)>,
    pub(crate) children: Vec<Node>,
}

#[derive(Clone, Debug)]
pub(crate) enum Node {
    Element(Element),
    Text(&'static str),
}

/// A step of a path.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) is_descendant: bool,
    /// Namespace and local name. `None` is any.
    pub(crate) test: (Option<&'static str>, Option<&'static str>),
    pub(crate) predicates: Vec<Predicate>,
}

#[derive(Clone, Debug)]
pub(crate) enum Predicate {
    First,
    Has(&'static str),
    Compares(&'static str, bool, &'static str),
}

#[derive(Clone, Debug)]
pub(crate) enum Target {
    Element,
    Attribute(&'static str),
    AttributeCompares(&'static str, bool, &'static str),
    TextCompares(bool, &'static str),
}

impl Element {
    pub(crate) fn xml(&self) -> String {
        let prefix = match self.name.0 {
            "" => "",
            "urn:p" => "p:",
            _ => "q:",
        };
        let name = format!("{prefix}{}", self.name.1);
        let attributes: String =
            self.attributes.iter().map(|(name, value)| format!(" {name}='{value}'")).collect();
        let children: String = self
            .children
            .iter()
            .map(|child| match child {
                Node::Element(element) => element.xml(),
                Node::Text(text) => (*text).to_owned(),
            })
            .collect();
        let declared = " xmlns:p='urn:p' xmlns:q='urn:q'";
        format!("<{name}{declared}{attributes}>{children}</{name}>")
    }

    pub(crate) fn text(&self) -> String {
        let texts = self.children.iter().map(|child| match child {
            Node::Element(element) => element.text(),
            Node::Text(text) => (*text).to_owned(),
        });
        texts.collect()
    }

    fn elements(&self) -> impl Iterator<Item = &Element> {
        self.children.iter().filter_map(|child| match child {
            Node::Element(element) => Some(element),
            Node::Text(_) => None,
        })
    }

    fn attribute(&self, name: &str) -> Option<&'static str> {
        self.attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    fn with_descendants<'a>(&'a self, found: &mut Vec<&'a Element>) {
        found.push(self);
        self.elements().for_each(|child| child.with_descendants(found));
    }
}

impl Predicate {
    fn filter<'a>(&self, found: Vec<&'a Element>) -> Vec<&'a Element> {
        match self {
            Self::First => found.into_iter().take(1).collect(),
            Self::Has(name) => {
                found.into_iter().filter(|element| element.attribute(name).is_some()).collect()
            }
            Self::Compares(name, is_equal, text) => {
                let holds = |element: &&Element| {
                    element.attribute(name).is_some_and(|value| (value == *text) == *is_equal)
                };
                found.into_iter().filter(holds).collect()
            }
        }
    }
}

/// Returns what a path finds in a document, in any order.
pub(crate) fn evaluate(root: &Element, steps: &[Step], target: &Target) -> Vec<String> {
    // The document is an element around the root.
    let document =
        Element { name: ("", "#"), attributes: Vec::new(), children: vec![Node::Element(root.clone())] };
    let mut context = vec![&document];
    for step in steps {
        let mut parents = Vec::new();
        for element in context {
            if step.is_descendant {
                element.with_descendants(&mut parents);
            } else {
                parents.push(element);
            }
        }
        parents.sort_by_key(|element| std::ptr::from_ref(*element) as usize);
        parents.dedup_by_key(|element| std::ptr::from_ref(*element) as usize);
        context = parents.into_iter().flat_map(|parent| step.children(parent)).collect();
    }
    let compares =
        |text: &str, is_equal: bool, with: &str| ((text == with) == is_equal).then(|| "true".to_owned());
    let found = context.into_iter().filter_map(|element| match target {
        Target::Element => Some(format!("<{}", element.text())),
        Target::Attribute(name) => element.attribute(name).map(|value| format!("@{value}")),
        Target::AttributeCompares(name, is_equal, text) => {
            element.attribute(name).and_then(|value| compares(value, *is_equal, text))
        }
        Target::TextCompares(is_equal, text) => compares(&element.text(), *is_equal, text),
    });
    found.collect()
}

impl Step {
    fn children<'a>(&self, parent: &'a Element) -> Vec<&'a Element> {
        let (uri, local) = self.test;
        let named = |element: &&Element| {
            uri.is_none_or(|uri| element.name.0 == uri) && local.is_none_or(|local| element.name.1 == local)
        };
        let found = parent.elements().filter(named).collect();
        self.predicates.iter().fold(found, |found, predicate| predicate.filter(found))
    }

    pub(crate) fn shown(&self) -> String {
        let slash = if self.is_descendant { "//" } else { "/" };
        let test = match self.test {
            (None, _) => "*".to_owned(),
            (Some("urn:p"), None) => "p:*".to_owned(),
            (Some(_), None) => "q:*".to_owned(),
            (Some(""), Some(local)) => local.to_owned(),
            (Some("urn:p"), Some(local)) => format!("p:{local}"),
            (Some(_), Some(local)) => format!("q:{local}"),
        };
        let predicates: String = self.predicates.iter().map(Predicate::shown).collect();
        format!("{slash}{test}{predicates}")
    }
}

impl Predicate {
    fn shown(&self) -> String {
        match self {
            Self::First => "[1]".to_owned(),
            Self::Has(name) => format!("[@{name}]"),
            Self::Compares(name, is_equal, text) => format!("[@{name}{}'{text}']", operator(*is_equal)),
        }
    }
}

impl Target {
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Element => String::new(),
            Self::Attribute(name) => format!("/@{name}"),
            Self::AttributeCompares(name, is_equal, text) => {
                format!("/@{name} {} '{text}'", operator(*is_equal))
            }
            Self::TextCompares(is_equal, text) => format!(" {} \"{text}\"", operator(*is_equal)),
        }
    }
}

fn operator(is_equal: bool) -> &'static str {
    if is_equal { "=" } else { "!=" }
}
