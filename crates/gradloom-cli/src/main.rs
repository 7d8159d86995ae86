//! The `gradloom` command: the process, its memory and its limits. What it does is in `gradloom-command`,
//! which waits for people and files and so is built without optimisation; the allocator here is not.

mod limits;

use std::process::ExitCode;

fn main() -> ExitCode {
    gradloom_command::started();
    limits::run(gradloom_command::run)
}
