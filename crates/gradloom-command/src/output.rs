//! The standard output. A reader that goes away (`gradloom train | head`) is no failure, and nothing that
//! goes wrong there ends a run.

use crate::failure::{Failure, Result};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the standard output is read by a program, which wants JSON alone.
static FOR_A_PROGRAM: AtomicBool = AtomicBool::new(false);

/// From now on [`say`] prints nothing.
pub(crate) fn leave_to_a_program() {
    FOR_A_PROGRAM.store(true, Ordering::Relaxed);
}

/// Whether lines for people are printed.
pub(crate) fn is_for_people() -> bool {
    !FOR_A_PROGRAM.load(Ordering::Relaxed)
}

/// Prints a line of a run's progress, which is worth less than the run: what cannot be printed is lost.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        if $crate::output::is_for_people() {
            let _ = writeln!(std::io::stdout(), $($text)*);
        }
    }};
}

/// Prints a line to the standard error, if it can be written: a message that is lost does not change how the
/// command ends.
macro_rules! tell {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

/// Prints a line that was asked for, or fails.
macro_rules! print_line {
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}

pub(crate) use {print_line, say, tell};

/// See [`print_line`].
pub(crate) fn line(text: std::fmt::Arguments<'_>) -> Result<()> {
    let mut output = io::stdout().lock();
    written(writeln!(output, "{text}").and_then(|()| output.flush()))
}

/// The outcome of writing to the standard output: a reader that had enough is no failure.
pub(crate) fn written(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("the standard output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// How the user called this program, for command lines to copy: `target/release/gradloom` after `cargo run`.
pub(crate) fn program() -> String {
    // Names need not be Unicode; only the one that is must be copied right.
    let name = std::env::args_os().next();
    name.map_or_else(|| "gradloom".to_string(), |name| quoted(&name.to_string_lossy()))
}

/// A path for a command line: quoted for a shell if need be, and no flag.
pub(crate) fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:=@%~".contains(c);
    let path = if path.starts_with(['-', '~']) { format!("./{path}") } else { path.to_string() };
    if path.chars().all(plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

/// Text for a terminal: control characters, which an untrained model may write and a terminal may obey,
/// become U+FFFD.
pub(crate) fn printable(text: &str) -> String {
    let harmless = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    text.chars().map(|c| if harmless(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

#[cfg(test)]
mod tests {
    use super::{printable, quoted};

    #[test]
    fn paths_are_quoted_where_a_shell_would_split_them() {
        assert_eq!(quoted("runs/tiny-1"), "runs/tiny-1");
        assert_eq!(quoted("-run"), "./-run");
        assert_eq!(quoted("my runs/it's"), r"'my runs/it'\''s'");
    }

    #[test]
    fn a_terminal_gets_no_orders() {
        assert_eq!(printable("a\tß\n\x1b[2J\u{9b}\r"), "a\tß\n\u{fffd}[2J\u{fffd}\u{fffd}");
    }
}
