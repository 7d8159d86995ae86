//! The standard output. A reader that goes away (`gradloom train | head`) does not end a run.

/// Prints a line; unlike `println!` it does not panic when nobody reads.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}

pub(crate) use say;

/// How the user called this program, for command lines to copy: `target/release/gradloom` after `cargo run`.
pub(crate) fn program() -> String {
    std::env::args().next().map_or_else(|| "gradloom".to_string(), |name| quoted(&name))
}

/// Quoted for a shell if need be.
pub(crate) fn quoted(text: &str) -> String {
    if text.starts_with('-') {
        return quoted(&format!("./{text}"));
    }
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:=@%~".contains(c);
    if text.chars().all(plain) { text.to_string() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Text for a terminal: control characters, which an untrained model may write and a terminal may obey, become U+FFFD.
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
        assert_eq!(quoted("my runs/it's"), r"'my runs/it'\''s'");
    }

    #[test]
    fn a_terminal_gets_no_orders() {
        assert_eq!(printable("a\tß\n\x1b[2J\u{9b}\r"), "a\tß\n\u{fffd}[2J\u{fffd}\u{fffd}");
    }
}
