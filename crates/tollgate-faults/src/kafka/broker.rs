//! The process of the broker.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::link::Link;

/// Longest time from the start of the JVM until the broker serves. A busy machine needs most of it.
const START_MAX: Duration = Duration::from_secs(120);
/// How often the start is checked.
const LOOK: Duration = Duration::from_millis(20);
/// Any id of 16 bytes in base64.
const CLUSTER: &str = "4L6g3nShT-eMCtK--X86sw";
/// Number of lines of the broker that a failed test prints.
const LINES_SHOWN: usize = 40;
/// Ports of brokers. The system gives none of them to a connection or to a listener on port 0. So nothing
/// takes the port of a killed broker before the broker starts again.
const PORTS: Range<u16> = 10_000..32_000;
/// The line after which the broker serves.
const STARTED: &str = "Kafka Server started";

/// Runs the broker, says its id, and kills it when the pipe closes. So no broker outlives its test, however
/// the test ends.
const KEEPER: &str = "\"$@\" >out.log 2>&1 </dev/null & echo $!; read _; kill -9 $!; wait $!";

/// Options of a broker.
#[derive(Debug, Clone, Default)]
pub struct KafkaOptions {
    /// More lines of `server.properties`.
    pub lines: Vec<String>,
    /// A second listener, with TLS and SASL.
    pub secure: Option<SecureListener>,
    /// Level of the feature `transaction.version`. `None`: the level of the release.
    pub transaction_version: Option<u8>,
}

/// A listener with TLS and SASL.
#[derive(Debug, Clone)]
pub struct SecureListener {
    /// PEM file with the private key (PKCS #8) and the certificate of the broker.
    pub pem: PathBuf,
    /// Name of the only user. It may use PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512. A token of OAUTHBEARER
    /// may have any name.
    pub user: String,
    /// Password of the user.
    pub password: String,
}

impl SecureListener {
    fn lines(&self, address: SocketAddr, plain: [SocketAddr; 3]) -> Vec<String> {
        let Self { pem, user, password } = self;
        let [broker, controller, link] = plain;
        let of = |line: String| format!("listener.name.secure.{line}");
        let jaas = "org.apache.kafka.common.security";
        vec![
            format!("listeners=PLAINTEXT://{broker},CONTROLLER://{controller},SECURE://{address}"),
            format!("advertised.listeners=PLAINTEXT://{link},SECURE://{address}"),
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL"
                .to_owned(),
            "inter.broker.listener.name=PLAINTEXT".to_owned(),
            of("ssl.keystore.type=PEM".to_owned()),
            of(format!("ssl.keystore.location={}", pem.display())),
            of("sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER".to_owned()),
            of(format!(
                "plain.sasl.jaas.config={jaas}.plain.PlainLoginModule required user_{user}=\"{password}\";"
            )),
            of(format!("scram-sha-256.sasl.jaas.config={jaas}.scram.ScramLoginModule required;")),
            of(format!("scram-sha-512.sasl.jaas.config={jaas}.scram.ScramLoginModule required;")),
            // The broker of a test takes tokens without a signature.
            of(format!("oauthbearer.sasl.jaas.config={jaas}.oauthbearer.OAuthBearerLoginModule required;")),
        ]
    }

    /// Returns the arguments of the storage tool that make the user.
    fn users(&self) -> [String; 4] {
        let Self { user, password, .. } = self;
        let scram = |name: &str| format!("{name}=[name={user},password={password}]");
        let add = || "--add-scram".to_owned();
        [add(), scram("SCRAM-SHA-256"), add(), scram("SCRAM-SHA-512")]
    }
}

/// A broker in a folder.
pub struct Kafka {
    folder: PathBuf,
    jars: PathBuf,
    /// Address of the broker itself.
    broker: SocketAddr,
    /// Address of the listener with TLS and SASL. Nothing listens there without one.
    secure: SocketAddr,
    link: Link,
    /// The keeper, and the id of the broker.
    process: Option<(Child, Pid)>,
}

impl Kafka {
    /// Starts a broker whose files are in `folder`, and waits until it serves.
    ///
    /// # Panics
    /// The jars are not installed, or the broker ends.
    pub fn start(folder: &Path, options: &KafkaOptions) -> Self {
        let link = Link::open();
        let [broker, controller, secure] = [free_address(), free_address(), free_address()];
        fs::create_dir_all(folder).expect("a folder for the broker");
        let plain = [broker, controller, link.address()];
        let secure_lines = options.secure.iter().flat_map(|listener| listener.lines(secure, plain));
        let more: Vec<_> = secure_lines.chain(options.lines.iter().cloned()).collect();
        let lines = properties(folder, plain, &more);
        fs::write(folder.join("server.properties"), lines).expect("write server.properties");
        link.lead_to(broker);
        let mut kafka =
            Self { folder: folder.to_owned(), jars: tool("kafka-"), broker, secure, link, process: None };
        let format = ["kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", "server.properties"];
        let users = options.secure.iter().flat_map(SecureListener::users);
        let level = options.transaction_version.map(|level| format!("transaction.version={level}"));
        let feature = level.iter().flat_map(|level| ["--feature", level]);
        let done = kafka
            .java(&format)
            .args(users)
            .args(feature)
            .output()
            .expect("run java: install default-jre-headless");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        kafka.run();
        kafka
    }

    /// Starts the broker again after [`Self::kill`], and waits until it serves.
    ///
    /// # Panics
    /// The broker ends.
    pub fn run(&mut self) {
        let path = self.folder.join("out.log");
        // The output of an earlier broker would look like a start.
        fs::write(&path, "").expect("empty out.log");
        let broker = self.java(&["kafka.Kafka", "server.properties"]);
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "sh"])
            .arg(broker.get_program())
            .args(broker.get_args())
            .current_dir(&self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start the broker");
        let mut line = String::new();
        let mut said = BufReader::new(keeper.stdout.take().expect("the output of the keeper"));
        said.read_line(&mut line).expect("the id of the broker");
        let id = line.trim().parse().ok().and_then(Pid::from_raw).expect("the id of the broker");
        self.process = Some((keeper, id));
        let begun = Instant::now();
        loop {
            let text = fs::read_to_string(&path).unwrap_or_default();
            if text.contains(STARTED) {
                return;
            }
            assert!(self.is_running(), "the broker ended:\n{text}");
            assert!(begun.elapsed() < START_MAX, "the broker does not start:\n{text}");
            thread::sleep(LOOK);
        }
    }

    /// Returns the address for clients, `host:port`. It leads through the link.
    pub fn address(&self) -> String {
        self.link.address().to_string()
    }

    /// Returns the address of the listener with TLS and SASL.
    pub fn secure_address(&self) -> String {
        self.secure.to_string()
    }

    /// Returns the link between clients and broker.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Returns the folder of the broker.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Kills the broker (SIGKILL). Its files stay.
    pub fn kill(&mut self) {
        if let Some((mut keeper, id)) = self.process.take() {
            // The keeper would kill the broker some milliseconds later. It may have ended by itself.
            kill_process(id, Signal::KILL).ok();
            drop(keeper.stdin.take());
            // The keeper ends after the broker.
            drop(keeper.wait());
        }
    }

    /// Freezes the broker (SIGSTOP).
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets a frozen broker go on (SIGCONT).
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Returns a command that runs a class of Kafka's jars in the folder of the broker.
    pub fn java(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("java");
        command
            .args(["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
            .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
            .arg("-Dorg.slf4j.simpleLogger.log.kafka.server=info")
            .arg("-cp")
            .arg(self.jars.join("*"))
            .args(arguments)
            .current_dir(&self.folder)
            .stdin(Stdio::null());
        command
    }

    /// Allows the user of the secure listener operations. Only a broker with an authorizer needs that, and
    /// users of the other listeners have to be its super users.
    ///
    /// # Panics
    /// The broker refuses it.
    pub fn allow(&self, user: &str, rule: &[&str]) {
        let (server, principal) = (self.broker.to_string(), format!("User:{user}"));
        let tool = ["org.apache.kafka.tools.AclCommand", "--bootstrap-server", &server];
        let added = ["--add", "--allow-principal", &principal];
        let done = self.java(&[&tool[..], &added, rule].concat()).output().expect("run java");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// Returns the address of the broker without the link. Only the first connection of a client uses it,
    /// because the broker names the address of the link.
    pub(super) fn direct(&self) -> SocketAddr {
        self.broker
    }

    /// Returns whether the process of the broker exists and has not ended.
    fn is_running(&self) -> bool {
        let Some((_, id)) = &self.process else { return false };
        let stat = fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero())).unwrap_or_default();
        // The state follows the name, which ends with a parenthesis. `Z`: ended, and the keeper waits.
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    }

    /// Prints the last lines of the broker.
    fn show(&self) {
        let text = fs::read_to_string(self.folder.join("out.log")).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        println!("the broker runs: {}. Its last lines:", self.is_running());
        lines[lines.len().saturating_sub(LINES_SHOWN)..].iter().for_each(|line| println!("{line}"));
    }

    fn signal(&self, signal: Signal) {
        if let Some((_, id)) = self.process {
            kill_process(id, signal).expect("signal the broker");
        }
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        if thread::panicking() {
            self.show();
        }
        self.kill();
    }
}

/// Returns the text of `server.properties`. A later line replaces an earlier one with the same name.
fn properties(folder: &Path, [broker, controller, link]: [SocketAddr; 3], more: &[String]) -> String {
    let mut lines = vec![
        "process.roles=broker,controller".to_owned(),
        "node.id=1".to_owned(),
        format!("controller.quorum.voters=1@{controller}"),
        format!("listeners=PLAINTEXT://{broker},CONTROLLER://{controller}"),
        format!("advertised.listeners=PLAINTEXT://{link}"),
        "controller.listener.names=CONTROLLER".to_owned(),
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT".to_owned(),
        format!("log.dirs={}", folder.join("data").display()),
        "auto.create.topics.enable=false".to_owned(),
        "group.initial.rebalance.delay.ms=0".to_owned(),
        // One broker holds the only copy of each topic.
        "offsets.topic.replication.factor=1".to_owned(),
        "transaction.state.log.replication.factor=1".to_owned(),
        "transaction.state.log.min.isr=1".to_owned(),
        "share.coordinator.state.topic.replication.factor=1".to_owned(),
        "share.coordinator.state.topic.min.isr=1".to_owned(),
        // A broker that starts again after a kill waits until its earlier session ended.
        "broker.session.timeout.ms=1500".to_owned(),
        "broker.heartbeat.interval.ms=300".to_owned(),
        // Fewer files.
        "offsets.topic.num.partitions=1".to_owned(),
        "transaction.state.log.num.partitions=4".to_owned(),
        // The end of transactions whose writer is gone.
        "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000".to_owned(),
        // A quota allows a burst of this many seconds.
        "quota.window.num=3".to_owned(),
    ];
    lines.extend(more.iter().cloned());
    lines.join("\n") + "\n"
}

/// Returns an address of [`PORTS`] that nothing listens at, and that this process did not return before.
///
/// # Panics
/// All ports are taken.
fn free_address() -> SocketAddr {
    /// Number of ports that were tried.
    static TRIED: AtomicU32 = AtomicU32::new(0);
    let count = u32::from(PORTS.end - PORTS.start);
    // Processes that run at once begin at distant ports.
    let begin = std::process::id().wrapping_mul(2_654_435_761) % count;
    while TRIED.load(Ordering::Relaxed) < count {
        let place = (begin + TRIED.fetch_add(1, Ordering::Relaxed)) % count;
        let port = PORTS.start + u16::try_from(place).expect("a port");
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            return listener.local_addr().expect("the address of a listener");
        }
    }
    panic!("no port of {PORTS:?} is free");
}

/// Returns the newest folder of target/tools whose name begins so.
pub(super) fn tool(name: &str) -> PathBuf {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools");
    let found = fs::read_dir(&tools).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_wanted =
        |path: &PathBuf| path.file_name().is_some_and(|found| found.to_string_lossy().starts_with(name));
    found.filter(is_wanted).max().unwrap_or_else(|| panic!("no {name} in target/tools: run `make kafka`"))
}
