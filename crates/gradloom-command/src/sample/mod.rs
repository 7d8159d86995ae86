//! `gradloom sample`.
//!
//! In: a model, and one prompt or many. Out: text on the standard output as it comes. Always holds: equal
//! arguments give equal text.

mod many;
mod options;
mod prompt;
mod search;

use crate::device::report_tuning;
use crate::failure::{Failure, Result};
use crate::model::Writer;
use crate::output::{print_line, printable, tell, written};
use crate::source::Source;
use crate::tokenizer::AnyTokenizer;
use gradloom::{Device, Session};
use gradloom_models::any_model::AnyModel;
use gradloom_models::generator::{Finish, Generator, GeneratorOptions};
use gradloom_models::language_model::{LanguageModel, Sizes};
pub(crate) use options::Arguments;
use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;

/// Tokens of a block of a generator's memory.
const BLOCK: usize = 16;

/// A model that is there to write, with all that its files say.
struct Opened {
    session: Session<AnyModel>,
    tokenizer: AnyTokenizer,
    sizes: Sizes,
    /// Tokens that end a text.
    ends: Vec<i32>,
}

/// A text to go on from, and its tokens.
struct Prompt {
    text: String,
    tokens: Vec<i32>,
}

/// Why a text has ended, in JSON.
fn finish_name(finish: Option<Finish>) -> &'static str {
    match finish {
        Some(Finish::End(_)) => "end",
        Some(Finish::Stop(_)) => "stop",
        Some(Finish::Context) => "context",
        Some(Finish::NoToken) => "no token",
        Some(Finish::Length) | None => "length",
    }
}

/// Says that a text ends where no more can be read, with less than was asked for.
fn tell_context(opened: &Opened, count: usize, arguments: &Arguments) {
    let (context, asked) = (opened.sizes.context, arguments.tokens);
    tell!(
        "note: a text ends at the model's context of {context}, after {count} of {asked} tokens; one that is \
         written alone, without a search or a draft, goes on beyond it"
    );
}

impl Opened {
    fn new(source: &Source, device: &Device) -> Result<Self> {
        let session = source.session(device)?;
        let tokenizer = source.tokenizer()?;
        let (sizes, ends) = (session.model().sizes(), source.ends(&tokenizer)?);
        Ok(Self { session, tokenizer, sizes, ends })
    }

    /// A generator over a session of the same tokens, with so many blocks for each row.
    fn generator(&self, session: &Session<AnyModel>, rows: usize, blocks: usize) -> Result<Generator> {
        let vocabulary = Some(self.sizes.vocabulary.min(self.tokenizer.get().vocabulary()));
        let (blocks, block_size) = (rows * blocks + 1, BLOCK);
        let options = GeneratorOptions { blocks, block_size, rows, vocabulary, ..Default::default() };
        Ok(Generator::new(session, options)?)
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
    if arguments.is_many() {
        return many::run(arguments, &sampling, &opened, prompts);
    }
    let prompt = prompts.swap_remove(0);
    if arguments.is_search() {
        return search::run(arguments, &sampling, &opened, &source, prompt);
    }
    let Prompt { text: prompt, tokens } = prompt;
    let Opened { session, tokenizer, ends, .. } = &opened;
    let mut writer = Writer::new(session, tokenizer, ends.clone(), tokens, arguments.tokens)?;
    report_tuning(&device);
    let mut write = |on_text: &mut dyn FnMut(&str) -> ControlFlow<()>| {
        writer.write(&sampling, &arguments.choice.stop, on_text)
    };
    if arguments.json {
        let mut text = String::new();
        let done = write(&mut |piece| {
            text.push_str(piece);
            ControlFlow::Continue(())
        })?;
        return print_line!(
            "{}",
            serde_json::json!({
                "prompt": prompt,
                "text": text,
                "tokens": done.tokens,
                "seed": sampling.seed,
                "finish": done.finish,
            })
        );
    }
    let mut output = Output::new();
    let _ = output.put_safe(&prompt);
    write(&mut |text| output.put_safe(text))?;
    output.end()
}

/// The standard output, up to its first error.
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

    /// Text that may have control characters in it; whether more is wanted.
    fn put_safe(&mut self, text: &str) -> ControlFlow<()> {
        match self.stdout.is_terminal() {
            true => self.put(&printable(text)),
            false => self.put(text),
        }
        if self.result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    fn end(mut self) -> Result<()> {
        self.put("\n");
        written(self.result)
    }
}
