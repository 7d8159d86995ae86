//! Running the tests on each change.
//!
//! In: the instrumented copy. Out: the changes under which all tests pass. The tests that have caught most
//! for their time so far come first. A run that takes much more of the processor or of memory than without a
//! change counts as one that fails; what else the machine does meanwhile has no influence on that.

use super::instrument::SWITCH;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Packages with tests of the compiler, and which of their tests.
const TESTS: [(&str, &[&str]); 7] = [
    ("gradloom-core", &["--lib", "--tests"]),
    ("gradloom-codegen", &["--lib", "--tests"]),
    ("gradloom-runtime", &["--tests"]),
    ("gradloom", &["--tests"]),
    ("gradloom-models", &["--test", "faults"]),
    ("gradloom-cli", &["--test", "inspect", "--test", "launches", "--test", "plan_views"]),
    ("xtask", &[]),
];
/// Kilobytes of addresses that a test may have.
const MEMORY: u64 = 16_000_000;

struct Binary {
    path: PathBuf,
    folder: PathBuf,
    /// Time of the test without a change.
    seconds: f64,
    /// Changes that it has caught.
    caught: usize,
}

/// Whether a change is caught: by which test binary.
pub(super) enum Verdict {
    CaughtBy(String),
    Survives,
}

/// The verdicts on those changes whose numbers, from 1, are wanted; each is reported when it is known.
///
/// # Errors
/// When the tests cannot be built, or fail without a change.
pub(super) fn run(
    scratch: &Path,
    numbers: &[usize],
    mut report: impl FnMut(usize, &Verdict),
) -> Result<(), String> {
    let mut binaries = Vec::new();
    for (package, arguments) in TESTS {
        for path in executables(scratch, package, arguments)? {
            let folder = scratch.join("tree").join(if package == "xtask" {
                "xtask".into()
            } else {
                format!("crates/{package}")
            });
            let mut binary = Binary { path, folder, seconds: 60.0, caught: 0 };
            let start = Instant::now();
            if !passes(&binary, 0)? {
                return Err(format!("{} fails without any change", binary.path.display()));
            }
            binary.seconds = start.elapsed().as_secs_f64();
            binaries.push(binary);
        }
    }
    for &number in numbers {
        let worth = |binary: &Binary| (binary.caught as f64 + 0.1) / (binary.seconds + 0.05);
        binaries.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
        let mut verdict = Verdict::Survives;
        for binary in &mut binaries {
            if !passes(binary, number)? {
                binary.caught += 1;
                let name = binary.path.file_name().unwrap_or_default().to_string_lossy();
                verdict =
                    Verdict::CaughtBy(name.rsplit_once('-').map_or(&*name, |parts| parts.0).to_string());
                break;
            }
        }
        report(number, &verdict);
    }
    Ok(())
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
    let processor = (8.0 * binary.seconds + 10.0) as u64;
    let mut child = Command::new("sh")
        .args(["-c", &format!("ulimit -v {MEMORY} -t {processor}; exec \"$0\" -q")])
        .arg(&binary.path)
        .current_dir(&binary.folder)
        .env(SWITCH, number.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("{}: {error}", binary.path.display()))?;
    // For one that waits forever, and takes nothing of the processor.
    let patience = Duration::from_secs(10 * processor);
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Ok(status.success());
        }
        if start.elapsed() > patience {
            // It may have ended just now.
            let _ = child.kill();
            let _ = child.wait();
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
