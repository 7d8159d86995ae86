//! Files of multiple-choice questions, with one JSON object per line.

use gradloom_runtime::python_json;
use gradloom_runtime::regular_file::{self, Refusal};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::path::{Path, PathBuf};

/// A question in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Line number of the question, from 1.
    pub line: usize,
    /// Text that precedes every choice. May be empty.
    pub context: String,
    /// Candidate continuations: at least two, none of them empty.
    pub choices: Vec<String>,
    /// Index of the right choice.
    pub answer: usize,
}

/// A line of a file. `ctx`, `endings` and `label` are HellaSwag's names.
#[derive(Deserialize)]
struct Line {
    #[serde(alias = "question", alias = "ctx")]
    context: String,
    #[serde(alias = "endings")]
    choices: Vec<String>,
    #[serde(alias = "label", deserialize_with = "place")]
    answer: usize,
}

/// Parses an index, which is a string in the copies of HellaSwag on the Hugging Face Hub.
fn place<'d, D: Deserializer<'d>>(from: D) -> Result<usize, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "the answer is no place, counted from 0")]
    enum Place {
        Number(usize),
        Text(String),
    }
    match Place::deserialize(from)? {
        Place::Number(number) => Ok(number),
        Place::Text(text) => text.parse().map_err(|_| {
            D::Error::custom(format_args!("the answer is \"{text}\", and not a place, counted from 0"))
        }),
    }
}

/// An error in a file of questions.
#[derive(Debug, thiserror::Error)]
pub enum ItemError {
    /// The file cannot be read or is not UTF-8.
    #[error("{}: cannot be read: {source}", .path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error reported by the operating system.
        source: std::io::Error,
    },
    /// The file contains no question.
    #[error("{}: there is no question in it", .path.display())]
    Empty {
        /// Path of the file.
        path: PathBuf,
    },
    /// A line is invalid.
    #[error("{}: line {line}: {problem}", .path.display())]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// Problem with the line.
        problem: LineProblem,
    },
}

/// An error in a line of a file of questions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineProblem {
    /// The line is not a JSON object with the required keys.
    #[error("{reason}")]
    Malformed {
        /// Description of the problem, with its column.
        reason: String,
    },
    /// The question has fewer than two choices.
    #[error("it has {choices}, so there is nothing to choose")]
    TooFew {
        /// Number of choices, in words.
        choices: &'static str,
    },
    /// A choice is empty.
    #[error("the choice {choice} is empty")]
    EmptyChoice {
        /// Index of the choice.
        choice: usize,
    },
    /// The answer is not the index of a choice.
    #[error("the answer is {answer}, and the choices are 0 to {last}")]
    Answer {
        /// Given answer.
        answer: usize,
        /// Index of the last choice.
        last: usize,
    },
    /// The tokenizer cannot encode the text.
    #[error("{reason}")]
    Tokens {
        /// Error message of the tokenizer.
        reason: String,
    },
    /// The context is empty, and the tokenizer has no token for the beginning of a text.
    #[error("the context is empty, and no token of the tokenizer begins a text")]
    NoContext,
    /// The text has more tokens than the model can read.
    #[error("the choice {choice} makes a text of {tokens} tokens, and the model reads {context}")]
    TooLong {
        /// Index of the choice.
        choice: usize,
        /// Number of tokens of the context and the choice.
        tokens: usize,
        /// Context length of the model.
        context: usize,
    },
}

impl ItemError {
    /// Returns a suggestion for fixing the error.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Unreadable { source, .. } => {
                Refusal::of(source).map_or("check the name; the file is UTF-8 text", Refusal::remedy)
            }
            Self::Empty { .. } => LIKE,
            Self::Line { problem, .. } => match problem {
                LineProblem::Malformed { .. } => LIKE,
                LineProblem::TooFew { .. } => "give at least two choices",
                LineProblem::EmptyChoice { .. } => "give each choice a text",
                LineProblem::Answer { .. } => "give the place of the right choice, counted from 0",
                LineProblem::Tokens { .. } => "take another text, or leave the line out",
                LineProblem::NoContext => "give a text for the choices to follow",
                LineProblem::TooLong { .. } => "shorten the context, or leave the line out",
            },
        }
    }
}

const LIKE: &str =
    "each line is an object such as {\"context\": \"2 + 2 =\", \"choices\": [\"4\", \"5\"], \"answer\": 0}";

/// Maximum size of a file of questions in bytes.
const LARGEST: u64 = 1 << 30;

/// Reads a file of questions, with one JSON object per line.
///
/// The keys of an object are `context` (or `question`, or HellaSwag's `ctx`), `choices` (or `endings`) and
/// `answer` (or `label`), which is the index of the right choice, counted from 0, as a number or a string.
/// Other keys and empty lines are ignored.
///
/// # Errors
/// Returns an error if the file cannot be read or contains no question, or for the first invalid line.
pub fn items(path: &Path) -> Result<Vec<Item>, ItemError> {
    let text = regular_file::read_to_string(path, LARGEST)
        .map_err(|source| ItemError::Unreadable { path: path.to_path_buf(), source })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let lines = text.lines().zip(1..).filter(|(text, _)| !text.trim().is_empty());
    let items = lines.map(|(text, line)| {
        item(text, line).map_err(|problem| ItemError::Line { path: path.to_path_buf(), line, problem })
    });
    let items = items.collect::<Result<Vec<_>, _>>()?;
    if items.is_empty() { Err(ItemError::Empty { path: path.to_path_buf() }) } else { Ok(items) }
}

#[expect(clippy::disallowed_methods, reason = "the first try tells the column of what is missing")]
fn item(text: &str, line: usize) -> Result<Item, LineProblem> {
    let read = serde_json::from_str(text).or_else(|error| match python_json::parse(text.as_bytes()) {
        Ok(value) if !error.is_data() => Line::deserialize(value),
        _ => Err(error),
    });
    let Line { context, choices, answer } = read.map_err(|error| {
        // Keep only the column: the parser's line number is relative to this line.
        LineProblem::Malformed { reason: error.to_string().replace("at line 1 column", "at column") }
    })?;
    if choices.len() < 2 {
        let choices = if choices.is_empty() { "no choice" } else { "a single choice" };
        return Err(LineProblem::TooFew { choices });
    }
    if let Some(choice) = choices.iter().position(|choice| choice.trim().is_empty()) {
        return Err(LineProblem::EmptyChoice { choice });
    }
    if answer >= choices.len() {
        return Err(LineProblem::Answer { answer, last: choices.len() - 1 });
    }
    Ok(Item { line, context, choices, answer })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_under_all_names() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "\u{feff}\
                    {\"question\": \"a\", \"choices\": [\"b\", \"c\"], \"answer\": 1, \"id\": 7}\r\n\n\
                    {\"ctx\": \"\", \"endings\": [\"d\", \"e\"], \"label\": \"0\"}\n";
        std::fs::write(file.path(), text).unwrap();
        let item = |line, context: &str, choices: [&str; 2], answer| {
            let (context, choices) = (context.to_string(), choices.map(str::to_string).to_vec());
            Item { line, context, choices, answer }
        };
        assert_eq!(items(file.path()).unwrap(), [item(1, "a", ["b", "c"], 1), item(3, "", ["d", "e"], 0)]);
    }

    #[test]
    fn the_line_that_is_wrong_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let good = r#"{"context": "a", "choices": ["b", "c"], "answer": 0}"#;
        for (line, expected) in [
            ("{", "line 2: EOF while parsing an object at column 1"),
            (r#"{"context": "a", "answer": 0}"#, "line 2: missing field `choices` at column 29"),
            (r#"{"context": "a", "choices": ["b", "c"], "answer": -1}"#, "line 2: the answer is no place"),
            (r#"{"context": "a", "choices": ["b", "c"], "answer": "B"}"#, "line 2: the answer is \"B\""),
            (r#"{"context": "a", "choices": [], "answer": 0}"#, "line 2: it has no choice"),
            (r#"{"context": "a", "choices": ["b"], "answer": 0}"#, "line 2: it has a single choice"),
            (r#"{"context": "a", "choices": ["b", " "], "answer": 0}"#, "line 2: the choice 1 is empty"),
            (
                r#"{"context": "a", "choices": ["b", "c"], "answer": 2}"#,
                "line 2: the answer is 2, and the choices are 0 to 1",
            ),
        ] {
            std::fs::write(file.path(), format!("{good}\n{line}\n")).unwrap();
            let error = items(file.path()).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(expected), "{text}");
            assert!(text.starts_with(&file.path().display().to_string()) && !error.remedy().is_empty());
        }
        std::fs::write(file.path(), "\n \n").unwrap();
        assert!(matches!(items(file.path()), Err(ItemError::Empty { .. })));
        let nowhere = items(&file.path().join("none"));
        assert!(matches!(nowhere, Err(ItemError::Unreadable { .. })));
    }
}
