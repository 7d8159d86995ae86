//! The standard output. A reader that goes away (`gradloom train | head`) does not end a run.

/// Prints a line; unlike `println!` it does not panic when nobody reads.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}

pub(crate) use say;
