//! The findings of routes whose requests fail.

use tollgate_server::RouteName;

use super::code::Code;
use super::finding::Health;
use crate::observe::route_failures::FailingRoute;
use crate::print::counted;

/// Maximum number of routes in the finding.
const ROUTES_SHOWN: usize = 5;

/// Reports the failing routes. The list begins with the route that has the most failures.
pub(super) fn look_at_routes(health: &mut Health, failing: &[FailingRoute]) {
    for FailingRoute { name, requests, cause } in failing.iter().take(ROUTES_SHOWN) {
        let (route, bad, all, seconds) =
            (words(name), requests.bad, requests.all(), requests.time().as_secs());
        let text = format!("{bad} of {all} requests of route {route} failed within {seconds} s: {cause}");
        health.add(Code::RouteFailing, text);
    }
    if failing.len() > ROUTES_SHOWN {
        let more = counted((failing.len() - ROUTES_SHOWN) as u64, "further route");
        health.add(Code::RouteFailing, format!("the requests of {more} failed"));
    }
}

fn words(name: &RouteName) -> String {
    let parts = [name.methods.as_deref(), name.host.as_deref(), Some(name.path.as_str())];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use tollgate_meter::RecentOutcomes;

    use super::*;

    #[test]
    fn five_routes_are_named_and_the_others_are_counted() {
        let (mut outcomes, begun) = (RecentOutcomes::default(), Instant::now());
        outcomes.add(begun, 1, 19);
        let requests = outcomes.latest(begun + Duration::from_mins(1)).unwrap();
        let name = |number| RouteName {
            path: format!("/{number}"),
            host: Some("a.test".to_owned()),
            methods: Some("GET,PUT".to_owned()),
        };
        let failing: Vec<_> =
            (0..7).map(|number| FailingRoute { name: name(number), requests, cause: "method" }).collect();
        let mut health = Health::default();
        look_at_routes(&mut health, &failing);
        let texts: Vec<_> = health.0.iter().map(|finding| finding.text.as_str()).collect();
        assert_eq!(texts[0], "19 of 20 requests of route GET,PUT a.test /0 failed within 0 s: method");
        assert_eq!(texts[5..], ["the requests of 2 further routes failed"]);
    }
}
