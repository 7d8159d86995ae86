//! Chat templates: messages to the text that a model was trained on.
//!
//! In: messages, and the template of a tokenizer's files, in Jinja. Out: a text with the special tokens spelt
//! out. Always holds: the text is that of `apply_chat_template` of transformers, whose settings, filters and
//! functions these are; a template cannot reach anything else, and ends within a bound of steps.

use super::{Bpe, Tokenizer, TokenizerError};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, context, escape_formatter};
use serde::{Deserialize, Serialize};
use serde_json::ser::{Formatter, PrettyFormatter};
use std::io::{self, Write};

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
        let roles = self.roles();
        let none = || TokenizerError::NoTemplate { name: self.name().to_string() };
        let template = roles.chat_template.as_deref().ok_or_else(none)?;
        let variables = context! {
            messages => Value::from(Serde(messages)),
            add_generation_prompt,
            // Templates ask whether there are any.
            tools => Value::from(()),
            documents => Value::from(()),
            bos_token => roles.bos.as_deref().unwrap_or_default(),
            eos_token => roles.eos.as_deref().unwrap_or_default(),
            unk_token => roles.unk.as_deref().unwrap_or_default(),
            pad_token => roles.pad.as_deref().unwrap_or_default(),
        };
        environment().render_named_str("template", template, variables).map_err(|error| {
            let place = error.line().map_or_else(String::new, |line| format!("line {line}: "));
            let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_string);
            TokenizerError::Template { name: self.name().to_string(), reason: format!("{place}{what}") }
        })
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_syntax(
        SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().expect("the usual signs"),
    );
    // As Python prints them.
    environment.set_formatter(|output, state, value| match (value.kind(), value.is_true()) {
        (ValueKind::None, _) => output.write_str("None").map_err(Error::from),
        (ValueKind::Bool, true) => output.write_str("True").map_err(Error::from),
        (ValueKind::Bool, false) => output.write_str("False").map_err(Error::from),
        _ => escape_formatter(output, state, value),
    });
    environment.set_fuel(Some(STEPS));
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_filter("tojson", to_json);
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment
}

/// JSON as Python writes it, with its blanks and without the escapes for HTML.
fn to_json(value: &Value, arguments: Kwargs) -> Result<String, Error> {
    let wrong = |error: serde_json::Error| Error::new(ErrorKind::BadSerialization, error.to_string());
    let indent: Option<usize> = arguments.get("indent")?;
    arguments.assert_all_used()?;
    let mut text = Vec::new();
    match indent {
        None => value.serialize(&mut serde_json::Serializer::with_formatter(&mut text, OneLine)),
        Some(indent) => {
            let indent = " ".repeat(indent.min(64));
            let lines = PrettyFormatter::with_indent(indent.as_bytes());
            value.serialize(&mut serde_json::Serializer::with_formatter(&mut text, lines))
        }
    }
    .map_err(wrong)?;
    Ok(String::from_utf8(text).expect("JSON is UTF-8"))
}

/// A blank after commas and colons.
struct OneLine;

impl Formatter for OneLine {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
