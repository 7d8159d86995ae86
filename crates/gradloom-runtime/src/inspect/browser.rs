//! Shows a page in the user's browser.
//!
//! In: a page. Out: a new file with the page, and a browser that shows it, or an error that names the file.

use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_device::regular_file::unwritable;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time to wait for a command to fail. Some commands run until the browser is closed.
const PATIENCE: Duration = Duration::from_secs(2);

/// Writes the page to a new file in the folder for temporary files, and returns the file's path.
pub(super) fn write(page: &[u8]) -> Result<PathBuf> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    let path = std::env::temp_dir().join(format!("gradloom-plan-{}-{now}.html", std::process::id()));
    let mut options = OpenOptions::new();
    // Fail if the path exists, because other users may have created a file or link in this folder.
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(&path).and_then(|mut file| file.write_all(page));
    written.map_err(|error| unwritable(&path.display().to_string(), &error))?;
    Ok(path)
}

/// Returns the system's command that opens a file, or `None` if there is no screen.
pub(super) fn command() -> Option<Command> {
    if cfg!(target_os = "macos") {
        return Some(Command::new("open"));
    }
    if cfg!(windows) {
        let mut command = Command::new("rundll32");
        command.arg("url.dll,FileProtocolHandler");
        return Some(command);
    }
    // Do not call `xdg-open` without a screen: it may start a browser that takes over the terminal.
    let has_screen = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    has_screen.then(|| Command::new("xdg-open"))
}

/// Opens the file with the command.
pub(super) fn show(command: Option<Command>, path: &Path) -> Result<()> {
    let unshown = |reason: &str| {
        let message = format!("{}: the page is written, but no browser shows it: {reason}", path.display());
        Error::new(ErrorKind::File, message).help("open the file in a browser, here or on another machine")
    };
    let mut command = command.ok_or_else(|| unshown("this process has no screen"))?;
    let quiet = command.arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = quiet.spawn().map_err(|error| unshown(&error.to_string()))?;
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(unshown(&format!("the system's command ended with {status}"))),
            Ok(None) => sleep(Duration::from_millis(10)),
            Err(error) => return Err(unshown(&error.to_string())),
        }
    }
    // Wait for the process, so that it does not remain as a zombie.
    spawn(move || child.wait());
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_no_browser_shows_is_named() {
        let path = write(b"page").unwrap();
        show(Some(Command::new("true")), &path).unwrap();
        for command in [None, Some(Command::new("false")), Some(Command::new("no-such-command"))] {
            let error = show(command, &path).unwrap_err();
            assert!(error.message().starts_with(&path.display().to_string()), "{error}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"page");
        std::fs::remove_file(path).unwrap();
    }
}
