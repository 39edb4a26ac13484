//! A reload reads the configuration again and checks it as a whole. After the check, either the whole
//! configuration serves, or nothing changes.

use std::path::absolute;

use tollgate_log::Log;
use tollgate_server::{BoundAddress, Server, SourceFault, Sources, script_faults};

use crate::access_log::AccessWriter;
use crate::admin::AdminServer;
use crate::cli::ServeCommand;
use crate::config::{Change, Config, ConfigError, Fault};
use crate::control::Reloaded;
use crate::descriptors;
use crate::destinations::Destinations;
use crate::observe::Observer;
use crate::otlp::SpanExporter;
use crate::retyped::retyped;
use crate::version::Version;
use crate::watch::Watched;

/// The configuration that serves now, and its source.
pub(crate) struct Present {
    command: ServeCommand,
    pub(crate) config: Config,
    pub(crate) version: Version,
}

/// The reason why a reload changed nothing.
enum Refusal {
    /// All faults of the configuration, for the operator to mend.
    Faults(Vec<SourceFault>),
    /// A step of the reload failed in the server.
    Failed(String),
}

impl Refusal {
    /// Returns the first reason, for a screen with little space.
    fn first(&self) -> &str {
        match self {
            Self::Faults(faults) => faults.first().map_or("", |fault| fault.text.as_str()),
            Self::Failed(reason) => reason,
        }
    }
}

impl Present {
    /// Stores the configuration of the start, and logs its version and addresses.
    pub(crate) fn new(
        command: ServeCommand,
        config: Config,
        sources: &Sources,
        addresses: &[BoundAddress],
        admin: Option<&AdminServer>,
    ) -> Self {
        let version = Version::new(config.server.version, &config, sources);
        let Version { number, loaded_at, digest, .. } = &version;
        let (routes, apps) = (config.server.routes.len(), config.mounts.len());
        let listen = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let admin = admin.map(|admin| admin.bound().to_string());
        tracing::info!(listen, admin, version = number, %loaded_at, digest, routes, apps, "serving");
        Self { command, config, version }
    }

    /// Reads the configuration again and serves with it, or returns why it is refused. Logs the outcome.
    pub(crate) fn reload(
        &mut self,
        server: &Server,
        log: &Log,
        destinations: &mut Destinations,
        access: &mut AccessWriter,
        spans: &mut SpanExporter,
        observer: &Observer,
    ) -> Reloaded {
        let reloaded = self.try_reload(server, log, destinations, access, spans);
        if let Some(dev) = &self.config.server.dev {
            dev.set_faults(reloaded.as_ref().err().map(Refusal::faults).unwrap_or_default());
        }
        match reloaded {
            Ok(changes) => {
                observer.take(&self.config);
                observer.note_reload(|reloads| reloads.done(&self.version, &self.config));
                self.report_done(&changes)
            }
            Err(refusal) => {
                observer.note_reload(|reloads| reloads.refused(refusal.first()));
                self.report_refused(&refusal)
            }
        }
    }

    /// Returns the files of the configuration to watch.
    pub(crate) fn watched(&self) -> Watched {
        Watched::of(&self.command.config, &self.config)
    }

    fn try_reload(
        &mut self,
        server: &Server,
        log: &Log,
        destinations: &mut Destinations,
        access: &mut AccessWriter,
        spans: &mut SpanExporter,
    ) -> Result<Vec<Change>, Refusal> {
        let mut config = self.command.load().map_err(|error| Refusal::Faults(faults_of(&error)))?;
        let mut faults: Vec<_> = retyped(&config, &log.schemas()).into_iter().map(unplaced).collect();
        faults.extend(script_faults(&config.server));
        descriptors::raise_limit();
        faults.extend(descriptors::fit(&mut config, descriptors::limit()).err().map(unplaced));
        let changes = self.config.changes_to(&config);
        config.keep_fixed(&self.config);
        faults.extend(config.find_awaited().iter().map(source_fault));
        faults.extend(destinations.faults(&self.config, &config).into_iter().map(unplaced));
        if !faults.is_empty() {
            return Err(Refusal::Faults(faults));
        }
        keep_issued(&self.config, &config)?;
        let lines = AccessWriter::prepare(self.config.access_log.as_ref(), config.access_log.as_ref())
            .map_err(|error| Refusal::Failed(format!("{error:#}")))?;
        let export = SpanExporter::prepare(config.otlp.as_ref())
            .map_err(|error| Refusal::Failed(format!("{error:#}")))?;
        destinations.admit(&config, log);
        config.place_awaited(|sink| destinations.sinks.place_of(sink));
        config.server.version = self.version.number + 1;
        let sources = server.reload(config.server.clone(), log).map_err(|error| {
            destinations.dismiss(&self.config, log);
            Refusal::Failed(format!("{:#}", anyhow::Error::from(error)))
        })?;
        destinations.change(&self.config, &config, log);
        if let Err(error) = access.apply(lines).and(spans.apply(export)) {
            tracing::error!("{error:#}");
        }
        config.connections_note.iter().for_each(|note| tracing::warn!("{note}"));
        let version = Version::new(config.server.version, &config, &sources);
        let scripts = version.changed_scripts(&self.version);
        (self.config, self.version) = (config, version);
        Ok(Change::in_short(changes.into_iter().chain(scripts).collect()))
    }

    /// Returns the name of this server, for a person who may have asked the server of another folder.
    fn server_name(&self) -> String {
        let source = &self.config.source;
        let source = absolute(source).unwrap_or_else(|_| source.clone());
        format!("process {}, configuration {}", std::process::id(), source.display())
    }

    fn report_done(&self, changes: &[Change]) -> Reloaded {
        let Version { number: version, loaded_at, digest, .. } = &self.version;
        let (routes, apps, count) =
            (self.config.server.routes.len(), self.config.mounts.len(), changes.len());
        tracing::info!(version, %loaded_at, digest, routes, apps, changes = count, "reloaded");
        let server = self.server_name();
        let mut text =
            format!("reloaded: version {version}, {server}\nloaded at {loaded_at}, digest {digest}\n");
        for change in changes {
            let line = if change.needs_restart() {
                tracing::warn!(version, "needs a restart: {change}");
                format!("needs a restart: {change}\n")
            } else {
                tracing::info!(version, "changed: {change}");
                format!("changed: {change}\n")
            };
            text.push_str(&line);
        }
        Reloaded { code: 0, text }
    }

    fn report_refused(&self, refusal: &Refusal) -> Reloaded {
        let code = match refusal {
            Refusal::Faults(_) => 2,
            Refusal::Failed(_) => 1,
        };
        let reasons: Vec<_> = refusal.faults().into_iter().map(|fault| fault.text).collect();
        let Version { number: version, loaded_at, .. } = &self.version;
        for reason in &reasons {
            tracing::error!(version, "not reloaded: {reason}");
        }
        tracing::error!(
            version,
            %loaded_at,
            faults = reasons.len(),
            "reload refused: the present configuration stays"
        );
        reasons.into_iter().map(|reason| reason + "\n").fold(
            Reloaded {
                code,
                text: format!("not reloaded, version {version} still serves, {}:\n", self.server_name()),
            },
            |mut told, line| {
                told.text.push_str(&line);
                told
            },
        )
    }
}

impl Refusal {
    fn faults(&self) -> Vec<SourceFault> {
        match self {
            Self::Faults(faults) => faults.clone(),
            Self::Failed(reason) => vec![unplaced(reason.clone())],
        }
    }
}

/// Passes the certificates that came at run time on to the new configuration.
fn keep_issued(present: &Config, new: &Config) -> Result<(), Refusal> {
    let (Some(present), Some(new)) = (&present.server.tls, &new.server.tls) else { return Ok(()) };
    new.set_issued(present.issued()).map_err(|error| Refusal::Failed(format!("TLS cannot be used: {error}")))
}

fn faults_of(error: &ConfigError) -> Vec<SourceFault> {
    error.faults.iter().map(source_fault).collect()
}

fn source_fault(fault: &Fault) -> SourceFault {
    SourceFault { text: fault.to_string(), file: Some(fault.file.clone()), line: fault.line }
}

fn unplaced(text: String) -> SourceFault {
    SourceFault { text, file: None, line: 0 }
}
