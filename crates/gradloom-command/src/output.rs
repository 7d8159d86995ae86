//! The standard output. A reader that closes it (`gradloom train | head`) is not an error, and no error in
//! writing to it ends a run.

use crate::failure::{Failure, Result};
use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// True if a program reads the standard output and expects only JSON.
static FOR_A_PROGRAM: AtomicBool = AtomicBool::new(false);

/// Suppresses the output of [`say`] from now on.
pub(crate) fn leave_to_a_program() {
    FOR_A_PROGRAM.store(true, Ordering::Relaxed);
}

/// Returns `true` if human-readable lines are printed.
pub(crate) fn is_for_people() -> bool {
    !FOR_A_PROGRAM.load(Ordering::Relaxed)
}

/// Prints a line about a run's progress. Errors are ignored, since the run matters more.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        if $crate::output::is_for_people() {
            let _ = writeln!(std::io::stdout(), "{}", $crate::output::escaped(&format!($($text)*)));
        }
    }};
}

/// Prints a line to the standard error. Errors are ignored, so that they do not change the exit code.
macro_rules! tell {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "{}", $crate::output::escaped(&format!($($text)*)));
    }};
}

/// Prints a line that the user requested, or fails.
macro_rules! print_line {
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}

pub(crate) use {print_line, say, tell};

/// Implements [`print_line`].
pub(crate) fn line(text: std::fmt::Arguments<'_>) -> Result<()> {
    let mut output = io::stdout().lock();
    written(writeln!(output, "{}", escaped(&text.to_string())).and_then(|()| output.flush()))
}

/// Returns the outcome of writing to the standard output; a closed pipe is not an error.
pub(crate) fn written(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("the standard output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// Returns the command by which the user called this program, for use in command lines:
/// `target/release/gradloom` after `cargo run`.
pub(crate) fn program() -> String {
    // Approximate a name that is not Unicode.
    let name = std::env::args_os().next();
    name.map_or_else(|| "gradloom".to_string(), |name| quoted(&name.to_string_lossy()))
}

/// Returns a path as an argument of a command line: quoted for a shell if needed, and with `./` in front if
/// it would be taken for a flag.
pub(crate) fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:=@%~".contains(c);
    let path = if path.starts_with(['-', '~']) { format!("./{path}") } else { path.to_string() };
    if path.chars().all(plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

/// Returns `true` if a character controls a terminal, or changes the order in which it shows text.
fn steers(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Escapes characters that control a terminal in a message or JSON, except for line feeds and tabs, since
/// names and texts may be from untrusted files. The escapes are those of JSON, so the meaning of JSON stays
/// the same.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    spelt(text, &|c| steers(c) && !matches!(c, '\n' | '\t'))
}

/// Escapes a name to be printed on one line: like [`escaped`], but including line feeds and tabs.
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

/// Returns text for a terminal, with control characters replaced by U+FFFD: an untrained model may generate
/// them, and a terminal may obey them.
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
