//! A call of the command, and the folder in which calls are made.

use super::limits::Limit;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time within which a command must end. On a busy machine, its CPU time counts instead.
const LONGEST: Duration = Duration::from_secs(10);
/// Time after which a command is killed even if it has used little CPU time.
const BLOCKED: Duration = Duration::from_secs(60);

/// A call of the command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Case {
    pub(crate) command: String,
    arguments: Vec<OsString>,
    pub(crate) limit: Option<Limit>,
    /// Name of a file of the run `run` in the call's folder, and the path of its replacement.
    pub(crate) replaced: Option<(OsString, PathBuf)>,
    /// Replacement for the file with the machine's bounds.
    pub(crate) cached: Option<PathBuf>,
    pub(crate) full_output: bool,
    pub(crate) full_error: bool,
}

impl Case {
    pub(crate) fn new(command: &str) -> Self {
        Self { command: command.to_string(), ..Self::default() }
    }

    /// Adds a parameter and its value; positional parameters have no dashes.
    pub(crate) fn give(&mut self, name: &str, value: OsString) {
        if name.starts_with('-') {
            self.arguments.push(name.into());
        }
        self.arguments.push(value);
    }

    /// Adds an argument that is the concatenation of these parts.
    pub(crate) fn argument<const N: usize>(&mut self, pieces: [OsString; N]) {
        let mut whole = OsString::new();
        pieces.iter().for_each(|piece| whole.push(piece));
        self.arguments.push(whole);
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.arguments.iter().any(|argument| argument == name)
    }

    /// Returns the size of all arguments in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.arguments.iter().map(|argument| argument.len()).sum()
    }

    /// Returns the command line and the limits, for messages.
    fn line(&self) -> String {
        let arguments = self
            .arguments
            .iter()
            .map(|argument| format!("{argument:?}").chars().take(80).collect::<String>());
        let arguments: Vec<String> = arguments.collect();
        let Self { limit, replaced, cached, full_output, full_error, .. } = self;
        format!(
            "{} {}\n  with {limit:?} {replaced:?} {cached:?} full {full_output} {full_error}",
            self.command,
            arguments.join(" ")
        )
    }
}

/// Outcome of a call.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    signal: Option<i32>,
    /// True if the command did not end in time and was killed.
    late: bool,
    pub(crate) stderr: String,
    /// Names of the files left in the call's folder.
    pub(crate) left: Vec<String>,
}

/// A folder with a run, a text, and a copy of the program that every user may start.
pub(crate) struct Bench {
    folder: TempDir,
    calls: AtomicUsize,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let bench = Self { folder: tempfile::tempdir().unwrap(), calls: AtomicUsize::new(0) };
        fs::set_permissions(bench.folder.path(), Permissions::from_mode(0o777)).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_gradloom"), bench.path("gradloom")).unwrap();
        fs::write(bench.path("text.txt"), "one and two are three\n".repeat(40)).unwrap();
        let mut case = Case::new("train");
        for (name, value) in super::little("train") {
            case.give(name, bench.place(value));
        }
        case.give("--out", bench.path("run").into());
        let ended = bench.run(&case);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        bench
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the value with `DIR` replaced by this folder.
    pub(crate) fn place(&self, value: &str) -> OsString {
        value.replace("DIR", self.folder.path().to_str().unwrap()).into()
    }

    /// Returns `true` if a process can be started as another user.
    pub(crate) fn can_become(&self, user: u32) -> bool {
        let mut command = Command::new(self.path("gradloom"));
        command.arg("--version").stdout(Stdio::null()).uid(user).gid(user);
        command.status().is_ok_and(|status| status.success())
    }

    /// Runs all cases and reports every one that ends wrongly.
    pub(crate) fn run_all(&self, cases: Vec<Case>) {
        let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let began = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(|| {
                    while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if let Some(problem) = problem(case, &self.run(case)) {
                            wrong.lock().unwrap().push(format!("{}\n  {problem}", case.line()));
                        }
                    }
                });
            }
        });
        let wrong = wrong.into_inner().unwrap();
        println!("{} calls in {:.1} s", cases.len(), began.elapsed().as_secs_f64());
        assert!(wrong.is_empty(), "{} of {} calls:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    }

    pub(crate) fn run(&self, case: &Case) -> Ended {
        let folder = self.path(&format!("call-{}", self.calls.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        if let Some((name, instead)) = &case.replaced {
            self.copy_run(&folder.join("run"), name, instead);
        }
        let cache = self.path("cache");
        let cache = case.cached.as_ref().map_or(cache, |instead| {
            let cache = folder.join("cache");
            fs::create_dir_all(cache.join("gradloom")).unwrap();
            std::os::unix::fs::symlink(instead, cache.join("gradloom/roofline.json")).unwrap();
            cache
        });
        let full = |full: bool| {
            if full && Path::new("/dev/full").exists() {
                Stdio::from(OpenOptions::new().write(true).open("/dev/full").unwrap())
            } else {
                Stdio::null()
            }
        };
        let mut command = Command::new(self.path("gradloom"));
        command.arg(&case.command).args(&case.arguments).current_dir(&folder).stdin(Stdio::null());
        command.env("XDG_CACHE_HOME", cache).env_remove("RUST_BACKTRACE").stdout(full(case.full_output));
        // Hide GPU drivers: they print their own errors, and those that compute on the CPU take minutes to
        // compile.
        command.env("VK_DRIVER_FILES", "/dev/null").env("VK_ICD_FILENAMES", "/dev/null");
        command.env("LIBGL_DRIVERS_PATH", "/dev/null").env("XDG_RUNTIME_DIR", &folder);
        command.stderr(if case.full_error { full(true) } else { Stdio::piped() });
        if let Some(limit) = &case.limit {
            limit.apply(&mut command);
        }
        let mut child = match command.spawn() {
            Ok(child) => child,
            // Accept that the system does not start the program if long arguments do not fit on a small
            // stack.
            Err(error) if error.raw_os_error() == Some(libc::E2BIG) => {
                return Ended {
                    code: Some(0),
                    signal: None,
                    late: false,
                    stderr: String::new(),
                    left: Vec::new(),
                };
            }
            Err(error) => panic!("{}: {error}", case.line()),
        };
        let reader = child.stderr.take().map(|mut stderr| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                stderr.read_to_end(&mut bytes).map(|_| String::from_utf8_lossy(&bytes).into_owned()).unwrap()
            })
        });
        let began = Instant::now();
        let (status, late) = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break (status, false);
            }
            let waited = began.elapsed();
            if waited > BLOCKED || waited > LONGEST && computed(child.id()) > LONGEST {
                child.kill().unwrap();
                break (child.wait().unwrap(), true);
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let stderr = reader.map_or_else(String::new, |reader| reader.join().unwrap());
        let left = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        let left = left.collect();
        fs::remove_dir_all(&folder).unwrap();
        Ended { code: status.code(), signal: status.signal(), late, stderr, left }
    }

    /// Copies the run, with one file replaced. Links and pipes are replaced by links to the original ones.
    fn copy_run(&self, to: &Path, name: &OsStr, instead: &Path) {
        fs::create_dir(to).unwrap();
        for entry in fs::read_dir(self.path("run")).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name() != name {
                fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
        let place = to.join(name);
        match instead.file_name().and_then(OsStr::to_str) {
            Some("folder") => fs::create_dir(&place).unwrap(),
            Some("empty" | "noise" | "header" | "tensor") => drop(fs::copy(instead, &place).unwrap()),
            Some("sparse") => File::create(&place).unwrap().set_len(1 << 40).unwrap(),
            _ => std::os::unix::fs::symlink(instead, &place).unwrap(),
        }
    }
}

/// Returns the CPU time of all threads of a process.
fn computed(process: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // Skip the name in parentheses, which may contain blanks; user and system time are the 14th and 15th
    // fields of the line.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    // Linux uses 100 ticks per second.
    Duration::from_millis(10 * ticks)
}

/// Describes the problem with the outcome of a call, if any.
fn problem(case: &Case, ended: &Ended) -> Option<String> {
    let errors = ended.stderr.lines().filter(|line| line.starts_with("error: ")).count();
    let beginning: String = ended.stderr.chars().take(600).collect();
    match ended.code {
        _ if ended.late => Some(format!("did not end: {beginning}")),
        None => Some(format!("signal {:?}: {beginning}", ended.signal)),
        Some(0) => None,
        Some(1 | 2) if errors == 1 || case.full_error => None,
        Some(1 | 2) => Some(format!("{errors} error messages: {beginning}")),
        Some(code) => Some(format!("exit code {code}: {beginning}")),
    }
}
