//! Reporting of panics, which are bugs, in the form of errors.
//!
//! In: a command. Out: its exit code, 1 if it panicked. Invariant: the message of a panic, which may quote
//! a file or a text, is escaped; a panic on the command's own thread is reported once.

use crate::output::tell;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

/// Runs a command and reports its panic, if any.
pub(crate) fn told(command: impl FnOnce() -> ExitCode) -> ExitCode {
    caught(command).unwrap_or_else(|said| {
        tell!("error: a defect of gradloom: {said}");
        tell!("  help: report it with the command line and, if they may be seen, the files");
        ExitCode::FAILURE
    })
}

/// Runs a command; from now on, panics of other threads are reported immediately.
///
/// # Errors
/// Returns an error if the command panics: the location, the message, and the backtrace if `RUST_BACKTRACE`
/// requests one.
fn caught<T>(command: impl FnOnce() -> T) -> Result<T, String> {
    let own = std::thread::current().id();
    let last = Arc::new(Mutex::new(None));
    let noted = last.clone();
    set_hook(Box::new(move |panic| {
        let backtrace = Backtrace::capture();
        let said = match backtrace.status() {
            BacktraceStatus::Captured => format!("{panic}\n{backtrace}"),
            _ => panic.to_string(),
        };
        if std::thread::current().id() == own {
            *noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
        } else {
            tell!("{said}");
        }
    }));
    catch_unwind(AssertUnwindSafe(command)).map_err(|_| {
        let said = last.lock().unwrap_or_else(PoisonError::into_inner).take();
        said.unwrap_or_else(|| "a thread panicked, as told above".to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_place() {
        let before = std::panic::take_hook();
        let fine = caught(|| catch_unwind(|| panic!("caught within")).is_err());
        let said = caught(|| -> () { panic!("of {}", "é\x1b[31m") });
        set_hook(before);
        assert_eq!(fine, Ok(true));
        let said = said.unwrap_err();
        assert!(said.starts_with("panicked at ") && said.contains("panics.rs"), "{said}");
        assert!(crate::output::escaped(&said).contains("of é\\u001b[31m"), "{said}");
    }
}
