//! Errors of the command and how they are printed.

use crate::output::tell;
use gradloom_models::data::{DataError, TokenizerError};
use gradloom_models::evaluate::ItemError;
use gradloom_models::generate::SamplingError;
use std::process::ExitCode;

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// A message, a remedy, and which exit code it means.
#[derive(Debug)]
pub(crate) struct Failure {
    usage: bool,
    message: String,
    help: Option<String>,
}

impl Failure {
    /// The command line, a configuration file or the data named there cannot be used: exit code 2.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { usage: true, message: message.into(), help: None }
    }

    /// Something failed on the way: exit code 1.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { usage: false, message: message.into(), help: None }
    }

    /// Adds the remedy.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Puts what was attempted before the message.
    pub(crate) fn context(mut self, context: &str) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }

    /// What went wrong, without the remedy.
    pub(crate) fn message(&self) -> &str {
        self.message.trim_end()
    }

    /// Prints the message and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        tell!("error: {}", self.message());
        if let Some(help) = &self.help {
            tell!("  help: {help}");
        }
        ExitCode::from(if self.usage { 2 } else { 1 })
    }
}

impl From<gradloom::Error> for Failure {
    /// The compiler's errors bring their source line and remedy along; the word that they open with is left
    /// to [`Failure::report`].
    fn from(error: gradloom::Error) -> Self {
        if error.kind() == gradloom::ErrorKind::File {
            let help = error.remedies().collect::<Vec<_>>().join("; ");
            return Self::failed(error.message()).help(help);
        }
        let rendered = error.to_string();
        Self::failed(rendered.strip_prefix("error: ").unwrap_or(&rendered))
    }
}

impl From<DataError> for Failure {
    fn from(error: DataError) -> Self {
        Self::usage(error.to_string()).help(error.remedy())
    }
}

impl From<TokenizerError> for Failure {
    fn from(error: TokenizerError) -> Self {
        Self::usage(error.to_string()).help(error.remedy())
    }
}

impl From<ItemError> for Failure {
    fn from(error: ItemError) -> Self {
        Self::usage(error.to_string()).help(error.remedy())
    }
}

impl From<SamplingError> for Failure {
    fn from(error: SamplingError) -> Self {
        let failure = match error {
            SamplingError::Temperature(value) => Self::usage(format!("--temperature {value}: {error}")),
            SamplingError::TopK => Self::usage(format!("--top-k 0: {error}")),
            SamplingError::TopP(value) => Self::usage(format!("--top-p {value}: {error}")),
            _ => Self::failed(error.to_string()),
        };
        failure.help(error.remedy())
    }
}
