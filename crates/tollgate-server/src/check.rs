//! Loads scripts without serving them.

use tollgate_script::{Host, RecordFields};

use crate::options::{HandlerSpec, ServerOptions};

/// Loads the script of every route as a worker would, and returns what is wrong with each.
pub fn check_scripts(options: &ServerOptions) -> Vec<String> {
    let host = match Host::new(options.script.clone()) {
        Ok(host) => host,
        Err(error) => return vec![error.to_string()],
    };
    let mut faults: Vec<_> = options.routes.iter().filter_map(|route| check(&route.handler, &host)).collect();
    faults.dedup();
    faults
}

fn check(handler: &HandlerSpec, host: &Host) -> Option<String> {
    let HandlerSpec::Script { file, root } = handler else { return None };
    host.load(file, root, &RecordFields::default()).err().map(|error| error.to_string())
}
