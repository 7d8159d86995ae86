//! Running the tests on each change.
//!
//! In: the instrumented copy. Out: the changes under which all tests pass. The quickest tests come first; a run that takes much longer
//! than without a change, or more memory, counts as one that fails.

use super::instrument::SWITCH;
use super::source::Mutation;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Packages with tests of the compiler, and which of their tests.
const TESTS: [(&str, &[&str]); 5] = [
    ("gradloom-core", &["--lib", "--tests"]),
    ("gradloom-codegen", &["--lib", "--tests"]),
    ("gradloom-runtime", &["--tests"]),
    (
        "gradloom",
        &[
            "--test",
            "toy_golden",
            "--test",
            "training",
            "--test",
            "states",
            "--test",
            "recompute",
            "--test",
            "memory",
        ],
    ),
    ("xtask", &[]),
];
/// Kilobytes of addresses that a test may have.
const MEMORY: u64 = 16_000_000;

struct Binary {
    path: PathBuf,
    folder: PathBuf,
    limit: Duration,
}

/// The numbers of the changes that no test catches, from 0.
///
/// # Errors
/// When the tests cannot be built, or fail without a change.
pub(super) fn run(scratch: &Path, mutants: &[Mutation]) -> Result<Vec<usize>, String> {
    let mut binaries = Vec::new();
    for (package, arguments) in TESTS {
        for path in executables(scratch, package, arguments)? {
            let folder = scratch.join("tree").join(if package == "xtask" {
                "xtask".into()
            } else {
                format!("crates/{package}")
            });
            let mut binary = Binary { path, folder, limit: Duration::from_secs(600) };
            let start = Instant::now();
            if !passes(&binary, 0)? {
                return Err(format!("{} fails without any change", binary.path.display()));
            }
            // The machine may be busier later.
            binary.limit = start.elapsed() * 8 + Duration::from_secs(10);
            binaries.push(binary);
        }
    }
    binaries.sort_by_key(|binary| binary.limit);
    let mut survivors = Vec::new();
    for (at, mutant) in mutants.iter().enumerate() {
        let mut catcher = None;
        for binary in &binaries {
            if !passes(binary, at + 1)? {
                catcher = binary.path.file_name().map(|name| name.to_string_lossy().into_owned());
                break;
            }
        }
        match &catcher {
            Some(name) => println!("{:>4} caught by {name}", at + 1),
            None => {
                println!("{:>4} NOT CAUGHT {mutant}", at + 1);
                survivors.push(at);
            }
        }
    }
    Ok(survivors)
}

/// Builds a package's tests; cargo names them as `Executable tests/plan/main.rs (path)`.
fn executables(scratch: &Path, package: &str, arguments: &[&str]) -> Result<Vec<PathBuf>, String> {
    let output = Command::new("cargo")
        .args(["test", "--no-run", "--package", package])
        .args(arguments)
        .current_dir(scratch.join("tree"))
        .env("CARGO_TARGET_DIR", scratch.join("build"))
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("the tests of {package} do not compile:\n{text}"));
    }
    let paths = text.lines().filter(|line| line.trim_start().starts_with("Executable"));
    let paths = paths.filter_map(|line| Some(line.rsplit_once('(')?.1.strip_suffix(')')?.into()));
    Ok(paths.collect())
}

/// Whether a test binary passes with a change, in time and memory.
fn passes(binary: &Binary, number: usize) -> Result<bool, String> {
    let mut child = Command::new("sh")
        .args(["-c", &format!("ulimit -v {MEMORY}; exec \"$0\" -q")])
        .arg(&binary.path)
        .current_dir(&binary.folder)
        .env(SWITCH, number.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("{}: {error}", binary.path.display()))?;
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Ok(status.success());
        }
        if start.elapsed() > binary.limit {
            // It may have ended just now.
            let _ = child.kill();
            let _ = child.wait();
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
