//! Policies for the credentials of machines: each gets only the calls that it makes.
//!
//! The policies are in the language of AWS IAM, which other servers with the protocol of S3 understand too.
//! Source: <https://docs.aws.amazon.com/AmazonS3/latest/userguide/security_iam_service-with-iam.html>.

use crate::name::NodeName;

/// A machine that uses the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreRole<'a> {
    /// It ships its own segments, and reads what loaders answer. An audit reads the ends of its logs.
    Ship(&'a NodeName),
    /// It reads all segments, answers, and deletes what every sink has.
    Load,
}

/// Actions on objects: the names of the actions, and the names of the objects below the prefix.
type Rule = (&'static [&'static str], Vec<String>);

/// Returns the policy of a machine for a bucket. `prefix` is empty or ends in `/`.
pub fn s3_policy(bucket: &str, prefix: &str, role: StoreRole<'_>) -> String {
    let rules = match role {
        StoreRole::Ship(node) => rules_to_ship(node),
        StoreRole::Load => rules_to_load(),
    };
    let mut statements = Vec::new();
    for (actions, names) in rules {
        let names = names.iter().map(|name| format!("arn:aws:s3:::{bucket}/{prefix}{name}"));
        statements.push(statement(actions, &names.collect::<Vec<_>>()));
    }
    // Without this right, S3 answers 403 for an object that is missing, and a machine has to see 404. A
    // condition on the prefix would not match such a read, so the right is for the names of the whole bucket.
    statements.push(statement(&["s3:ListBucket"], &[format!("arn:aws:s3:::{bucket}")]));
    format!("{{\n  \"Version\": \"2012-10-17\",\n  \"Statement\": [\n{}\n  ]\n}}\n", statements.join(",\n"))
}

fn rules_to_ship(node: &NodeName) -> Vec<Rule> {
    let own = format!("v1/seg/{node}/*");
    vec![
        (&["s3:PutObject"], vec![own.clone(), format!("v1/node/{node}"), "v1/end/*".to_owned()]),
        (&["s3:PutObject", "s3:DeleteObject"], vec!["v1/want/*".to_owned()]),
        (
            &["s3:GetObject"],
            vec![
                own,
                format!("v1/node/{node}"),
                "v1/end/*".to_owned(),
                "v1/pos/*".to_owned(),
                "v1/want/*".to_owned(),
            ],
        ),
    ]
}

fn rules_to_load() -> Vec<Rule> {
    vec![
        (&["s3:GetObject"], vec!["v1/*".to_owned()]),
        (&["s3:PutObject"], vec!["v1/pos/*".to_owned(), "v1/want/*".to_owned()]),
        (&["s3:DeleteObject"], vec!["v1/seg/*".to_owned(), "v1/end/*".to_owned()]),
    ]
}

fn statement(actions: &[&str], resources: &[String]) -> String {
    let allow = "\"Effect\": \"Allow\"";
    let (actions, resources) = (list(actions), list(resources));
    format!("    {{\n      {allow},\n      \"Action\": {actions},\n      \"Resource\": {resources}\n    }}")
}

fn list<T: AsRef<str>>(texts: &[T]) -> String {
    let texts: Vec<_> = texts.iter().map(|text| format!("\"{}\"", escaped(text.as_ref()))).collect();
    format!("[{}]", texts.join(", "))
}

/// Escapes what JSON does not allow in a text (RFC 8259 section 7).
fn escaped(text: &str) -> String {
    text.chars()
        .flat_map(|letter| match letter {
            '"' | '\\' => vec!['\\', letter],
            control if control.is_control() => Vec::new(),
            other => vec![other],
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(role: StoreRole<'_>) -> serde_json::Value {
        serde_json::from_str(&s3_policy("logs", "a/", role)).unwrap()
    }

    /// Returns the resources that an action is allowed on.
    fn allowed(policy: &serde_json::Value, action: &str) -> Vec<String> {
        let statements = policy["Statement"].as_array().unwrap().iter();
        let of_action = statements
            .filter(|statement| statement["Action"].as_array().unwrap().iter().any(|found| found == action));
        let resources = of_action.flat_map(|statement| statement["Resource"].as_array().unwrap());
        resources.map(|resource| resource.as_str().unwrap().replace("arn:aws:s3:::logs/", "")).collect()
    }

    #[test]
    fn a_machine_that_ships_reaches_its_own_segments_and_deletes_none() {
        let node = NodeName::encode("web 1").unwrap();
        let policy = policy(StoreRole::Ship(&node));
        for action in ["s3:PutObject", "s3:GetObject"] {
            let resources = allowed(&policy, action);
            let segments: Vec<_> = resources.iter().filter(|name| name.contains("/seg/")).collect();
            assert_eq!(segments, ["a/v1/seg/web%201/*"], "{action}");
            assert!(resources.iter().all(|name| name.starts_with("a/v1/")), "{resources:?}");
        }
        assert_eq!(allowed(&policy, "s3:DeleteObject"), ["a/v1/want/*"]);
        for name in ["a/v1/end/*", "a/v1/pos/*"] {
            assert!(allowed(&policy, "s3:GetObject").contains(&name.to_owned()), "{name}");
        }
    }

    #[test]
    fn every_machine_sees_that_an_object_is_missing() {
        let node = NodeName::encode("web").unwrap();
        for role in [StoreRole::Ship(&node), StoreRole::Load] {
            let policy = policy(role);
            let statements = policy["Statement"].as_array().unwrap();
            let lists = |statement: &&serde_json::Value| statement["Action"][0] == "s3:ListBucket";
            let list = statements.iter().find(lists).unwrap();
            assert!(list["Resource"][0] == "arn:aws:s3:::logs" && list["Condition"].is_null(), "{list}");
        }
    }

    #[test]
    fn a_machine_that_loads_writes_no_segment() {
        let policy = policy(StoreRole::Load);
        assert_eq!(allowed(&policy, "s3:PutObject"), ["a/v1/pos/*", "a/v1/want/*"]);
        assert_eq!(allowed(&policy, "s3:DeleteObject"), ["a/v1/seg/*", "a/v1/end/*"]);
    }
}
