//! The `gradloom` binary: the process, its memory and its limits. Everything else is in `gradloom-command`,
//! which waits for people and files and is therefore built without optimization, unlike the allocator here.

mod limits;

use std::process::ExitCode;

fn main() -> ExitCode {
    gradloom_command::started();
    limits::run(gradloom_command::run)
}
