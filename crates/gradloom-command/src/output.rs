//! The standard output. A reader that goes away (`gradloom train | head`) is no failure, and nothing that
//! goes wrong there ends a run.

use crate::failure::{Failure, Result};
use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// True if a program reads the standard output and expects only JSON.
static FOR_A_PROGRAM: AtomicBool = AtomicBool::new(false);

/// Makes [`say`] print nothing from now on.
pub(crate) fn leave_to_a_program() {
    FOR_A_PROGRAM.store(true, Ordering::Relaxed);
}

/// Returns whether lines for people are printed.
pub(crate) fn is_for_people() -> bool {
    !FOR_A_PROGRAM.load(Ordering::Relaxed)
}

/// Prints a line of a run's progress, which is worth less than the run: what cannot be printed is lost.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        if $crate::output::is_for_people() {
            let _ = writeln!(std::io::stdout(), "{}", $crate::output::escaped(&format!($($text)*)));
        }
    }};
}

/// Prints a line to the standard error, if it can be written: a message that is lost does not change how the
/// command ends.
macro_rules! tell {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "{}", $crate::output::escaped(&format!($($text)*)));
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
    written(writeln!(output, "{}", escaped(&text.to_string())).and_then(|()| output.flush()))
}

/// Returns the outcome of writing to the standard output: a reader that had enough is no failure.
pub(crate) fn written(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("the standard output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// Returns the command with which the user called this program, for command lines to copy:
/// `target/release/gradloom` after `cargo run`.
pub(crate) fn program() -> String {
    // Names need not be Unicode; only the one that is must be copied right.
    let name = std::env::args_os().next();
    name.map_or_else(|| "gradloom".to_string(), |name| quoted(&name.to_string_lossy()))
}

/// Returns a path for a command line: quoted for a shell if needed, and such that it is not taken for a
/// flag.
pub(crate) fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:=@%~".contains(c);
    let path = if path.starts_with(['-', '~']) { format!("./{path}") } else { path.to_string() };
    if path.chars().all(plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

/// Returns whether a character steers a terminal, or the order in which it shows others.
fn steers(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns a message or JSON in which characters that steer a terminal are spelt, but for line feeds and
/// tabs: names and texts of files that are not the user's own come up in any of them. The spelling is JSON's,
/// which stands for the same there.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    spelt(text, &|c| steers(c) && !matches!(c, '\n' | '\t'))
}

/// Returns a name in a line of its own: as [`escaped`], and with line feeds and tabs spelt too.
pub(crate) fn in_a_line(name: &str) -> Cow<'_, str> {
    spelt(name, &steers)
}

fn spelt<'t>(text: &'t str, is_spelt: &dyn Fn(char) -> bool) -> Cow<'t, str> {
    if !text.contains(is_spelt) {
        return Cow::Borrowed(text);
    }
    let mut spelt = String::new();
    for c in text.chars() {
        match is_spelt(c) {
            true => spelt.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => spelt.push(c),
        }
    }
    Cow::Owned(spelt)
}

/// Returns text for a terminal: control characters, which an untrained model may write and a terminal may
/// obey, become U+FFFD.
pub(crate) fn printable(text: &str) -> String {
    let harmless = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    text.chars().map(|c| if harmless(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

#[cfg(test)]
mod tests {
    use super::{escaped, in_a_line, printable, quoted};

    #[test]
    fn paths_are_quoted_where_a_shell_would_split_them() {
        assert_eq!(quoted("runs/tiny-1"), "runs/tiny-1");
        assert_eq!(quoted("-run"), "./-run");
        assert_eq!(quoted("my runs/it's"), r"'my runs/it'\''s'");
    }

    #[test]
    fn messages_give_a_terminal_no_orders() {
        assert_eq!(escaped("a\tß\n\x1b[2J\u{9b}\u{202e}\r"), "a\tß\n\\u001b[2J\\u009b\\u202e\\u000d");
        assert_eq!(in_a_line("a\nb\tc"), "a\\u000ab\\u0009c");
        let json = serde_json::json!({"name": "a\u{9b}\u{7f}\n\u{2028}"});
        let again: serde_json::Value = serde_json::from_str(&escaped(&format!("{json:#}"))).unwrap();
        assert_eq!(again, json);
    }

    #[test]
    fn a_terminal_gets_no_orders() {
        assert_eq!(printable("a\tß\n\x1b[2J\u{9b}\r"), "a\tß\n\u{fffd}[2J\u{fffd}\u{fffd}");
    }
}
