//! Text interface of a generator: encodes prompts, decodes tokens and detects stop strings.

use super::{Event, Finish, Generator, Request, RequestId, TokenLogprobs};
use crate::data::Tokenizer;
use crate::decoding::{Sampling, StopStream};
use gradloom_core::error::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::fmt;

/// Text generator for one or many concurrent requests.
///
/// ```
/// # use gradloom_cpu::CpuDevice as _;
/// use gradloom_models::data::Bytes;
/// use gradloom_models::generator::{Generator, GeneratorOptions, Request, TextGenerator};
/// use gradloom_models::gpt2::{Gpt2, Gpt2Config};
/// use gradloom_runtime::{Device, Session};
///
/// let config = Gpt2Config { vocabulary: 256, context: 32, ..Gpt2Config::DEFAULT };
/// let config = Gpt2Config { width: 16, heads: 2, layers: 1, ..config };
/// let session = Session::new(Gpt2::new(&config)?, &Device::cpu(), 0)?;
/// session.materialize()?;
/// let generator = Generator::new(&session, GeneratorOptions::holding(1, config.context))?;
/// let mut texts = TextGenerator::new(generator, &Bytes);
/// // Continues beyond the context, up to an empty line.
/// texts.add("The plan ", Request { rolls: true, ..Request::new([], 50) }, &["\n\n"])?;
/// while !texts.generator().is_idle() {
///     texts.step()?.iter().for_each(|event| print!("{}", event.text()));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TextGenerator<'t> {
    generator: Generator,
    tokenizer: &'t dyn Tokenizer,
    streams: BTreeMap<RequestId, StopStream>,
}

impl fmt::Debug for TextGenerator<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextGenerator").field("streams", &self.streams).finish_non_exhaustive()
    }
}

/// An event that a step produces for a text request.
#[derive(Clone, Debug, PartialEq)]
pub enum TextEvent {
    /// The next token, and the text that it completes. The text is empty while a character is incomplete or a
    /// stop string may have begun.
    Token {
        /// Id of the request that the token belongs to.
        request: RequestId,
        /// Id of the token.
        token: i32,
        /// Text that follows the text returned before.
        text: String,
        /// Log-probabilities, if [`Request::logprobs`] requests them.
        logprobs: Option<TokenLogprobs>,
    },
    /// The request has ended and is removed.
    Finished {
        /// Id of the request.
        request: RequestId,
        /// Text that was held back.
        text: String,
        /// Reason why the text ended.
        finish: Finish,
    },
}

impl TextEvent {
    /// Returns the request that the event belongs to.
    pub fn request(&self) -> RequestId {
        match *self {
            Self::Token { request, .. } | Self::Finished { request, .. } => request,
        }
    }

    /// Returns the text that follows the text returned before.
    pub fn text(&self) -> &str {
        match self {
            Self::Token { text, .. } | Self::Finished { text, .. } => text,
        }
    }
}

impl<'t> TextGenerator<'t> {
    /// Creates a text generator.
    ///
    /// If the model's vocabulary is larger than the tokenizer's, restrict the generator to the tokenizer's
    /// with [`GeneratorOptions::vocabulary`](super::GeneratorOptions::vocabulary).
    pub fn new(generator: Generator, tokenizer: &'t dyn Tokenizer) -> Self {
        Self { generator, tokenizer, streams: BTreeMap::new() }
    }

    /// Adds a request like [`TextGenerator::add_encoded`], but with the given prompt, encoded by
    /// [`Tokenizer::prompt`], in place of the prompt of `request`.
    ///
    /// # Errors
    /// Returns an error if the text cannot be encoded, and in the same cases as [`Generator::add`].
    pub fn add(&mut self, prompt: &str, request: Request, stops: &[impl AsRef<str>]) -> Result<RequestId> {
        let prompt = self.tokenizer.prompt(prompt.as_bytes()).map_err(|error| {
            Error::new(ErrorKind::Feed, format!("the prompt: {error}")).help(error.remedy())
        })?;
        self.add_encoded(Request { prompt, ..request }, stops)
    }

    /// Adds a request. In addition to [`Request::ends`], the text ends with the tokenizer's end-of-text token
    /// or before the first stop string.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Generator::add`].
    pub fn add_encoded(&mut self, mut request: Request, stops: &[impl AsRef<str>]) -> Result<RequestId> {
        request.ends.extend(self.tokenizer.end_of_text());
        let id = self.generator.add(request)?;
        self.streams.insert(id, StopStream::new(stops));
        Ok(id)
    }

    /// Forks a request like [`Generator::fork`]. The fork has the same stop strings.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Generator::fork`], or if the request has a pending event
    /// because a step failed: the text of its last token is not known yet.
    pub fn fork(&mut self, request: RequestId, sampling: Sampling) -> Result<RequestId> {
        if self.generator.holds_events_of(request) {
            let message = format!("{request} has a token that was not handed out, as a step has failed");
            return Err(Error::new(ErrorKind::Feed, message).help("call `step` again before `fork`"));
        }
        let id = self.generator.fork(request, sampling)?;
        let stream = self.streams.get(&request).cloned().unwrap_or_default();
        self.streams.insert(id, stream);
        Ok(id)
    }

    /// Cancels a request like [`Generator::cancel`].
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Generator::cancel`].
    pub fn cancel(&mut self, request: RequestId) -> Result<()> {
        self.generator.cancel(request)?;
        self.streams.remove(&request);
        Ok(())
    }

    /// Runs a step like [`Generator::step`].
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Generator::step`].
    pub fn step(&mut self) -> Result<Vec<TextEvent>> {
        let mut events = Vec::new();
        for event in self.generator.step()? {
            match event {
                Event::Token { request, token, logprobs } => {
                    let Some(stream) = self.streams.get_mut(&request) else { continue };
                    let mut bytes = Vec::new();
                    self.tokenizer.decode(token, &mut bytes);
                    let text = stream.push(&bytes);
                    let stopped = stream.stopped();
                    events.push(TextEvent::Token { request, token, text, logprobs });
                    if let Some(stop) = stopped {
                        self.streams.remove(&request);
                        // Cancel the request unless it has ended with this token anyway.
                        if self.generator.tokens(request).is_ok() {
                            self.generator.cancel(request)?;
                        }
                        let finish = Finish::Stop(stop);
                        events.push(TextEvent::Finished { request, text: String::new(), finish });
                    }
                }
                Event::Finished { request, finish } => {
                    if let Some(mut stream) = self.streams.remove(&request) {
                        events.push(TextEvent::Finished { request, text: stream.finish(), finish });
                    }
                }
            }
        }
        Ok(events)
    }

    /// Returns the underlying token generator.
    pub fn generator(&self) -> &Generator {
        &self.generator
    }
}
