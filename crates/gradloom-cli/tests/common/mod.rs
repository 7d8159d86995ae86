//! Runs the built command on small models.
#![allow(dead_code, reason = "each test program uses a part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The built command, with a folder to run in.
pub(crate) struct Workspace {
    folder: TempDir,
}

/// Configuration of a model that trains in a moment.
pub(crate) const SMALL: &str = "layers = 1\nheads = 2\nwidth = 16\ncontext = 16\nbatch = 2\nsteps = 40\n\
                                lr = 0.01\n\
                         dropout = 0.1\neval-every = 10\nsave-every = 7\nthreads = 1\n";

impl Workspace {
    /// Creates a folder with `small.toml` and `text.txt`.
    pub(crate) fn new() -> Self {
        let workspace = Self { folder: tempfile::tempdir().expect("a temporary folder") };
        workspace.put("small.toml", SMALL.as_bytes());
        let text: String = (0..400).map(|i| format!("{i} times {} is {}\n", i % 7, i * (i % 7))).collect();
        workspace.put("text.txt", text.as_bytes());
        workspace
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("a file");
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).expect("text")
    }

    /// Creates a command from a command line, split at blanks.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gradloom"));
        // Set the name as if the command were installed, because messages repeat it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::arg0(&mut command, "gradloom");
        command.args(line.split_whitespace()).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, line: &str) -> Finished {
        Finished::new(self.command(line).output().expect("the command starts"), self.folder.path())
    }

    /// Runs a command as [`run`](Self::run) does, and asserts that it succeeds.
    pub(crate) fn succeed(&self, line: &str) -> Finished {
        let finished = self.run(line);
        assert_eq!(finished.code, Some(0), "gradloom {line}\n{}{}", finished.stdout, finished.stderr);
        finished
    }

    /// Returns the number of complete rows in a run's `metrics.csv`, without its header.
    pub(crate) fn rows(&self, run: &str) -> usize {
        let text = fs::read_to_string(self.path(run).join("metrics.csv")).unwrap_or_default();
        text.matches('\n').count().saturating_sub(1)
    }
}

/// Exit code and output of a command.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    fn new(output: Output, folder: &Path) -> Self {
        let folder = folder.canonicalize().expect("the folder is there");
        let folder = folder.to_str().expect("a plain name");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).replace(folder, "DIR");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// Waits until `done` returns `true`, for at most a minute.
pub(crate) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "waited a minute for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
