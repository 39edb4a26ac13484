//! Schemas in both syntaxes, and documents, as text.

use super::document::{Element, Node};
use super::schema::{Class, Grammar, Name, Pattern, Type};

/// Returns a schema in the compact syntax.
pub fn compact(grammar: &Grammar) -> String {
    let mut text = "namespace local = \"\"\nnamespace u = \"u\"\nnamespace v = \"v\"\n".to_owned();
    text.push_str(&format!("start = {}\n", compact_pattern(&grammar.start)));
    for (index, (class, content)) in grammar.elements.iter().enumerate() {
        let (class, content) = (compact_class(class), compact_pattern(content));
        text.push_str(&format!("e{index} = element {class} {{ {content} }}\n"));
    }
    text
}

fn compact_pattern(pattern: &Pattern) -> String {
    let two =
        |one, connector, other| format!("({} {connector} {})", compact_pattern(one), compact_pattern(other));
    match pattern {
        Pattern::Empty => "empty".to_owned(),
        Pattern::NotAllowed => "notAllowed".to_owned(),
        Pattern::Text => "text".to_owned(),
        Pattern::Choice(one, other) => two(one, "|", other),
        Pattern::Group(one, other) => two(one, ",", other),
        Pattern::Interleave(one, other) => two(one, "&", other),
        Pattern::OneOrMore(part) => format!("({})+", compact_pattern(part)),
        Pattern::List(part) => format!("list {{ {} }}", compact_pattern(part)),
        Pattern::Data(datatype, except) => {
            let name = match datatype {
                Type::Token => "token",
                Type::Text => "string",
                Type::Integer => "xsd:integer",
                Type::Boolean => "xsd:boolean",
                Type::Pair => "xsd:token { length = \"2\" }",
            };
            match except {
                None => name.to_owned(),
                Some(part) => format!("({name} - {})", compact_pattern(part)),
            }
        }
        Pattern::Value(value) => format!("\"{value}\""),
        Pattern::Attribute(class, value) => {
            format!("attribute {} {{ {} }}", compact_class(class), compact_pattern(value))
        }
        Pattern::Element(index) => format!("e{index}"),
    }
}

fn compact_class(class: &Class) -> String {
    match class {
        Class::Name(name) => compact_name(*name),
        Class::Any(None) => "*".to_owned(),
        Class::Any(Some(except)) => format!("(* - ({}))", compact_class(except)),
        Class::Of(namespace, except) => {
            let prefix = if namespace.is_empty() { "local" } else { namespace };
            match except {
                None => format!("{prefix}:*"),
                Some(name) => format!("({prefix}:* - {})", compact_name(*name)),
            }
        }
        Class::Either(one, other) => format!("({} | {})", compact_class(one), compact_class(other)),
    }
}

fn compact_name(name: Name) -> String {
    if name.namespace.is_empty() {
        name.local.to_owned()
    } else {
        format!("{}:{}", name.namespace, name.local)
    }
}

/// Returns a schema in the XML syntax.
pub fn xml(grammar: &Grammar) -> String {
    let mut text = "<grammar xmlns=\"http://relaxng.org/ns/structure/1.0\" \
                    datatypeLibrary=\"http://www.w3.org/2001/XMLSchema-datatypes\">\n"
        .to_owned();
    text.push_str(&format!("<start>{}</start>\n", xml_pattern(&grammar.start)));
    for (index, (class, content)) in grammar.elements.iter().enumerate() {
        let (class, content) = (xml_class(class), xml_pattern(content));
        text.push_str(&format!("<define name=\"e{index}\"><element>{class}{content}</element></define>\n"));
    }
    text.push_str("</grammar>\n");
    text
}

fn xml_pattern(pattern: &Pattern) -> String {
    let two = |name, one, other| format!("<{name}>{}{}</{name}>", xml_pattern(one), xml_pattern(other));
    match pattern {
        Pattern::Empty => "<empty/>".to_owned(),
        Pattern::NotAllowed => "<notAllowed/>".to_owned(),
        Pattern::Text => "<text/>".to_owned(),
        Pattern::Choice(one, other) => two("choice", one, other),
        Pattern::Group(one, other) => two("group", one, other),
        Pattern::Interleave(one, other) => two("interleave", one, other),
        Pattern::OneOrMore(part) => format!("<oneOrMore>{}</oneOrMore>", xml_pattern(part)),
        Pattern::List(part) => format!("<list>{}</list>", xml_pattern(part)),
        Pattern::Data(datatype, except) => {
            let (start, parameter) = match datatype {
                Type::Token => ("datatypeLibrary=\"\" type=\"token\"", ""),
                Type::Text => ("datatypeLibrary=\"\" type=\"string\"", ""),
                Type::Integer => ("type=\"integer\"", ""),
                Type::Boolean => ("type=\"boolean\"", ""),
                Type::Pair => ("type=\"token\"", "<param name=\"length\">2</param>"),
            };
            let except = except
                .as_ref()
                .map_or(String::new(), |part| format!("<except>{}</except>", xml_pattern(part)));
            format!("<data {start}>{parameter}{except}</data>")
        }
        Pattern::Value(value) => format!("<value>{value}</value>"),
        Pattern::Attribute(class, value) => {
            format!("<attribute>{}{}</attribute>", xml_class(class), xml_pattern(value))
        }
        Pattern::Element(index) => format!("<ref name=\"e{index}\"/>"),
    }
}

fn xml_class(class: &Class) -> String {
    match class {
        Class::Name(name) => format!("<name ns=\"{}\">{}</name>", name.namespace, name.local),
        Class::Any(None) => "<anyName/>".to_owned(),
        Class::Any(Some(except)) => format!("<anyName><except>{}</except></anyName>", xml_class(except)),
        Class::Of(namespace, None) => format!("<nsName ns=\"{namespace}\"/>"),
        Class::Of(namespace, Some(name)) => {
            let except = xml_class(&Class::Name(*name));
            format!("<nsName ns=\"{namespace}\"><except>{except}</except></nsName>")
        }
        Class::Either(one, other) => format!("<choice>{}{}</choice>", xml_class(one), xml_class(other)),
    }
}

/// Returns a document. Prefixes are named like their namespaces.
pub fn document(root: &Element) -> String {
    let mut text = String::new();
    write(root, " xmlns:u=\"u\" xmlns:v=\"v\"", &mut text);
    text
}

fn write(element: &Element, declarations: &str, to: &mut String) {
    let name = compact_name(element.name);
    to.push_str(&format!("<{name}{declarations}"));
    for (name, value) in &element.attributes {
        to.push_str(&format!(" {}=\"{}\"", compact_name(*name), value.replace('\n', "&#10;")));
    }
    to.push('>');
    for child in &element.children {
        match child {
            Node::Element(child) => write(child, "", to),
            Node::Text(text) => to.push_str(text),
        }
    }
    to.push_str(&format!("</{name}>"));
}
