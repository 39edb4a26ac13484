//! `${NAME}` in values stands for the variable of the environment. `$${` stands for `${` itself.

/// A function that returns the value of a variable of the environment.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Replaces the variables in a value. Their values are not searched for variables again.
///
/// # Errors
/// One text for each variable that is missing or badly written.
pub(super) fn substitute(value: &str, env: Environment<'_>) -> Result<String, Vec<String>> {
    let mut out = String::with_capacity(value.len());
    let mut faults = Vec::new();
    let mut rest = value;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        if let Some(plain) = before.strip_suffix('$') {
            out.push_str(plain);
            out.push_str("${");
            rest = &from[2..];
            continue;
        }
        out.push_str(before);
        let Some(end) = from.find('}') else {
            faults.push(format!(
                "{from:?} has no closing \"}}\", allowed is ${{NAME}}, or $${{ for ${{ itself"
            ));
            return Err(faults);
        };
        match env(&from[2..end]) {
            Some(found) => out.push_str(&found),
            None => faults.push(format!("environment variable {} is not set", &from[2..end])),
        }
        rest = &from[end + 1..];
    }
    out.push_str(rest);
    if faults.is_empty() { Ok(out) } else { Err(faults) }
}

/// Escapes a value, so that [`substitute`] returns it.
pub(super) fn escape(value: &str) -> String {
    value.replace("${", "$${")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Option<String> {
        match name {
            "HOME" => Some("/root".to_owned()),
            "LOOP" => Some("${HOME}".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn variables_are_replaced_once() {
        let check =
            |value, expected: &str| assert_eq!(substitute(value, &env).as_deref(), Ok(expected), "{value}");
        check("plain $5", "plain $5");
        check("${HOME}/a/${HOME}", "/root/a//root");
        check("${LOOP}", "${HOME}");
        check("$${HOME}", "${HOME}");
        check("a$$${HOME}", "a$${HOME}");
        check("$$ ${HOME}", "$$ /root");
    }

    #[test]
    fn every_missing_variable_is_named() {
        let check =
            |value, expected: &[&str]| assert_eq!(substitute(value, &env).unwrap_err(), expected, "{value}");
        check(
            "${A}/${HOME}/${B}",
            &["environment variable A is not set", "environment variable B is not set"],
        );
        check("x${HOME", &["\"${HOME\" has no closing \"}\", allowed is ${NAME}, or $${ for ${ itself"]);
    }

    #[test]
    fn an_escaped_value_reads_back() {
        for value in ["${HOME}", "$${HOME}", "$$${", "plain", "$"] {
            assert_eq!(substitute(&escape(value), &env).as_deref(), Ok(value));
        }
    }
}
