//! Chat templates: messages to the text that a model was trained on.
//!
//! In: messages, and the template of a tokenizer's files, in Jinja. Out: a text with the special tokens spelt
//! out. Always holds: the text is that of `apply_chat_template` of transformers, whose settings, filters and
//! functions these are; a template cannot reach anything else, and ends within a bound of steps.

use super::{Bpe, Tokenizer, TokenizerError, jinja, python};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, escape_formatter};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// One turn of a chat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Mostly `system`, `user` or `assistant`.
    pub role: String,
    /// The text.
    pub content: String,
}

impl Message {
    /// A message.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into() }
    }
}

/// Steps that a template may take; one for a few messages takes some hundreds.
const STEPS: u64 = 10_000_000;

impl Bpe {
    /// The text of messages. With `add_generation_prompt` it ends where the answer begins. Encode it with
    /// [`SpecialTokens::Found`](super::SpecialTokens::Found): the template has put all tokens there.
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

    /// As [`Bpe::apply_chat_template`], at another time, for templates that tell the date: that of UTC.
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
        let tokens = [
            ("bos_token", &roles.bos),
            ("eos_token", &roles.eos),
            ("unk_token", &roles.unk),
            ("pad_token", &roles.pad),
        ];
        variables.extend(
            tokens.into_iter().filter_map(|(name, token)| Some((name, Value::from(token.as_deref()?)))),
        );
        let variables = Value::from(variables.into_iter().collect::<BTreeMap<_, _>>());
        let template = jinja::readable(template);
        environment(now).render_named_str("template", &template, variables).map_err(|error| {
            let place = error.line().map_or_else(String::new, |line| format!("line {line}: "));
            let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_string);
            TokenizerError::Template { name: self.name().to_string(), reason: format!("{place}{what}") }
        })
    }
}

fn environment(now: SystemTime) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_syntax(
        SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().expect("the usual signs"),
    );
    // As Python prints them.
    environment.set_formatter(|output, state, value| match value.kind() {
        ValueKind::None | ValueKind::Bool => output.write_str(&python::text(value)).map_err(Error::from),
        _ => escape_formatter(output, state, value),
    });
    environment.set_fuel(Some(STEPS));
    environment.set_unknown_method_callback(python::method);
    environment.add_filter("tojson", python::to_json);
    environment.add_filter(jinja::PERCENT, |left: &Value, right: &Value| python::percent(left, right));
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    // Before 1970 no template was written.
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    environment.add_function("strftime_now", move |format: String| python::date(seconds as i64, &format));
    environment
}
