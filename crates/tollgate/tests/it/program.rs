//! Starts, stops and kills the binary in a separate folder, and sends requests to it. Every wait has a
//! deadline.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::types::FromSql;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use tempfile::TempDir;

use crate::client::Client;

/// Deadline of each wait. Without a fault, every step of these tests is faster.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// A script that records the item `n` of the query.
pub(crate) const KEEP: &str = "return function(req) return { record = { n = tonumber(req.query.n) } } end";

/// Number of tries before a slow step is treated as a fault.
const QUICK_TRIES: usize = 10;
const POLL_PAUSE: Duration = Duration::from_millis(1);

/// A folder with a configuration and scripts.
pub(crate) struct App {
    folder: TempDir,
}

impl App {
    /// Writes the configuration, with a free port, and the scripts by name.
    pub(crate) fn new(config: &str, scripts: &[(&str, &str)]) -> Self {
        let app = Self::bare(scripts);
        app.configure(config);
        app
    }

    /// Writes the configuration, which begins with keys of `[server]`, with a free port.
    pub(crate) fn configure(&self, config: &str) {
        self.write("tollgate.toml", &patient(&format!("[server]\nlisten = [\"127.0.0.1:0\"]\n{config}")));
    }

    /// Makes an app in a folder below `parent`.
    pub(crate) fn new_in(parent: &Path, config: &str, scripts: &[(&str, &str)]) -> Self {
        let app = Self::with(tempfile::tempdir_in(parent).unwrap(), scripts);
        app.configure(config);
        app
    }

    /// Makes a folder without a configuration.
    pub(crate) fn bare(scripts: &[(&str, &str)]) -> Self {
        Self::with(tempfile::tempdir().unwrap(), scripts)
    }

    fn with(folder: TempDir, scripts: &[(&str, &str)]) -> Self {
        let app = Self { folder };
        scripts.iter().for_each(|(name, text)| app.write(name, text));
        app
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the present text of the configuration.
    pub(crate) fn config(&self) -> String {
        fs::read_to_string(self.path().join("tollgate.toml")).unwrap()
    }

    pub(crate) fn start(&self) -> Running {
        self.start_with(&[])
    }

    /// Starts the server with further arguments of `serve`.
    pub(crate) fn start_with(&self, arguments: &[&str]) -> Running {
        let starting = Starting::new(Command::new(BINARY), self.path(), arguments);
        starting.serving().unwrap_or_else(|end| panic!("no start: {end:?}"))
    }

    /// Starts the server without waiting until it serves.
    pub(crate) fn begin(&self) -> Starting {
        Starting::new(Command::new(BINARY), self.path(), &[])
    }

    /// Starts the server as the last arguments of another command.
    pub(crate) fn begin_as(&self, command: Command) -> Starting {
        Starting::new(command, self.path(), &[])
    }

    /// Starts the server under strace, which makes calls with this name fail. Each thread counts its own
    /// calls.
    pub(crate) fn begin_with_fault(&self, call: &str, fault: &str) -> Starting {
        self.begin_with_faults(&[(call, fault)])
    }

    /// Starts the server under strace with several faults, each for its own call.
    pub(crate) fn begin_with_faults(&self, faults: &[(&str, &str)]) -> Starting {
        let mut strace = Command::new("strace");
        strace
            .args(["-f", "--decode-pids=comm", "-qq", "-e", "signal=none", "-o"])
            .arg(self.path().join(STRACE_REPORT));
        let calls: Vec<_> = faults.iter().map(|(call, _)| *call).collect();
        strace.args(["-e", &format!("trace={}", calls.join(","))]);
        for (call, fault) in faults {
            strace.args(["-e", &format!("inject={call}:{fault}")]);
        }
        strace.arg(BINARY);
        Starting::new(strace, self.path(), &[])
    }

    /// Returns the calls that strace reported, in the order of their begin: the name of the thread and the
    /// text of the call.
    pub(crate) fn calls(&self) -> Vec<(String, String)> {
        let report = fs::read_to_string(self.path().join(STRACE_REPORT)).unwrap();
        let lines = report.lines().filter_map(|line| line.split_once('<')?.1.split_once("> "));
        lines.map(|(thread, call)| (thread.to_owned(), call.trim_start().to_owned())).collect()
    }

    /// Returns the threads in which strace made a call fail.
    pub(crate) fn threads_hit(&self) -> BTreeSet<String> {
        let hit = self.calls().into_iter().filter(|(_, call)| call.ends_with("(INJECTED)"));
        hit.map(|(thread, _)| thread).collect()
    }

    /// Runs the binary to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(BINARY);
        command.args(arguments).current_dir(self.path());
        let mut process = Process::spawn(&mut command);
        let stdout = PipeText::by(process.child.stdout.take().unwrap());
        let (status, stderr) = process.wait();
        Output { status, stdout: stdout.whole().into_bytes(), stderr: stderr.into_bytes() }
    }

    /// Starts a command that prints until it gets a signal.
    pub(crate) fn follow(&self, arguments: &[&str]) -> Following {
        let mut command = Command::new(BINARY);
        command.args(arguments);
        self.follow_as(command)
    }

    /// Starts a command of its own that runs until it gets a signal.
    pub(crate) fn follow_as(&self, mut command: Command) -> Following {
        command.current_dir(self.path());
        let mut process = Process::spawn(&mut command);
        let lines = follow(process.child.stdout.take().unwrap());
        Following { process, lines }
    }

    /// Runs a command that must succeed, and returns what it printed.
    pub(crate) fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", printed(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn database(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.database_path()).unwrap()
    }

    fn database_path(&self) -> PathBuf {
        self.path().join("data/tollgate.sqlite")
    }

    /// Returns the first column of all rows.
    pub(crate) fn query<T: FromSql>(&self, sql: &str) -> Vec<T> {
        let database = self.database();
        let mut statement = database.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    /// Returns whether the database is there and has this table.
    pub(crate) fn has_table(&self, name: &str) -> bool {
        self.database_path().exists() && self.database().table_exists(None, name).unwrap()
    }

    pub(crate) fn log_dir(&self) -> PathBuf {
        self.path().join("data/log")
    }

    /// Returns the segment files, in order.
    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        let folders = fs::read_dir(self.log_dir()).unwrap().map(|entry| entry.unwrap().path());
        let files = folders.filter(|path| path.is_dir()).flat_map(|log| fs::read_dir(log).unwrap());
        let mut files: Vec<_> =
            files.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some()).collect();
        files.sort();
        files
    }

    /// Starts and stops the server once more, so that all records of the log are loaded. No record may be
    /// missing, and no segment open or damaged.
    pub(crate) fn settle(&self) {
        let (status, log) = self.start().stop();
        assert!(status.success(), "{log}");
        let audit = self.succeed(&["audit"]);
        assert!(audit.contains("exact: "), "{audit}");
        let verify = self.succeed(&["log", "verify"]);
        assert!(verify.ends_with(" 0 open, 0 torn, 0 bad\n"), "{verify}");
    }
}

/// Raises `queue_age_max` in a configuration, so that its server does not refuse requests on a busy machine.
///
/// The tests run in parallel, so a worker or the disk may be late by seconds. With the default, the server
/// would refuse requests. A test that needs such refusals sets `queue_age_max` itself.
pub(crate) fn patient(config: &str) -> String {
    let make_patient = |config: String, section: &str| match config.split_once(&format!("[{section}]\n")) {
        Some((_, keys)) if sets_queue_age_max(keys) => config,
        Some((before, keys)) => format!("{before}[{section}]\n{PATIENT}{keys}"),
        None => format!("{config}\n[{section}]\n{PATIENT}"),
    };
    ["server", "log"].into_iter().fold(config.to_owned(), make_patient)
}

/// Returns whether the first section in this text sets `queue_age_max`. The text begins with the keys of the
/// section.
fn sets_queue_age_max(keys: &str) -> bool {
    keys.lines().take_while(|line| !line.starts_with('[')).any(|line| line.starts_with("queue_age_max"))
}

/// A child of this test. Dropping this value kills the process.
struct Process {
    child: Child,
    stderr: Option<PipeText>,
}

impl Process {
    fn spawn(command: &mut Command) -> Self {
        let spawned = command.env_remove("RUST_LOG").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.unwrap_or_else(|error| {
            panic!("cannot run {}: {error}: `make tools` installs strace", command.get_program().display())
        });
        let stderr = PipeText::by(child.stderr.take().unwrap());
        Self { child, stderr: Some(stderr) }
    }

    /// Signals the program, also below strace.
    fn signal(&self, signal: Signal) {
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        let below = fs::read_to_string(children).unwrap_or_default();
        let id = below.split_whitespace().next().map_or(self.child.id(), |id| id.parse().unwrap());
        // A process that has just ended needs no signal.
        let _ = kill_process(Pid::from_raw(id.cast_signed()).unwrap(), signal);
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Returns whether `text` is already on stderr.
    fn has_printed(&self, text: &str) -> bool {
        self.stderr.as_ref().is_some_and(|stderr| stderr.text.lock().unwrap().contains(text))
    }

    /// Waits until the program ends. Returns its status and all of its stderr.
    fn wait(mut self) -> (ExitStatus, String) {
        let status = eventually("the program ends", || self.child.try_wait().unwrap());
        (status, self.stderr.take().unwrap().whole())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.has_ended() {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// A command that prints until it gets a signal.
pub(crate) struct Following {
    process: Process,
    lines: Receiver<String>,
}

impl Following {
    /// Waits for the next line.
    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line in time")
    }

    /// Returns whether no line arrives within `time`.
    pub(crate) fn is_silent_for(&self, time: Duration) -> bool {
        self.lines.recv_timeout(time).is_err()
    }

    /// Returns whether `text` is already on stderr.
    pub(crate) fn has_printed(&self, text: &str) -> bool {
        self.process.has_printed(text)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Waits until the program ends by itself. Returns the status and its stderr.
    pub(crate) fn wait(self) -> (ExitStatus, String) {
        self.process.wait()
    }

    /// Sends a signal and waits until the program ends. Returns the status and its stderr.
    pub(crate) fn end(self, signal: Signal) -> (ExitStatus, String) {
        self.process.signal(signal);
        self.process.wait()
    }

    /// Sends a signal and waits. Returns the status, its stderr, and the lines that were not taken.
    pub(crate) fn end_with_lines(self, signal: Signal) -> (ExitStatus, String, Vec<String>) {
        self.process.signal(signal);
        let lines = self.lines.iter().collect();
        let (status, stderr) = self.process.wait();
        (status, stderr, lines)
    }
}

/// A server that does not serve yet.
pub(crate) struct Starting {
    process: Process,
    first_line: Receiver<String>,
}

impl Starting {
    fn new(mut command: Command, folder: &Path, arguments: &[&str]) -> Self {
        let mut process = Process::spawn(command.arg("serve").args(arguments).arg(folder));
        let first_line = follow(process.child.stdout.take().unwrap());
        Self { process, first_line }
    }

    /// Waits until the server serves. If it ends before, returns its status and its log as the error.
    pub(crate) fn serving(self) -> Result<Running, (ExitStatus, String)> {
        let line = match self.first_line.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return Err(self.process.wait()),
            Err(RecvTimeoutError::Timeout) => panic!("not in time: the first line"),
        };
        let url = line.strip_prefix("serving ").and_then(|rest| rest.split(' ').next());
        let address = url.and_then(|url| Some(url.split_once("://")?.1));
        let address = address.unwrap_or_else(|| panic!("{line:?}")).parse().unwrap();
        Ok(Running { process: self.process, address })
    }

    /// Returns whether the server has logged this text already.
    pub(crate) fn has_logged(&self, text: &str) -> bool {
        self.process.has_printed(text)
    }

    /// Returns whether the process has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.process.has_ended()
    }

    pub(crate) fn kill(self) {
        self.process.signal(Signal::KILL);
        self.process.wait();
    }
}

/// A server that serves.
pub(crate) struct Running {
    process: Process,
    address: SocketAddr,
}

impl Running {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.child.id()
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Limits the server's descriptors from now on. Open descriptors stay open.
    pub(crate) fn limit_descriptors(&self, count: u64) {
        let pid = Pid::from_raw(i32::try_from(self.id()).unwrap()).unwrap();
        let limit = Rlimit { current: Some(count), maximum: getrlimit(Resource::Nofile).maximum };
        prlimit(Some(pid), Resource::Nofile, limit).unwrap();
    }

    /// Returns whether the server has logged this text already.
    pub(crate) fn has_logged(&self, text: &str) -> bool {
        self.process.has_printed(text)
    }

    /// Returns the complete lines that the server has logged so far.
    pub(crate) fn logged(&self) -> String {
        self.process.stderr.as_ref().map_or_else(String::new, |told| told.text.lock().unwrap().clone())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Sends SIGTERM and waits until the server ends. Returns the status and its log.
    pub(crate) fn stop(self) -> (ExitStatus, String) {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Waits until the program ends by itself.
    pub(crate) fn wait(self) -> (ExitStatus, String) {
        self.process.wait()
    }

    pub(crate) fn kill(self) {
        self.signal(Signal::KILL);
        self.wait();
    }
}

/// Waits until `look` returns a value, for at most [`PATIENCE`].
pub(crate) fn eventually<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    eventually_within(PATIENCE, what, look)
}

/// Waits until `look` returns a value, for at most `patience`.
pub(crate) fn eventually_within<T>(patience: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < patience, "not in time: {what}");
        thread::sleep(POLL_PAUSE);
    }
}

/// Measures a step repeatedly until one try is no slower than `limit`. On a busy machine some tries are
/// slower than that. With a fault, all tries are.
pub(crate) fn is_quick_once(what: &str, limit: Duration, mut measure: impl FnMut() -> Duration) {
    let mut times = Vec::new();
    while times.len() < QUICK_TRIES {
        let took = measure();
        if took <= limit {
            return;
        }
        times.push(took);
    }
    panic!("{what} never took less than {limit:?}: {times:?}");
}

/// Runs a check for each item, `threads` in parallel.
pub(crate) fn in_threads<T: Sync, R: Send>(
    threads: usize,
    items: &[T],
    check: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let thread = |number| items.iter().skip(number).step_by(threads).map(&check).collect::<Vec<_>>();
    thread::scope(|scope| {
        let thread = &thread;
        let running: Vec<_> = (0..threads).map(|number| scope.spawn(move || thread(number))).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("a thread without a failure")).collect()
    })
}

/// Returns what a command printed on stdout and stderr.
pub(crate) fn printed(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The text that has arrived so far through a pipe of the program.
struct PipeText {
    text: Arc<Mutex<String>>,
    reading: JoinHandle<()>,
}

impl PipeText {
    fn by(pipe: impl Read + Send + 'static) -> Self {
        let text = Arc::<Mutex<String>>::default();
        let received = text.clone();
        let reading = thread::spawn(move || {
            let (mut pipe, mut line) = (BufReader::new(pipe), String::new());
            while pipe.read_line(&mut line).unwrap() > 0 {
                received.lock().unwrap().push_str(&line);
                line.clear();
            }
        });
        Self { text, reading }
    }

    /// Returns all of the text, after the other end of the pipe is closed.
    fn whole(self) -> String {
        self.reading.join().unwrap();
        std::mem::take(&mut *self.text.lock().unwrap())
    }
}

/// Returns the lines as they arrive. The lines are read even if the test does not use them, so that a full
/// pipe never stops the program.
pub(crate) fn follow(stdout: ChildStdout) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        // The receiver may need only the first line.
        BufReader::new(stdout).lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
    });
    lines
}

/// The program under test. `make dist-e2e BINARY=` names another one when it compiles the tests.
pub(crate) const BINARY: &str = match option_env!("TOLLGATE_BINARY") {
    Some(path) => path,
    None => env!("CARGO_BIN_EXE_tollgate"),
};
const PATIENT: &str = "queue_age_max = \"1h\"\n";
const STRACE_REPORT: &str = "strace.txt";
