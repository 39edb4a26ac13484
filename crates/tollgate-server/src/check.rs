//! Loads scripts without serving them.

use tollgate_http::Methods;
use tollgate_script::{Host, RecordFields};

use crate::app::Hosts;
use crate::dns_hook;
use crate::options::{HandlerSpec, RouteSpec, ServerOptions, SourceFault};

/// Loads the scripts of every route in the way of a worker, and the hook. Returns the faults as text.
pub fn check_scripts(options: &ServerOptions) -> Vec<String> {
    script_faults(options).into_iter().map(|fault| fault.text).collect()
}

/// Loads the scripts of every route and the hook, and returns the faults with file and line.
pub fn script_faults(options: &ServerOptions) -> Vec<SourceFault> {
    let hosts = match Hosts::new(options, &[]) {
        Ok(hosts) => hosts,
        Err(error) => return vec![SourceFault { text: error.to_string(), file: None, line: 0 }],
    };
    let mut faults: Vec<_> =
        options.routes.iter().filter_map(|route| check(route, hosts.of(route))).collect();
    faults.extend(dns_hook::fault(options));
    faults.dedup();
    faults
}

/// Returns the methods of a route. If the route does not name the methods, the script is loaded, and the
/// functions of the script decide. Returns `None` if the route accepts any method, or the script cannot be
/// loaded.
pub fn methods_of(options: &ServerOptions, route: &RouteSpec) -> Option<Methods> {
    let HandlerSpec::Script { file, root } = &route.handler else { return route.known_methods() };
    route.known_methods().or_else(|| {
        let hosts = Hosts::new(options, &[]).ok()?;
        let handler = hosts.of(route).load(file, root, &RecordFields::default()).ok()?;
        handler.methods().map(RouteSpec::with_head)
    })
}

fn check(route: &RouteSpec, host: &Host) -> Option<SourceFault> {
    for script in route.before.iter().chain(&route.after) {
        if let Err(error) = host.load(&script.file, &script.root, &RecordFields::default()) {
            return Some(SourceFault::of_script(&error, &script.root));
        }
    }
    let HandlerSpec::Script { file, root } = &route.handler else { return None };
    let handler = match host.load(file, root, &RecordFields::default()) {
        Ok(handler) => handler,
        Err(error) => return Some(SourceFault::of_script(&error, root)),
    };
    let (wanted, answered) = (route.known_methods()?, RouteSpec::with_head(handler.methods()?));
    let missing: Methods = wanted.iter().filter(|method| !answered.contains(*method)).collect();
    (!missing.is_empty()).then(|| {
        let (path, shown) = (&route.path, file.display());
        let text = format!(
            "{shown}: the script has no function for {missing}, which route {path:?} accepts: \
             it has {answered}"
        );
        SourceFault { text, file: Some(file.clone()), line: 0 }
    })
}
