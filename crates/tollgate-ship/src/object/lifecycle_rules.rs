//! Reads lifecycle rules of S3, and finds the rules that delete segments.

use std::fmt;

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;

/// A rule that deletes objects by their age or at a date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiryRule {
    /// Name of the rule, which may be empty.
    pub id: String,
    /// Prefix of the keys that the rule applies to. An empty prefix stands for all keys.
    pub prefix: String,
    /// When the rule deletes an object.
    pub expiry: Expiry,
}

/// When a rule deletes an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expiry {
    /// This many days after the object was stored.
    Days(u64),
    /// From this date on, as the service writes it.
    Date(String),
}

impl fmt::Display for ExpiryRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, prefix, expiry } = self;
        write!(f, "rule {id:?} deletes objects of prefix {prefix:?} ")?;
        match expiry {
            Expiry::Days(days) => write!(f, "after {days} days"),
            Expiry::Date(date) => write!(f, "from {date:?} on"),
        }
    }
}

/// The texts of one rule.
#[derive(Debug, Default)]
struct Written {
    id: String,
    status: String,
    prefix: String,
    days: Option<u64>,
    date: Option<String>,
    has_tag: bool,
}

impl Written {
    /// Returns the rule, if it is enabled and deletes objects that have no tags. No segment has a tag.
    fn rule(self) -> Option<ExpiryRule> {
        let Self { id, status, prefix, days, date, has_tag } = self;
        let expiry = days.map(Expiry::Days).or(date.map(Expiry::Date))?;
        (status == "Enabled" && !has_tag).then_some(ExpiryRule { id, prefix, expiry })
    }
}

/// Reads the rules, and returns the rules that delete objects whose keys begin with `prefix`, or with a
/// longer prefix.
///
/// # Errors
/// The text is no XML.
pub(super) fn rules_of(text: &str, prefix: &str) -> Result<Vec<ExpiryRule>, quick_xml::Error> {
    let mut reader = Reader::from_str(text);
    let (mut rules, mut path, mut written) = (Vec::new(), Vec::<String>::new(), Written::default());
    // The text of the current element. An entity divides it into several events.
    let mut value = String::new();
    loop {
        match reader.read_event()? {
            Event::Eof => return Ok(rules),
            Event::Start(start) => {
                path.push(start.local_name().as_ref().to_owned());
                written.has_tag |= path.last().is_some_and(|name| name == "Tag");
                value.clear();
            }
            Event::Text(text) => value.push_str(&text),
            Event::GeneralRef(entity) => match entity.resolve_char_ref()? {
                Some(character) => value.push(character),
                None => value.push_str(resolve_predefined_entity(&entity).unwrap_or_default()),
            },
            Event::End(_) => {
                note(&mut written, &path, value.trim());
                value.clear();
                if path.pop().is_some_and(|name| name == "Rule") {
                    let rule = std::mem::take(&mut written).rule();
                    // The rule applies to all of the keys, or to a part of them.
                    let meets = |rule: &ExpiryRule| {
                        prefix.starts_with(&rule.prefix) || rule.prefix.starts_with(prefix)
                    };
                    rules.extend(rule.filter(meets));
                }
            }
            _ => {}
        }
    }
}

/// Stores the text of an element.
fn note(written: &mut Written, path: &[String], value: &str) {
    let path: Vec<_> = path.iter().map(String::as_str).skip_while(|name| *name != "Rule").skip(1).collect();
    match path[..] {
        ["ID"] => value.clone_into(&mut written.id),
        ["Status"] => value.clone_into(&mut written.status),
        ["Prefix"] | ["Filter", "Prefix"] | ["Filter", "And", "Prefix"] => {
            value.clone_into(&mut written.prefix);
        }
        ["Expiration", "Days"] => written.days = value.parse().ok(),
        ["Expiration", "Date"] => written.date = Some(value.to_owned()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rules: &str, expected: &[(&str, &str, Expiry)]) {
        let text = format!(
            "<?xml version=\"1.0\"?>\n\
             <LifecycleConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\n\
             {rules}</LifecycleConfiguration>"
        );
        let found = rules_of(&text, "team/v1/seg/").unwrap();
        let expected: Vec<_> = expected
            .iter()
            .map(|(id, prefix, expiry)| ExpiryRule {
                id: (*id).to_owned(),
                prefix: (*prefix).to_owned(),
                expiry: expiry.clone(),
            })
            .collect();
        assert_eq!(found, expected, "{rules}");
    }

    fn rule(filter: &str, more: &str) -> String {
        format!("<Rule><ID>a</ID>{filter}<Status>Enabled</Status>{more}</Rule>")
    }

    const THREE_DAYS: &str = "<Expiration>\n <Days>3</Days>\n</Expiration>";

    #[test]
    fn a_rule_that_meets_the_segments_is_found_with_its_age() {
        for (filter, prefix) in [
            ("<Filter><Prefix></Prefix></Filter>", ""),
            ("<Filter/>", ""),
            ("<Prefix>team/</Prefix>", "team/"),
            ("<Filter><Prefix>team/v1/seg/</Prefix></Filter>", "team/v1/seg/"),
            ("<Filter><Prefix>team/v1/seg/web</Prefix></Filter>", "team/v1/seg/web"),
            ("<Filter><And><Prefix>t</Prefix><ObjectSizeLessThan>9</ObjectSizeLessThan></And></Filter>", "t"),
        ] {
            check(&rule(filter, THREE_DAYS), &[("a", prefix, Expiry::Days(3))]);
        }
        let date = "<Expiration><Date>2026-01-01T00:00:00Z</Date></Expiration>";
        check(&rule("<Filter/>", date), &[("a", "", Expiry::Date("2026-01-01T00:00:00Z".to_owned()))]);
    }

    #[test]
    fn a_rule_that_deletes_no_segment_is_not_listed() {
        for (filter, more) in [
            ("<Filter><Prefix>other/</Prefix></Filter>", THREE_DAYS),
            ("<Filter><Prefix>team/v1/node/</Prefix></Filter>", THREE_DAYS),
            ("<Filter><Tag><Key>k</Key><Value>v</Value></Tag></Filter>", THREE_DAYS),
            (
                "<Filter/>",
                "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>",
            ),
            ("<Filter/>", "<NoncurrentVersionExpiration><Days>1</Days></NoncurrentVersionExpiration>"),
            ("<Filter/>", "<Transition><Days>1</Days><StorageClass>GLACIER</StorageClass></Transition>"),
        ] {
            check(&rule(filter, more), &[]);
        }
        check(&rule("<Filter/>", THREE_DAYS).replace("Enabled", "Disabled"), &[]);
        let two = [rule("<Prefix>x</Prefix>", THREE_DAYS), rule("<Filter/>", THREE_DAYS)].concat();
        check(&two, &[("a", "", Expiry::Days(3))]);
    }

    #[test]
    fn names_and_prefixes_are_read_with_their_entities() {
        let named =
            rule("<Prefix>team/</Prefix>", THREE_DAYS).replace("<ID>a</ID>", "<ID>a &amp; b&#33;</ID>");
        check(&named, &[("a & b!", "team/", Expiry::Days(3))]);
    }

    #[test]
    fn a_text_that_is_no_xml_is_an_error() {
        assert!(rules_of("<Rule><ID></Rule>", "").is_err());
    }
}
