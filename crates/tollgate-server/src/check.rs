//! Loads scripts without serving them.

use tollgate_http::Methods;
use tollgate_script::{Host, RecordFields};

use crate::options::{HandlerSpec, RouteSpec, ServerOptions};

/// Loads the script of every route as a worker would, and returns what is wrong with each.
pub fn check_scripts(options: &ServerOptions) -> Vec<String> {
    let host = match Host::new(options.script.clone()) {
        Ok(host) => host,
        Err(error) => return vec![error.to_string()],
    };
    let mut faults: Vec<_> = options.routes.iter().filter_map(|route| check(route, &host)).collect();
    faults.dedup();
    faults
}

fn check(route: &RouteSpec, host: &Host) -> Option<String> {
    for script in route.before.iter().chain(&route.after) {
        if let Err(error) = host.load(&script.file, &script.root, &RecordFields::default()) {
            return Some(error.to_string());
        }
    }
    let HandlerSpec::Script { file, root } = &route.handler else { return None };
    let handler = match host.load(file, root, &RecordFields::default()) {
        Ok(handler) => handler,
        Err(error) => return Some(error.to_string()),
    };
    let (wanted, answered) = (route.known_methods()?, RouteSpec::with_head(handler.methods()?));
    let missing: Methods = wanted.iter().filter(|method| !answered.contains(*method)).collect();
    (!missing.is_empty()).then(|| {
        let (path, file) = (&route.path, file.display());
        format!("{file}: no function for {missing}, which route {path:?} takes; there is: {answered}")
    })
}
