//! The hook that sets and removes TXT records at a DNS provider, for challenges of an ACME server.
//!
//! The hook has the functions `set` and `remove`, and the functions of all scripts. `tollgate.fetch` in it
//! uses the backends of the server, over connections of its own. The thread that opens the hook also runs it,
//! so a hook that waits or computes delays no request.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use tollgate_backend::Client;
use tollgate_script::{CallError, Hook, Host, HostOptions, SourceFile};

use crate::handler::BackendFetcher;
use crate::options::{DnsHookSpec, ServerOptions, SourceFault};
use crate::overload::Capacity;
use crate::service::Plan;

/// The functions of a hook: the first adds a record, the second removes it.
const NAMES: [&str; 2] = ["set", "remove"];

/// A hook that is not open yet. Any thread may open it.
pub struct DnsHookSource {
    spec: DnsHookSpec,
    plan: Arc<Plan>,
    capacity: Arc<Capacity>,
}

/// A hook in the thread that opened it.
pub struct DnsHook {
    hook: Hook,
    spec: DnsHookSpec,
    client: Rc<Client>,
}

impl DnsHookSource {
    /// Returns the hook of a plan. `None`: the plan has none.
    pub(crate) fn of(plan: Arc<Plan>, capacity: Arc<Capacity>) -> Option<Self> {
        Some(Self { spec: plan.options.dns_hook.clone()?, plan, capacity })
    }

    /// Compiles the hook for the calling thread.
    ///
    /// # Errors
    /// The text says why the hook cannot be loaded. It was loaded before, so its file changed.
    pub fn open(self) -> Result<DnsHook, String> {
        let Self { spec, plan, capacity } = self;
        let (host, hook) = load(&spec, &plan.options.script).map_err(|fault| fault.text)?;
        let client = Rc::new(Client::new(&plan.backends, &Client::default()));
        host.set_fetcher(Rc::new(BackendFetcher { client: client.clone(), capacity }));
        Ok(DnsHook { hook, spec, client })
    }
}

impl DnsHook {
    /// Adds a record.
    ///
    /// # Errors
    /// The text is the first line of the error. The log has the traceback.
    pub async fn set(&self, name: &str, value: &str) -> Result<(), String> {
        self.call(NAMES[0], name, value).await
    }

    /// Removes a record.
    ///
    /// # Errors
    /// The text is the first line of the error. The log has the traceback.
    pub async fn remove(&self, name: &str, value: &str) -> Result<(), String> {
        self.call(NAMES[1], name, value).await
    }

    async fn call(&self, function: &str, name: &str, value: &str) -> Result<(), String> {
        // Connections of an earlier call may be stale, because calls are weeks apart.
        self.client.sweep(Instant::now());
        self.hook.call(function, &[name, value]).await.map_err(|error| {
            let file = self.spec.file.display();
            tracing::warn!(%file, function, record = name, "the hook failed: {error}");
            match error {
                CallError::WallBudget { limit_ms, .. } => {
                    format!("it exceeds dns_timeout: limit {limit_ms} ms")
                }
                error => error.to_string().lines().next().unwrap_or_default().to_owned(),
            }
        })
    }
}

/// Returns the fault of a hook that cannot be loaded.
pub(crate) fn fault(options: &ServerOptions) -> Option<SourceFault> {
    load(options.dns_hook.as_ref()?, &options.script).err()
}

/// Returns the files of the hook: its script and the modules of the script.
pub(crate) fn sources(options: &ServerOptions) -> Vec<SourceFile> {
    let loaded = options.dns_hook.as_ref().and_then(|spec| load(spec, &options.script).ok());
    loaded.map(|(host, _)| host.sources()).unwrap_or_default()
}

fn load(spec: &DnsHookSpec, script: &HostOptions) -> Result<(Host, Hook), SourceFault> {
    let DnsHookSpec { file, root, timeout } = spec;
    let options = HostOptions { wall_budget: *timeout, ..script.clone() };
    let unfit = |text: String| SourceFault { text, file: None, line: 0 };
    let host = Host::new(options).map_err(|error| unfit(error.to_string()))?;
    let hook = host.load_hook(file, root, &NAMES);
    let hook = hook.map_err(|error| SourceFault::of_script(&error, root))?;
    Ok((host, hook))
}
