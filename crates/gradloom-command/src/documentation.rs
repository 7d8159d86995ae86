//! Tests that the command parses the command lines in the documentation.

use crate::Cli;
use clap::Parser;
use std::path::{Path, PathBuf};

/// Prefixes of command lines, before the command's arguments.
const CALLS: [&str; 2] = ["gradloom ", "cargo run --release -p gradloom-cli -- "];

/// Returns the paths of the Markdown files that show the command.
fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = std::fs::read_dir(root.join("docs/guide/src")).expect("the guide");
    let pages = guide.map(|entry| entry.expect("an entry").path());
    let others = ["README.md", "ARCHITECTURE.md", "docs/benchmarks.md"].map(|name| root.join(name));
    pages.filter(|path| path.extension().is_some_and(|extension| extension == "md")).chain(others).collect()
}

#[test]
fn command_lines_parse() {
    let mut parsed = 0;
    for file in files() {
        let text = std::fs::read_to_string(&file).expect("text");
        let mut of_commands = false;
        for line in text.lines() {
            if let Some(language) = line.strip_prefix("```") {
                of_commands = matches!(language, "sh" | "text");
            }
            let Some(words) = CALLS.iter().find_map(|call| line.strip_prefix(call)) else { continue };
            // Skip synopses, which are recognized by their brackets.
            if !of_commands || words.contains('[') {
                continue;
            }
            // A comment or a pipe ends the command. Of alternatives, only the first is parsed; `N` is
            // replaced by a number.
            let words = words.split(" #").next().unwrap_or_default();
            let words = words.split(" | ").next().unwrap_or_default().split_whitespace();
            let words = words.map(|word| word.split('|').next().unwrap_or(word));
            let words = words.map(|word| if word == "N" { "1" } else { word });
            if let Err(error) = Cli::try_parse_from(std::iter::once("gradloom").chain(words)) {
                panic!("{}: `{line}`\n{error}", file.display());
            }
            parsed += 1;
        }
    }
    assert!(parsed >= 20, "{parsed} lines");
}
