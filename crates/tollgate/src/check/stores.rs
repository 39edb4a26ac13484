//! `tollgate check --store`: whether the stores of a configuration answer, whether they create each object
//! once, and whether a lifecycle rule deletes segments by their age alone.

use std::process::ExitCode;
use std::time::Duration;

use tollgate_log::{LogOptions, join_chain};
use tollgate_ship::{Expiry, ExpiryRule, Lifecycle, probe_store, read_volume};

use crate::config::{Config, Keep, ShipConfig, StorePlace, Volumes};
use crate::print::to_stdout;
use crate::ships::{open_objects, open_store};
use crate::temporary::TemporaryFolder;

/// Checks the store of each ship target, and prints the result. The exit code is 1 if a store does not
/// answer.
pub(crate) fn run(config: &Config) -> anyhow::Result<ExitCode> {
    let mut is_well = true;
    let mut lines = Vec::new();
    for ship in &config.ships {
        let result = check(ship, &config.log);
        let result = result.and_then(|text| Ok((text, lifecycle(ship, config.load.store_retain)?)));
        is_well &= result.is_ok();
        let place = if ship.volumes().is_some() { "" } else { "store " };
        match result {
            Ok((text, rules)) => {
                lines.push(format!("ship {}: {place}{ship}: {text}", ship.name));
                lines.extend(
                    rules.into_iter().map(|rule| format!("ship {}: store {ship}: {rule}", ship.name)),
                );
            }
            Err(error) => lines.push(format!("ship {}: {place}{ship} cannot be used: {error:#}", ship.name)),
        }
    }
    to_stdout(|out| {
        lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        if lines.is_empty() {
            writeln!(out, "no [ship.NAME]: no store to check")?;
        }
        Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

fn check(ship: &ShipConfig, log: &LogOptions) -> anyhow::Result<String> {
    if let Some(volumes) = ship.volumes() {
        return check_volumes(volumes);
    }
    let store = open_store(ship, log)?.store;
    let folder = TemporaryFolder::make("check")?;
    let report = probe_store(&*store, folder.path()).map_err(|error| anyhow::anyhow!(join_chain(&error)))?;
    let mut text = format!("conditional create: {}", report.conditional_create);
    if !report.undeleted.is_empty() {
        let names = report.undeleted.join(", ");
        text.push_str(&format!("; objects of the check that may be deleted by hand: {names}"));
    }
    Ok(text)
}

/// Returns a line about each lifecycle rule that deletes segments. A folder has no such rules.
fn lifecycle(ship: &ShipConfig, retain: Keep) -> anyhow::Result<Vec<String>> {
    let StorePlace::Objects(objects) = &ship.place else { return Ok(Vec::new()) };
    Ok(match open_objects(ship, objects)?.lifecycle() {
        Lifecycle::Unknown(reason) => vec![format!("lifecycle rules: {reason}")],
        Lifecycle::Rules(rules) if rules.is_empty() => {
            vec!["lifecycle rules: none deletes segments".to_owned()]
        }
        Lifecycle::Rules(rules) => rules.iter().map(|rule| rule_text(rule, retain)).collect(),
    })
}

/// Reads the state of each volume. Volumes are checked without a write.
///
/// # Errors
/// None of the folders has a mounted volume.
fn check_volumes(volumes: &Volumes) -> anyhow::Result<String> {
    let mut found = Vec::new();
    let mut is_any_mounted = false;
    for folder in &volumes.folders {
        found.push(match read_volume(folder, volumes.same_device) {
            Ok(facts) => {
                is_any_mounted = true;
                format!("{} is {} (volume {})", folder.display(), facts.state, facts.id)
            }
            Err(error) => join_chain(&error),
        });
    }
    let found = found.join("; ");
    anyhow::ensure!(is_any_mounted, found);
    Ok(found)
}

/// Returns a line about a rule. A rule deletes by age alone, so a segment that no sink has loaded is lost.
fn rule_text(rule: &ExpiryRule, retain: Keep) -> String {
    let days = retain.time().map(|kept| kept.as_secs() / Duration::from_hours(24).as_secs());
    match rule.expiry {
        Expiry::Days(age) if days.is_some_and(|days| age >= days) => {
            format!("lifecycle {rule}, also if no sink has loaded them by then")
        }
        Expiry::Days(_) | Expiry::Date(_) => format!(
            "WARNING: lifecycle {rule}, also if no sink has loaded them. store_retain in [load] is \
             \"{retain}\": remove the rule, or make it later than the longest outage"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_a_warning_if_it_deletes_earlier_than_a_loader_would() {
        let rule = |expiry| ExpiryRule { id: "old".to_owned(), prefix: String::new(), expiry };
        let week = Keep::For(Duration::from_hours(7 * 24));
        let text = |expiry| rule_text(&rule(expiry), week);
        let forever = rule_text(&rule(Expiry::Days(90)), Keep::Forever);
        assert!(forever.starts_with("WARNING: ") && forever.contains("\"forever\""), "{forever}");
        for early in [Expiry::Days(1), Expiry::Days(6), Expiry::Date("2026-01-01".to_owned())] {
            assert!(text(early.clone()).starts_with("WARNING: lifecycle rule \"old\""), "{early:?}");
        }
        for late in [Expiry::Days(7), Expiry::Days(90)] {
            assert!(text(late).starts_with("lifecycle rule \"old\" deletes objects of prefix \"\" after"));
        }
    }
}
