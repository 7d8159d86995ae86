//! Configuration files of `--config`: TOML, or JSON as in a run's `config.json`.
//!
//! In: a file. Out: options, or an error with the line, the key and the expected value. Invariant: the
//! error quotes no other part of the file.

use super::options::Options;
use crate::failure::{Failure, Result};
use crate::output::printable;
use crate::place::read_text;
use std::path::Path;

/// Maximum size of a configuration file in bytes.
const LARGEST: u64 = 1 << 20;

/// Reads a file whose keys are the names of flags.
pub(crate) fn read(path: &Path) -> Result<Options> {
    let flag = format!("--config {}", path.display());
    let text = read_text(path, LARGEST, "give a TOML file, or a run's config.json")
        .map_err(|failure| failure.under("--config"))?;
    // A text that begins with a brace is JSON, because TOML never does.
    let is_json = path.extension().is_some_and(|end| end == "json") || text.trim_start().starts_with('{');
    parse(&text, is_json).map_err(|problem| problem.told(&flag))
}

/// Parses a text in either format.
pub(super) fn parse(text: &str, is_json: bool) -> std::result::Result<Options, Problem> {
    if is_json { json(text) } else { toml(text) }
}

/// An error in a text, with its location.
#[derive(Debug)]
pub(super) struct Problem {
    line: usize,
    /// Key whose value is wrong.
    key: String,
    message: String,
    /// True if the text is not valid JSON or TOML.
    is_malformed: bool,
}

fn json(text: &str) -> std::result::Result<Options, Problem> {
    let problem = |key: String, error: &serde_json::Error| {
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(&*message, |(message, _)| message);
        let line = error.line().max(1);
        Problem { line, key, message: message.to_string(), is_malformed: !error.is_data() }
    };
    #[expect(clippy::disallowed_methods, reason = "options of our own, whose errors have a place")]
    let mut from = serde_json::Deserializer::from_str(text);
    let options = serde_path_to_error::deserialize(&mut from).map_err(|error| {
        let is_data = error.inner().is_data();
        problem(if is_data { error.path().to_string() } else { String::new() }, error.inner())
    })?;
    from.end().map_err(|error| problem(String::new(), &error))?;
    Ok(options)
}

fn toml(text: &str) -> std::result::Result<Options, Problem> {
    let problem = |key: Option<String>, error: &toml::de::Error| {
        let start = error.span().map_or(0, |span| span.start);
        let line = text[..start].matches('\n').count() + 1;
        let is_malformed = key.is_none();
        // On a line that cannot be parsed, the key is the text before the equals sign, if any.
        let written = || text.lines().nth(line - 1).and_then(|line| line.split_once('='));
        let key = key.or_else(|| written().map(|(key, _)| key.trim().to_string())).unwrap_or_default();
        Problem { line, key, message: error.message().to_string(), is_malformed }
    };
    let from = toml::Deserializer::parse(text).map_err(|error| problem(None, &error))?;
    serde_path_to_error::deserialize(from)
        .map_err(|error| problem(Some(error.path().to_string()), error.inner()))
}

impl Problem {
    /// Returns the error as one of a flag's value.
    fn told(&self, flag: &str) -> Failure {
        let (place, key) = (format!("{flag}: line {}", self.line), short(&self.key));
        let like = "in TOML, each line is `key = value`, with the flags' names as keys: lr = 0.001";
        if self.is_malformed {
            let key = if key.is_empty() { key } else { format!("{key}: ") };
            return Failure::usage(format!("{place}: {key}{}", short(&self.message))).help(like);
        }
        // Move the list of known names, which serde appends to the message, to the help.
        if let Some((problem, known)) = self.message.split_once(", expected one of ") {
            let name = problem.split_once('`').map_or(problem, |(_, name)| name.trim_end_matches('`'));
            let known: Vec<&str> = known.split(", ").map(|name| name.trim_matches('`')).collect();
            let known: Vec<&str> = known.into_iter().filter(|name| *name != "run").collect();
            let near = nearest(name, &known).map_or_else(String::new, |near| format!("write {near}? "));
            let (name, list) = (short(name), known.join(", "));
            if !problem.starts_with("unknown field") {
                return Failure::usage(format!("{place}: {key} cannot be `{name}`"))
                    .help(format!("{near}it must be one of {list}"));
            }
            let of = if self.key.starts_with("run") { "of `run`" } else { "those of the flags" };
            return Failure::usage(format!("{place}: unknown key `{name}`"))
                .help(format!("{near}the keys are {of}: {list}"));
        }
        if let Some((problem, expected)) = self.message.split_once(", expected ") {
            let (_, found) = problem.split_once(": ").unwrap_or(("", problem));
            let (expected, found) = (in_words(expected), short(found));
            return Failure::usage(format!("{place}: {key} must be {expected}, not {found}"))
                .help("give the value that the flag of the same name would have");
        }
        Failure::usage(format!("{place}: {key}: {}", short(&self.message))).help(like)
    }

    /// Returns the error as a short message without the name of the text.
    pub(super) fn in_short(&self) -> String {
        format!("line {}: {}", self.line, short(&self.message))
    }
}

/// Shortens a text for a message to one line, long enough to recognize it.
fn short(text: &str) -> String {
    const MOST: usize = 60;
    let text = printable(text).replace(['\n', '\t'], " ");
    let mut short: String = text.chars().take(MOST).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    short
}

/// Returns the known name that is most similar to a misspelled one.
fn nearest<'n>(name: &str, known: &[&'n str]) -> Option<&'n str> {
    /// Minimum similarity, the same as clap uses for flags.
    const LIKE: f64 = 0.7;
    let name: String = name.chars().take(64).collect::<String>().to_lowercase().replace('_', "-");
    let rated = known.iter().map(|&known| (strsim::jaro(&name, known), known));
    rated.filter(|(like, _)| *like > LIKE).max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, known)| known)
}

/// Describes the expected value without the type names of Rust.
fn in_words(expected: &str) -> &str {
    match expected {
        "u64" | "usize" | "u32" => "a whole number from 0 up",
        "f64" => "a number",
        "a string" | "path string" => "text in quotes",
        "a boolean" => "true or false",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size::Size;

    fn reading(text: &str) -> Result<Options> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read(file.path())
    }

    #[test]
    fn flags_win_over_the_file() {
        let file = reading("layers = 2\nlr = 0.5\ndata = [\"a\", \"b\"]\nweight-decay = 0.0\n").unwrap();
        let flags = Options { lr: Some(0.1), ..Options::default() };
        let merged = flags.or(file);
        assert_eq!((merged.lr, merged.layers, merged.weight_decay), (Some(0.1), Some(2), Some(0.0)));
        assert_eq!(merged.data.unwrap(), ["a", "b"]);
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let failure = format!("{:?}", reading("lr = 1.0\nlearning = 2\n").unwrap_err());
        assert!(failure.contains("line 2: unknown key `learning`"), "{failure}");
        assert!(
            failure.contains("the keys are those of the flags: data, tokenizer, preset, layers"),
            "{failure}"
        );
    }

    #[test]
    fn a_wrong_value_is_named() {
        for (text, expected) in [
            ("steps = \"many\"", "line 1: steps must be a whole number from 0 up, not string \\\"many\\\""),
            ("\n\nbatch=-1", "line 3: batch must be a whole number from 0 up, not integer `-1`"),
            ("lr = true", "line 1: lr must be a number, not boolean `true`"),
            ("preset = 1", "line 1: preset must be text in quotes, not integer `1`"),
            ("data = 1", "line 1: data must be a path in quotes or a list of them, not integer `1`"),
            ("data = [1]", "line 1: data[0] must be text in quotes, not integer `1`"),
            (
                "memory-budget = \"lots\"",
                "line 1: memory-budget must be a number of bytes such as \\\"512M\\\"",
            ),
            ("memory-budget = -5", "line 1: memory-budget must be a number of bytes such as \\\"512M\\\""),
            ("out = 1", "line 1: out must be text in quotes, not integer `1`"),
            ("lr = ", "line 1: "),
            ("lr 5", "line 1: "),
        ] {
            let failure = format!("{:?}", reading(text).unwrap_err());
            assert!(failure.contains(expected), "{failure}");
        }
    }

    #[test]
    fn the_nearest_key_or_value_is_told() {
        for (text, expected) in [
            ("weight_decay = 2", "line 1: unknown key `weight_decay`, write weight-decay? "),
            ("\nbatch-size = 2", "line 2: unknown key `batch-size`, write batch? "),
            ("device = \"gpu\"", "line 1: device cannot be `gpu`, write wgpu? it must be one of cpu, wgpu"),
            (
                "xyz = 1",
                "line 1: unknown key `xyz`, the keys are those of the flags: data, tokenizer, preset",
            ),
            ("{\"lr\": 1,\n\"setps\": 2}", "line 2: unknown key `setps`, write steps? "),
            ("{\"data\": [\n\"a\",\n4]}", "line 3: data[1] must be text in quotes, not integer `4`"),
            ("data = [\n\"a\",\n4]", "line 3: data[1] must be text in quotes, not integer `4`"),
            ("{\"run\": {\"tokens\": 1}}", "line 1: unknown key `tokens`, write tokenizer? the keys are of"),
            ("lr = nope", "line 1: lr: "),
            ("lr = 1\nlr = 2", "line 2: lr: duplicate key"),
            ("{\"lr\" 1}", "line 1: expected `:`"),
        ] {
            let failure = reading(text).unwrap_err();
            let told = format!("{failure:?}").replace("\", help: Some(\"", ", ");
            assert!(told.contains(expected), "{told}");
        }
    }

    #[test]
    fn an_error_does_not_repeat_the_file() {
        let long = "x".repeat(100_000);
        for text in [
            format!("{long} = 1"),
            format!("seed = \"{long}\""),
            format!("preset = \"a\u{1b}\n{long}"),
            format!("{{\"{long}\": 1}}"),
            format!("{{\"device\": \"{long}\"}}"),
            format!("{{\"device\": {long}}}"),
            long,
        ] {
            let told = format!("{:?}", reading(&text).unwrap_err());
            assert!(told.len() < 700 && !told.contains('\u{1b}'), "{told}");
        }
    }

    #[test]
    fn bytes_are_a_number_or_a_text() {
        assert_eq!(reading("memory-budget = 4096").unwrap().memory_budget, Some(Size(4096)));
        assert_eq!(reading("memory-budget = \"1.5M\"").unwrap().memory_budget, Some(Size(1_500_000)));
    }

    #[test]
    fn one_path_needs_no_list() {
        assert_eq!(reading("data = \"a.txt\"").unwrap().data.unwrap(), ["a.txt"]);
        assert_eq!(reading("data = []").unwrap().data.unwrap(), [""; 0]);
    }
}
