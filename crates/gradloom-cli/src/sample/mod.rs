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
use crate::output::{print_line, printable, written};
use crate::source::Source;
pub(crate) use options::Arguments;
use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let sampling = arguments.choice.sampling()?;
    if arguments.tokens == 0 && (arguments.is_search() || arguments.is_many()) {
        return Err(Failure::usage("--tokens 0: there is nothing to write").help("ask for at least 1"));
    }
    let device = arguments.device.open()?;
    let source = Source::open(&arguments.run)?;
    if arguments.is_search() {
        return search::run(arguments, &sampling, &source, &device);
    }
    if arguments.is_many() {
        return many::run(arguments, &sampling, &source, &device);
    }
    let prompt = prompt::one(arguments)?;
    let session = source.session(&device)?;
    let tokenizer = source.tokenizer()?;
    let mut writer = Writer::new(&session, &tokenizer, source.ends(&tokenizer))?;
    report_tuning(&device);
    let mut write = |on_text: &mut dyn FnMut(&str) -> ControlFlow<()>| {
        writer.write(&prompt, arguments.tokens, &sampling, &arguments.choice.stop, on_text)
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
    output.put(&prompt);
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
