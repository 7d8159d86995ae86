//! Passes the commit that is built to the crate as `GRADLOOM_COMMIT`, for `gradloom bench --json`. Without
//! git or a repository, the commit is unknown.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=GRADLOOM_COMMIT");
    if std::env::var_os("GRADLOOM_COMMIT").is_some() {
        return;
    }
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return };
    println!("cargo::rustc-env=GRADLOOM_COMMIT={commit}");
    // Run again after a checkout, which changes HEAD, and after a commit, which changes its log.
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// Returns the trimmed output of a git command, or `None` if it fails or prints nothing.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_string())
}
