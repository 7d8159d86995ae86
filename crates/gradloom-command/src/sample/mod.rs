//! `gradloom sample`: generates text.
//!
//! In: a model, and one or more prompts. Out: text on the standard output as it is generated. Invariant:
//! equal arguments produce equal text.

mod options;
mod prompt;
mod search;
mod texts;

use crate::failure::{Failure, Result};
use crate::output::{printable, tell, written};
use crate::source::Source;
use crate::tokenizer::AnyTokenizer;
use gradloom::{Device, Session};
use gradloom_models::any_model::AnyModel;
use gradloom_models::generator::Finish;
use gradloom_models::language_model::{LanguageModel, Sizes};
pub(crate) use options::Arguments;
use std::io::{self, IsTerminal, Write};

/// A model ready to generate, with its tokenizer and settings.
struct Opened {
    session: Session<AnyModel>,
    tokenizer: AnyTokenizer,
    sizes: Sizes,
    /// Tokens that end a text.
    ends: Vec<i32>,
}

/// A prompt and its tokens.
struct Prompt {
    text: String,
    tokens: Vec<i32>,
}

/// Returns the reason why a text ended, as named in JSON.
fn finish_name(finish: Option<Finish>) -> &'static str {
    match finish {
        Some(Finish::End(_)) => "end",
        Some(Finish::Stop(_)) => "stop",
        Some(Finish::Context) => "context",
        Some(Finish::NoToken) => "no token",
        Some(Finish::Length) | None => "length",
    }
}

/// Prints a note that a search or a draft stopped at the model's context, before the requested number of
/// tokens.
fn tell_context(opened: &Opened, count: usize, arguments: &Arguments) {
    let (context, asked) = (opened.sizes.context, arguments.tokens);
    tell!(
        "note: a text ends at the model's context of {context}, after {count} of {asked} tokens; one \
         without a search or a draft goes on beyond it"
    );
}

impl Opened {
    fn new(source: &Source, device: &Device) -> Result<Self> {
        let session = source.session(device)?;
        let tokenizer = source.tokenizer()?;
        let (sizes, ends) = (session.model().sizes(), source.ends(&tokenizer)?);
        Ok(Self { session, tokenizer, sizes, ends })
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let sampling = arguments.choice.sampling()?;
    if arguments.tokens == 0 && (arguments.is_search() || arguments.is_many()) {
        return Err(Failure::usage("--tokens 0: there is nothing to write").help("ask for at least 1"));
    }
    let device = arguments.device.open()?;
    let source = Source::open(&arguments.run)?;
    let texts = prompt::all(arguments)?;
    let opened = Opened::new(&source, &device)?;
    let prompts = texts.into_iter().map(|text| {
        let tokens = opened.tokenizer.prompt(&text, opened.sizes, arguments.tokens)?;
        Ok(Prompt { text, tokens })
    });
    let mut prompts = prompts.collect::<Result<Vec<_>>>()?;
    sampling.biases(opened.sizes.vocabulary.min(opened.tokenizer.get().vocabulary()))?;
    if arguments.is_search() {
        return search::run(arguments, &sampling, &opened, &source, prompts.swap_remove(0));
    }
    texts::run(arguments, &sampling, &opened, prompts)
}

/// The standard output, written until its first error.
struct Output {
    stdout: io::StdoutLock<'static>,
    result: io::Result<()>,
}

impl Output {
    fn new() -> Self {
        Self { stdout: io::stdout().lock(), result: Ok(()) }
    }

    fn put(&mut self, text: &str) {
        if self.result.is_ok() {
            self.result = self.stdout.write_all(text.as_bytes()).and_then(|()| self.stdout.flush());
        }
    }

    /// Writes text. On a terminal, control characters are replaced (see [`printable`]).
    fn put_safe(&mut self, text: &str) {
        match self.stdout.is_terminal() {
            true => self.put(&printable(text)),
            false => self.put(text),
        }
    }

    fn end(mut self) -> Result<()> {
        self.put("\n");
        written(self.result)
    }
}
