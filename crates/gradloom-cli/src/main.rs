//! The `gradloom` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    gradloom_cli::main()
}
