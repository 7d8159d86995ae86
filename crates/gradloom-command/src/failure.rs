//! Errors of the command and how they are printed.
//!
//! Invariant: code shared by several commands names no option, since each command has its own; a command
//! adds its options by [`Failure::context`] and [`Failure::under`]. Messages do not mention library
//! functions, which a user of the command does not call.
//!
//! Exit codes: 2 if the command line must be changed (an option or its value is wrong, or a path to read does
//! not exist or is of the wrong kind), 1 if something failed although the command line is right, such as a
//! damaged file or a folder that cannot be written.

use crate::output::{quoted, tell};
use gradloom::runtime::regular_file::Refusal;
use gradloom_models::data::{DataError, TokenizerError};
use gradloom_models::decoding::SamplingError;
use gradloom_models::evaluate::ItemError;
use std::io;
use std::path::Path;
use std::process::ExitCode;

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// An error message with a remedy and an exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    usage: bool,
    /// True if another process of the world has failed.
    of_world: bool,
    message: String,
    help: Option<String>,
}

impl Failure {
    /// Creates a failure that requires a change of the command line, or of what it names: exit code 2.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { usage: true, of_world: false, message: message.into(), help: None }
    }

    /// Creates a failure of a valid command line: exit code 1.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { usage: false, of_world: false, message: message.into(), help: None }
    }

    /// Sets the remedy.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds a remedy.
    pub(crate) fn also_help(mut self, more: &str) -> Self {
        self.help = Some(self.help.map_or_else(|| more.to_string(), |help| format!("{help}; {more}")));
        self
    }

    /// Prefixes the message with `context` and a colon.
    pub(crate) fn context(mut self, context: &str) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }

    /// Changes the exit code to 2, for an error of the command line.
    pub(crate) fn into_usage(self) -> Self {
        Self { usage: true, ..self }
    }

    /// Prefixes the message with the option that it concerns: `--out DIR: ..`.
    pub(crate) fn under(mut self, option: &str) -> Self {
        self.message = format!("{option} {}", self.message);
        self
    }

    /// Creates the failure for a file that cannot be read.
    pub(crate) fn unreadable(path: &Path, error: &io::Error, help: &str) -> Self {
        let message = format!("{}: cannot be read: {error}", path.display());
        let failure = if is_usage(error) { Self::usage(message) } else { Self::failed(message) };
        match Refusal::of(error) {
            Some(refusal) => failure.help(refusal.remedy()),
            None => failure.help(help),
        }
    }

    /// Creates the failure for a file that cannot be written, and that the option `option` names.
    pub(crate) fn unwritable(option: &str, path: &Path, error: &io::Error) -> Self {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let help = match (Refusal::of(error), folder) {
            (Some(refusal), _) => refusal.remedy().to_string(),
            (None, Some(folder)) if error.kind() == io::ErrorKind::NotFound => {
                let folder = quoted(&folder.display().to_string());
                format!("make the folder {folder} first, or name a file in one that is there")
            }
            _ => "name a file in a folder that is there and that you may write to".to_string(),
        };
        Self::failed(format!("{option} {}: cannot be written: {error}", path.display())).help(help)
    }

    /// Marks the failure as one that all ranks have, so that the first one prints it.
    pub(crate) fn of_all_ranks(self) -> Self {
        Self { of_world: true, ..self }
    }

    /// Returns `true` if another process of the world has failed, and this one is only affected.
    pub(crate) fn is_of_world(&self) -> bool {
        self.of_world
    }

    /// Returns the message, without the remedy.
    pub(crate) fn message(&self) -> &str {
        self.message.trim_end()
    }

    /// Returns the error that the other processes of the world get.
    pub(crate) fn for_the_world(&self) -> gradloom::Error {
        let error = gradloom::Error::new(gradloom::ErrorKind::World, self.message());
        self.help.iter().fold(error, |error, help| error.help(help.as_str()))
    }

    /// Prints the message and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        tell!("error: {}", self.message());
        if let Some(help) = &self.help {
            tell!("  help: {help}");
        }
        self.exit_code()
    }

    /// Returns the exit code.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(if self.usage { 2 } else { 1 })
    }
}

/// Returns `true` if an error means that the path is wrong: it does not exist, or is not a suitable file.
fn is_usage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, IsADirectory, NotADirectory, NotFound};
    Refusal::of(error).is_some()
        || matches!(error.kind(), NotFound | NotADirectory | IsADirectory | InvalidData)
}

/// Returns `true` if a text has library functions or types in backticks, such as `.load(..)` or
/// `Device::cpu()`.
fn names_functions(text: &str) -> bool {
    let quoted = text.split('`').skip(1).step_by(2);
    let is_command = |code: &str| code.starts_with("gradloom ") || code.starts_with("--");
    let mut code = quoted.filter(|code| !is_command(code));
    code.any(|code| code.starts_with('.') || code.contains("::") || code.contains('('))
}

impl From<gradloom::Error> for Failure {
    /// Keeps the message, the notes, and the remedies that do not address programmers. An internal error
    /// keeps its source location, for the bug report.
    fn from(error: gradloom::Error) -> Self {
        if matches!(error.kind(), gradloom::ErrorKind::Internal | gradloom::ErrorKind::Verify) {
            let rendered = error.to_string();
            return Self::failed(rendered.strip_prefix("error: ").unwrap_or(&rendered));
        }
        let notes: Vec<&str> = error.notes().filter(|note| !names_functions(note)).collect();
        let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) };
        let remedies: Vec<&str> = error.remedies().filter(|remedy| !names_functions(remedy)).collect();
        let of_world = error.kind() == gradloom::ErrorKind::World;
        let failure = Self { of_world, ..Self::failed(format!("{}{notes}", error.message())) };
        if remedies.is_empty() { failure } else { failure.help(remedies.join("; ")) }
    }
}

/// Converts errors about files: the command line is right if a file cannot be read or is damaged. A line
/// `Error, Variant;` names the variant for a damaged file, if there is one.
macro_rules! of_files {
    ($($error:ident $(, $damaged:ident)?;)*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                let message = error.to_string();
                let failure = match &error {
                    $error::Unreadable { source, .. } if !is_usage(source) => Self::failed(message),
                    $($error::$damaged { .. } => Self::failed(message),)?
                    _ => Self::usage(message),
                };
                failure.help(error.remedy())
            }
        }
    )*};
}

of_files! {
    DataError, Shard;
    TokenizerError, Malformed;
    ItemError;
}

impl From<SamplingError> for Failure {
    /// Prefixes the message with the option of the wrong setting; an error in the model's output has no
    /// option.
    fn from(error: SamplingError) -> Self {
        let option = match &error {
            SamplingError::Temperature(value) => format!("--temperature {value}"),
            SamplingError::TopK => "--top-k 0".to_string(),
            SamplingError::TopP(value) => format!("--top-p {value}"),
            SamplingError::MinP(value) => format!("--min-p {value}"),
            SamplingError::Repetition(value) => format!("--repetition-penalty {value}"),
            SamplingError::Presence(value) => format!("--presence-penalty {value}"),
            SamplingError::Frequency(value) => format!("--frequency-penalty {value}"),
            SamplingError::Bias { token, value } => format!("--bias {token}:{value}"),
            SamplingError::BiasToken { token, .. } => format!("--bias {token}"),
            SamplingError::NotFinite { .. } | SamplingError::Excluded | SamplingError::Empty => {
                return Self::failed(error.to_string()).help(error.remedy());
            }
        };
        Self::usage(format!("{option}: {error}")).help(error.remedy())
    }
}

#[cfg(test)]
mod tests {
    use super::names_functions;

    #[test]
    fn functions_are_told_from_commands_and_files() {
        for text in [
            "give `.alpha(2)`",
            "use `Device::cpu()` or a file",
            "`Session::load_with` takes it",
            "a `load(..)`",
        ] {
            assert!(names_functions(text), "{text}");
        }
        for text in [
            "by `gradloom info (x)`",
            "there is no `model_type`",
            "write `config.json`",
            "(none)",
            "`--data`",
        ] {
            assert!(!names_functions(text), "{text}");
        }
    }
}
