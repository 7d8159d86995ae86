//! Sources of prompts.

use super::Arguments;
use crate::failure::{Failure, Result};
use crate::place::read_text;
use std::io::{self, Read};
use std::path::Path;

/// Maximum size of a prompt in bytes, far more than any model reads.
const LONGEST_PROMPT: u64 = 16 << 20;

/// Reads the prompt from its source.
fn one(arguments: &Arguments) -> Result<String> {
    match &arguments.prompt_file {
        Some(path) => of_file("--prompt-file", path),
        None if arguments.prompt == "-" => of_input("--prompt"),
        None => Ok(arguments.prompt.clone()),
    }
}

/// Reads all prompts: a single one, or one per line.
pub(super) fn all(arguments: &Arguments) -> Result<Vec<String>> {
    let Some(path) = &arguments.prompts else { return Ok(vec![one(arguments)?]) };
    let text = if path == Path::new("-") { of_input("--prompts")? } else { of_file("--prompts", path)? };
    let lines: Vec<String> = text.lines().filter(|line| !line.is_empty()).map(str::to_string).collect();
    if lines.is_empty() {
        return Err(Failure::usage(format!("--prompts {}: there is no line in it", path.display()))
            .help("give a prompt on each line"));
    }
    Ok(lines)
}

fn of_file(flag: &str, path: &Path) -> Result<String> {
    let text = read_text(path, LONGEST_PROMPT, "give a file of UTF-8 text");
    text.map(without_mark).map_err(|failure| failure.under(flag))
}

fn of_input(flag: &str) -> Result<String> {
    let mut text = String::new();
    let read = io::stdin().lock().take(LONGEST_PROMPT + 1).read_to_string(&mut text);
    let failure = |what: String| Failure::usage(format!("{flag} -: the standard input {what}"));
    read.map_err(|error| failure(format!("cannot be read: {error}")).help("give UTF-8 text"))?;
    if text.len() as u64 > LONGEST_PROMPT {
        return Err(failure(format!("has more than {} MiB", LONGEST_PROMPT >> 20)).help("give less at once"));
    }
    Ok(without_mark(text))
}

/// Removes the byte order mark that some editors put before the text.
fn without_mark(text: String) -> String {
    text.strip_prefix('\u{feff}').map(str::to_string).unwrap_or(text)
}
