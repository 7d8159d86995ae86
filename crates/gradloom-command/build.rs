//! Notes the commit that is built, for `gradloom bench --json`. Without git or a repository the program says
//! that it does not know.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=GRADLOOM_COMMIT");
    if std::env::var_os("GRADLOOM_COMMIT").is_some() {
        return;
    }
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return };
    println!("cargo::rustc-env=GRADLOOM_COMMIT={commit}");
    // HEAD changes with a checkout, the branch's file or the log with a commit.
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// The output of a git command, if the command works.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_string())
}
