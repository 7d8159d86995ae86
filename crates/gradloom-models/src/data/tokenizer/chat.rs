//! Chat templates: messages to the text that a model was trained on.
//!
//! In: messages, and the template of a tokenizer's files, in Jinja. Out: a text with the special tokens spelt
//! out. Always holds: the text is that of `apply_chat_template` of transformers, whose settings, filters and
//! functions these are; a template cannot reach anything else, and ends within a bound of steps.

use super::{Bpe, Tokenizer, TokenizerError, environment};
use minijinja::value::{Serde, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// One turn of a chat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Mostly `system`, `user` or `assistant`.
    pub role: String,
    /// The text.
    pub content: String,
}

impl Message {
    /// Makes a message.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into() }
    }
}

impl Bpe {
    /// Returns the text of messages. With `add_generation_prompt` it ends where the answer begins. Encode
    /// it with [`SpecialTokens::Found`](super::SpecialTokens::Found): the template has put all tokens
    /// there.
    ///
    /// # Errors
    /// When there is no template, it is malformed, or it refuses the messages.
    pub fn apply_chat_template(
        &self,
        messages: &[Message],
        add_generation_prompt: bool,
    ) -> Result<String, TokenizerError> {
        self.chat_text(messages, add_generation_prompt, SystemTime::now())
    }

    /// Like [`Bpe::apply_chat_template`], at another time, for templates that tell the date: that of UTC.
    ///
    /// # Errors
    /// As there.
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
            // Templates ask whether there are any.
            ("tools", Value::from(())),
            ("documents", Value::from(())),
        ];
        // A token that the files do not name is not defined.
        let named = roles.named();
        variables.extend(named.iter().map(|(name, token)| (name.as_str(), Value::from(token.as_str()))));
        let variables = Value::from(variables.into_iter().collect::<BTreeMap<_, _>>());
        environment::rendered(template, variables, now).map_err(|(line, reason)| {
            let place = if line > 0 { format!("line {line}: ") } else { String::new() };
            TokenizerError::Template { name: self.name().to_string(), reason: place + &reason }
        })
    }
}
