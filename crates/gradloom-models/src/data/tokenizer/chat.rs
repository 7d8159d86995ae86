//! Chat templates: conversion of messages to the text format that a model was trained on.
//!
//! In: messages, and the Jinja template in a tokenizer's files. Out: a text with the special tokens spelled
//! out. Invariant: the text is that of `apply_chat_template` in transformers, with the same settings, filters
//! and functions; a template has access to nothing else, and terminates within a limited number of steps.

use super::{Bpe, Tokenizer, TokenizerError, environment};
use minijinja::value::{Serde, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// One turn of a chat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Role of the author, usually `system`, `user` or `assistant`.
    pub role: String,
    /// Text of the message.
    pub content: String,
}

impl Message {
    /// Creates a message.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into() }
    }
}

impl Bpe {
    /// Returns the text of the messages.
    ///
    /// With `add_generation_prompt`, the text ends where the answer begins. Encode it with
    /// [`SpecialTokens::Found`](super::SpecialTokens::Found), because the template has already inserted all
    /// special tokens.
    ///
    /// # Errors
    /// Returns an error if there is no template, if it is malformed, or if it rejects the messages.
    pub fn apply_chat_template(
        &self,
        messages: &[Message],
        add_generation_prompt: bool,
    ) -> Result<String, TokenizerError> {
        self.chat_text(messages, add_generation_prompt, SystemTime::now())
    }

    /// Returns the text of the messages as [`Bpe::apply_chat_template`] would at the time `now`, for
    /// templates that print the date. Dates are in UTC.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Bpe::apply_chat_template`].
    pub fn chat_text(
        &self,
        messages: &[Message],
        add_generation_prompt: bool,
        now: SystemTime,
    ) -> Result<String, TokenizerError> {
        let roles = self.roles();
        let none = || TokenizerError::NoTemplate { name: self.name().to_string() };
        let template = roles.chat_template.as_deref().ok_or_else(none)?;
        let mut variables = vec![
            ("messages", Value::from(Serde(messages))),
            ("add_generation_prompt", Value::from(add_generation_prompt)),
            // Define these variables as none, which templates test for.
            ("tools", Value::from(())),
            ("documents", Value::from(())),
        ];
        // Define only the tokens that the files name; the others remain undefined.
        let named = roles.named();
        variables.extend(named.iter().map(|(name, token)| (name.as_str(), Value::from(token.as_str()))));
        let variables = Value::from(variables.into_iter().collect::<BTreeMap<_, _>>());
        environment::rendered(template, variables, now).map_err(|(line, reason)| {
            let place = if line > 0 { format!("line {line}: ") } else { String::new() };
            TokenizerError::Template { name: self.name().to_string(), reason: place + &reason }
        })
    }
}
