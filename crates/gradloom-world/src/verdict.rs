//! The reasons for which a world fails.
//!
//! In: a rank and its fault. Out: a message and a remedy, which travel over the wire as texts. Invariant: a
//! verdict has no part that depends on the rank that reads it, so all ranks report the same error.

use gradloom_core::error::{Error, ErrorKind};
use std::time::Duration;

/// Longest reason or remedy that a rank can give, in bytes; both fit into a message.
const MAX_REASON: usize = 2000;
const RESTART: &str = "start all ranks again from the last checkpoint";

/// One fault of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Message that names the rank.
    pub(crate) message: String,
    /// Remedy.
    pub(crate) help: String,
}

impl Verdict {
    pub(crate) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into() }
    }

    /// Makes the verdict on a rank whose connection closed without a goodbye.
    pub(crate) fn ended(name: &str) -> Self {
        Self::new(format!("{name} ended"), format!("read the output of that rank, then {RESTART}"))
    }

    /// Makes the verdict on a rank that left while another one waits for it.
    pub(crate) fn left(name: &str, collective: u64) -> Self {
        Self::new(
            format!("{name} ended while the others wait in collective {collective}"),
            "give all ranks the same number of steps; if that rank failed, its output has the reason",
        )
    }

    /// Makes the verdict on a rank without heartbeats.
    pub(crate) fn silent(name: &str, limit: Duration) -> Self {
        Self::new(
            format!("{name} has not answered for {} s", limit.as_secs_f64()),
            "check that its host runs and is reachable, then start all ranks again from the last checkpoint",
        )
    }

    /// Makes the verdict on a rank that sent no message of the protocol.
    pub(crate) fn garbled(name: &str) -> Self {
        Self::new(format!("{name} sent bytes that are no message"), "start the same program on all ranks")
    }

    /// Makes the verdict on a rank that gave up by itself, with the remedy for its reason. Long texts are
    /// cut.
    pub(crate) fn gave_up(name: &str, reason: &str, remedy: Option<&str>) -> Self {
        let [reason, remedy] = [reason, remedy.unwrap_or("read the output of that rank")]
            .map(|text| &text[..text.floor_char_boundary(MAX_REASON)]);
        Self::new(format!("{name} gave up: {reason}"), format!("{remedy}; then {RESTART}"))
    }

    pub(crate) fn error(&self) -> Error {
        Error::new(ErrorKind::World, self.message.as_str()).help(self.help.as_str())
    }
}
