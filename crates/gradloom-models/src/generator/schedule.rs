//! Scheduling of texts: selection of those that continue in a step.

use super::GeneratorOptions;
use super::memory::{Memory, refusal};
use super::program::Programs;
use super::request::{Event, Request, RequestId};
use super::steps::{New, Planned, UnderWay};
use crate::decoding::{Choices, Past, Sampling};
use crate::kv::pages::{Counts, Pages, PagesError, SequenceId};
use crate::language_model::LanguageModel;
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_runtime::Session;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound::{Excluded, Unbounded};

/// Token generator for many concurrent requests.
///
/// ```
/// # use gradloom_cpu::CpuDevice as _;
/// use gradloom_models::decoding::Sampling;
/// use gradloom_models::generator::{Event, Generator, GeneratorOptions, Request};
/// use gradloom_models::gpt2::{Gpt2, Gpt2Config};
/// use gradloom_runtime::{Device, Session};
///
/// let config = Gpt2Config { vocabulary: 50, context: 32, ..Gpt2Config::DEFAULT };
/// let config = Gpt2Config { width: 16, heads: 2, layers: 1, ..config };
/// let session = Session::new(Gpt2::new(&config)?, &Device::cpu(), 0)?;
/// session.materialize()?;
/// let options = GeneratorOptions { blocks: 17, block_size: 4, ..GeneratorOptions::default() };
/// let mut generator = Generator::new(&session, options)?;
/// let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
/// let first = generator.add(Request { sampling: greedy, ..Request::new([3, 1, 4], 5) })?;
/// let second = generator.add(Request::new([3, 1, 4, 1, 5], 7))?;
/// let mut texts = [Vec::new(), Vec::new()];
/// while !generator.is_idle() {
///     for event in generator.step()? {
///         if let Event::Token { request, token, .. } = event {
///             texts[usize::from(request == second)].push(token);
///         }
///     }
/// }
/// assert_eq!(texts.map(|tokens| tokens.len()), [5, 7]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Generator {
    pub(super) memory: Memory,
    pub(super) options: GeneratorOptions,
    /// Active requests, oldest first.
    pub(super) texts: BTreeMap<RequestId, Text>,
    /// Texts in memory. They are separate from the waiting ones to limit the number of texts that a step
    /// examines.
    running: BTreeSet<RequestId>,
    /// Texts waiting for a slot.
    waiting: BTreeSet<RequestId>,
    /// Numbers of texts by their requirements on programs.
    pub(super) wanted: HashMap<Wanted, usize>,
    /// Id of the next request.
    next: u64,
    /// Step queued before the tokens of the previous one were read.
    ahead: Option<UnderWay>,
    /// Events that were not returned yet.
    pub(super) events: Vec<Event>,
    pub(super) totals: Totals,
}

/// Counters of the work that a generator has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of tokens whose keys and values were computed, both of prompts and of generated text.
    pub computed: u64,
    /// Number of tokens whose keys and values were found in the cache when a text began.
    pub found: u64,
    /// Number of times that a text was preempted in favor of an older one.
    pub preempted: u64,
    /// Number of steps queued before the tokens of the previous step were read.
    pub ahead: u64,
    /// Number of times that a text was examined to schedule a step.
    pub looked_at: u64,
}

/// Requirements of a request on the programs that choose its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wanted {
    pub(super) choices: Choices,
    pub(super) has_penalties: bool,
    pub(super) adjusts: bool,
}

impl Wanted {
    fn of(request: &Request) -> Self {
        let Request { sampling, logprobs, .. } = request;
        let has_penalties = sampling.has_penalties();
        Self {
            choices: Choices { logprobs: *logprobs, ..Choices::of([sampling]) },
            has_penalties,
            adjusts: has_penalties || !sampling.bias.is_empty(),
        }
    }
}

/// An active request.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) request: Request,
    /// Tokens of the prompt, followed by those generated so far.
    pub(super) tokens: Vec<i32>,
    /// Number of leading tokens that were discarded.
    forgotten: usize,
    pub(super) past: Past,
    /// Sequence in memory, or `None` while the text waits for a slot.
    pub(super) sequence: Option<SequenceId>,
    /// Number of queued steps that choose a token of the text.
    pub(super) awaited: usize,
}

impl Text {
    fn new(request: Request, tokens: Vec<i32>, past: Past, sequence: Option<SequenceId>) -> Self {
        Self { request, tokens, forgotten: 0, past, sequence, awaited: 0 }
    }

    /// Returns the tokens that the model reads, starting at position 0.
    pub(super) fn seen(&self) -> &[i32] {
        &self.tokens[self.forgotten..]
    }

    /// Discards all tokens except the last half of a context.
    pub(super) fn roll(&mut self, context: usize) {
        self.forgotten = self.tokens.len() - (context / 2).max(1);
    }

    pub(super) fn generated(&self) -> usize {
        self.tokens.len() - self.request.prompt.len()
    }
}

const _: fn() = || {
    fn goes_to_threads<T: Send>() {}
    goes_to_threads::<Generator>();
};

impl Generator {
    /// Creates a generator that shares the parameters of a session. The generator can be sent to another
    /// thread, which is why the model must be `Send` and `Sync`.
    ///
    /// # Errors
    /// Returns an error if the options are invalid or the pool cannot be allocated.
    pub fn new<M>(session: &Session<M>, options: GeneratorOptions) -> Result<Self>
    where
        M: LanguageModel + Send + Sync + 'static,
    {
        Self::over(Box::new(session.clone()), options)
    }

    /// Creates a generator for any type of model, so that the generator's code is compiled once.
    fn over(session: Box<dyn Programs>, options: GeneratorOptions) -> Result<Self> {
        let all = session.sizes().vocabulary;
        let vocabulary = options.vocabulary.unwrap_or(all);
        if !options.dtype.is_float() {
            let message = format!("keys and values as {}", options.dtype);
            return Err(refusal(message, "keep them as f32, bf16 or f16"));
        }
        for (what, given, most) in [
            ("texts at once", options.rows, usize::MAX),
            ("tokens of prompts in a step", options.chunk, usize::MAX),
            ("tokens that can follow", vocabulary, all),
        ] {
            if given == 0 || given > most {
                let message = format!("a generator of {given} {what}");
                let range = if most == all { format!("1 to {all}") } else { "at least 1".to_string() };
                return Err(refusal(message, format!("give {range}")));
            }
        }
        let options = GeneratorOptions { chunk: 1 << options.chunk.ilog2(), ..options };
        let memory = Memory::new(session, &options, vocabulary)?;
        Ok(Self {
            memory,
            options,
            texts: BTreeMap::new(),
            running: BTreeSet::new(),
            waiting: BTreeSet::new(),
            wanted: HashMap::new(),
            next: 0,
            ahead: None,
            events: Vec::new(),
            totals: Totals::default(),
        })
    }

    /// Adds a request, which starts with the next step.
    ///
    /// # Errors
    /// Returns an error if the prompt is empty, exceeds the context or contains a token that is not in the
    /// vocabulary, if no token is requested, if a setting is out of range, or if the text would not fit in
    /// memory even alone.
    pub fn add(&mut self, request: Request) -> Result<RequestId> {
        self.check(&request)?;
        let (tokens, past) = (request.prompt.clone(), Past::new(&request.prompt));
        Ok(self.take(Text::new(request, tokens, past, None)))
    }

    /// Adds a request that continues the current text of another one with its own settings. Use a different
    /// seed: positions continue from those of the other request, and random numbers depend only on position
    /// and seed.
    ///
    /// # Errors
    /// Returns an error if the request is unknown or a setting is out of range.
    pub fn fork(&mut self, request: RequestId, sampling: Sampling) -> Result<RequestId> {
        let text = self.known(request)?;
        let forked = Request { sampling, ..text.request.clone() };
        self.check(&forked)?;
        let (tokens, past, forgotten) = (text.tokens.clone(), text.past.clone(), text.forgotten);
        let sequence = match text.sequence {
            Some(sequence) if self.running() < self.options.rows => {
                Some(self.memory.pages.fork(sequence).map_err(super::memory::refused)?)
            }
            // Without a slot, the text has no sequence; when it gets one, it uses whatever is cached then.
            _ => None,
        };
        Ok(self.take(Text { forgotten, ..Text::new(forked, tokens, past, sequence) }))
    }

    /// Cancels a request, which then produces no further events.
    ///
    /// # Errors
    /// Returns an error if the request is unknown, for instance because it has finished.
    pub fn cancel(&mut self, request: RequestId) -> Result<()> {
        self.known(request)?;
        self.end(request);
        self.events.retain(|event| event.request() != request);
        Ok(())
    }

    /// Continues each text by one token and some prompts by a chunk.
    ///
    /// This takes up to two steps on the device, and one that is queued ahead ([`GeneratorOptions::ahead`]).
    /// Returns the new events, or none if there is no work.
    ///
    /// # Errors
    /// Returns an error if the device fails. Requests are unchanged and the step can be retried, which also
    /// returns the events that occurred before the error.
    pub fn step(&mut self) -> Result<Vec<Event>> {
        let tokens = match self.ahead.take() {
            Some(ahead) => Some(ahead),
            None => self.queue_tokens(None)?,
        };
        let prompts = self.queue_prompts();
        let (has_tokens, reads) = (tokens.is_some(), !matches!(prompts, Ok(None)));
        let ahead = match &tokens {
            Some(tokens) if !reads && self.goes_ahead() => self.queue_tokens(Some(tokens)),
            _ => Ok(None),
        };
        let settled = tokens.map_or(Ok(()), |tokens| self.settle(tokens));
        let read = prompts.and_then(|prompts| prompts.map_or(Ok(()), |prompts| self.settle(prompts)));
        match (&settled, ahead) {
            (Ok(()), Ok(step)) => self.ahead = step,
            // Revert the step that was queued ahead: the tokens that it depends on were not chosen.
            (Err(_), Ok(Some(step))) => self.take_back(&step),
            (Err(_), _) => {}
            (Ok(()), Err(error)) => return Err(error),
        }
        settled.and(read)?;
        if !self.texts.is_empty() && !has_tokens && !reads {
            let Counts { free, cached, used } = self.memory.pages.counts();
            let message =
                format!("no text can go on: of the blocks {free} are free, {cached} cached, {used} used");
            return Err(Error::new(ErrorKind::Internal, message));
        }
        Ok(std::mem::take(&mut self.events))
    }

    /// Returns `true` if there is no active request and no pending event. After an error, pending events may
    /// remain without any active request.
    pub fn is_idle(&self) -> bool {
        self.texts.is_empty() && self.events.is_empty()
    }

    /// Returns `true` if an event of the request is pending because of an error.
    pub(super) fn holds_events_of(&self, request: RequestId) -> bool {
        self.events.iter().any(|event| event.request() == request)
    }

    /// Returns the active requests, oldest first.
    pub fn requests(&self) -> impl Iterator<Item = RequestId> {
        self.texts.keys().copied()
    }

    /// Returns the prompt of a request, followed by the tokens generated so far.
    ///
    /// # Errors
    /// Returns an error if the request is unknown, for instance because it has finished.
    pub fn tokens(&self, request: RequestId) -> Result<&[i32]> {
        Ok(&self.known(request)?.tokens)
    }

    /// Returns the counters of the work done since the generator was created.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Returns the bookkeeping of the paged memory.
    pub fn pages(&self) -> &Pages {
        &self.memory.pages
    }

    /// Discards all keys and values. Call it after the parameters have changed. Active texts are recomputed.
    pub fn forget(&mut self) {
        if let Some(step) = self.ahead.take() {
            self.take_back(&step);
        }
        let all: Vec<_> = self.running.iter().copied().collect();
        all.into_iter().for_each(|id| self.rest(id));
        self.memory.pages.forget_prefixes();
    }

    pub(super) fn check(&self, request: &Request) -> Result<()> {
        let Request { prompt, sampling, most, .. } = request;
        self.check_text(prompt, 1)?;
        let (context, vocabulary) = (self.memory.context(), self.memory.vocabulary());
        if *most == 0 {
            return refuse("a request of 0 new tokens", "ask for at least 1");
        }
        if let Err(error) = sampling.validate().and_then(|()| sampling.biases(vocabulary).map(|_| ())) {
            return refuse(error.to_string(), error.remedy());
        }
        if let Some(count) = request.logprobs.filter(|&count| count > vocabulary) {
            let message = format!("log-probabilities of {count} tokens, of which there are {vocabulary}");
            return refuse(message, format!("ask for at most {vocabulary}"));
        }
        let longest = prompt.len().saturating_add(most - 1).min(context);
        let (needed, capacity) = (longest.div_ceil(self.options.block_size), self.memory.pages.capacity());
        if needed > capacity {
            let message = format!("{longest} tokens take {needed} blocks, and the memory has {capacity}");
            let help = format!("ask for less, or give the generator at least {} blocks", needed + 1);
            return refuse(message, help);
        }
        Ok(())
    }

    /// Checks the tokens of a prompt that is to be followed by `most` tokens, of which the model reads all
    /// but the last.
    pub(super) fn check_text(&self, prompt: &[i32], most: usize) -> Result<()> {
        let context = self.memory.context();
        if prompt.is_empty() || prompt.len().saturating_add(most.max(1) - 1) > context {
            let behind = if most > 1 { format!(" with {most} behind them") } else { String::new() };
            let message = format!("a prompt of {} tokens{behind} for a context of {context}", prompt.len());
            return refuse(message, "give at least one token; of a longer text give the end");
        }
        match prompt.iter().enumerate().find(|(_, token)| !self.memory.knows(**token)) {
            None => Ok(()),
            Some((at, token)) => refuse(
                format!("token {at} of the prompt is {token}, which the model does not have"),
                "encode the prompt by the model's own tokenizer",
            ),
        }
    }

    fn take(&mut self, text: Text) -> RequestId {
        let id = RequestId(self.next);
        self.next += 1;
        *self.wanted.entry(Wanted::of(&text.request)).or_default() += 1;
        let place = if text.sequence.is_some() { &mut self.running } else { &mut self.waiting };
        place.insert(id);
        self.texts.insert(id, text);
        id
    }

    fn known(&self, request: RequestId) -> Result<&Text> {
        self.texts.get(&request).ok_or_else(|| {
            Error::new(ErrorKind::Feed, format!("{request} is not under way"))
                .help("use the id that `add` or `fork` gave, until the request has finished")
        })
    }

    fn running(&self) -> usize {
        self.running.len()
    }

    /// Returns the number of tokens of a text that are not in memory, or `None` for a text that waits for a
    /// slot.
    pub(super) fn pending(&self, text: &Text) -> Option<usize> {
        text.sequence.map(|sequence| text.seen().len() - self.memory.length(sequence))
    }

    /// Removes a text from memory. Its full blocks remain cached.
    pub(super) fn rest(&mut self, id: RequestId) {
        let text = self.texts.get_mut(&id).expect("it is under way");
        if let Some(sequence) = text.sequence.take() {
            self.memory.pages.end(sequence).expect("its sequence has begun");
            self.running.remove(&id);
            self.waiting.insert(id);
        }
    }

    pub(super) fn end(&mut self, id: RequestId) {
        self.rest(id);
        self.waiting.remove(&id);
        let text = self.texts.remove(&id).expect("it is under way");
        let wanted = Wanted::of(&text.request);
        let count = self.wanted.get_mut(&wanted).expect("it was counted");
        *count -= 1;
        if *count == 0 {
            self.wanted.remove(&wanted);
        }
    }

    /// Returns `true` if a step may be queued before the tokens of the previous one are read.
    fn goes_ahead(&self) -> bool {
        let wanted = self.options.ahead.unwrap_or_else(|| self.memory.is_beside_host());
        wanted && !self.wanted.keys().any(|wanted| wanted.has_penalties)
    }

    /// Queues a decoding step for every text with exactly one token whose keys and values are not in memory.
    /// If the step `behind` is still queued, includes the texts whose next token `behind` samples.
    fn queue_tokens(&mut self, behind: Option<&UnderWay>) -> Result<Option<UnderWay>> {
        let context = self.memory.context();
        let goes_on = |text: &Text| text.generated() + 1 < text.request.most && text.seen().len() < context;
        let ready = self.running.iter().filter_map(|&id| {
            let text = &self.texts[&id];
            match text.awaited {
                0 => (self.pending(text) == Some(1)).then_some((id, None)),
                1 => Some((id, Some(behind?.row_of(id, text).filter(|_| goes_on(text))?))),
                _ => None,
            }
        });
        let ready: Vec<_> = ready.collect();
        self.totals.looked_at += self.running.len() as u64;
        if behind.is_some_and(|behind| !behind.precedes(ready.len())) {
            return Ok(None);
        }
        let mut planned = Planned::default();
        for (id, row) in ready {
            // Skip a text that an older one has preempted.
            if self.texts[&id].sequence.is_some() {
                let has_room = self.place(New { id, count: 1, row }, &mut planned, behind.is_none());
                if !has_room && behind.is_some() && self.youngest_after(id).is_some() {
                    // Give up this step: the next one, which is not queued ahead, preempts the younger text.
                    planned.rows.clear();
                    break;
                }
            }
        }
        self.queue(planned, behind)
    }

    /// Queues a step that reads a chunk of some prompts, oldest first.
    fn queue_prompts(&mut self) -> Result<Option<UnderWay>> {
        // Examine twice as many waiting texts as can start in a step, because the first ones may have to wait
        // for blocks that others are computing.
        let next = self.waiting.iter().take(self.options.rows.saturating_mul(2));
        let all: BTreeSet<RequestId> = self.running.iter().chain(next).copied().collect();
        let (mut planned, mut time) = (Planned::default(), 1);
        // No text starts before an older one that waits for a slot, but texts that have started continue.
        let mut full = self.running.len() >= self.options.rows;
        for id in all {
            self.totals.looked_at += 1;
            let text = &self.texts[&id];
            let (begins, pending) = match self.pending(text) {
                _ if text.awaited > 0 => continue,
                Some(1) => continue,
                Some(pending) => (false, pending),
                None if full => continue,
                None => (true, text.seen().len() - self.cached(text)),
            };
            if begins && self.will_be_cached(id) {
                continue;
            }
            if begins && !self.admits(pending) {
                full = true;
                continue;
            }
            let count = pending.min(self.options.chunk);
            let area = (planned.rows.len() + 1).next_power_of_two() * time.max(count).next_power_of_two();
            if !planned.rows.is_empty() && area > self.options.chunk {
                break;
            }
            if begins {
                let sequence = self.memory.begin(text.seen(), text.request.shares);
                self.texts.get_mut(&id).expect("it is under way").sequence = Some(sequence);
                self.waiting.remove(&id);
                self.running.insert(id);
            }
            if !self.place(New { id, count, row: None }, &mut planned, true) {
                if begins {
                    self.rest(id);
                }
                break;
            }
            if begins {
                self.totals.found += (self.texts[&id].seen().len() - pending) as u64;
            }
            time = time.max(count);
        }
        self.queue(planned, None)
    }

    /// Returns the number of tokens of a text that are cached.
    fn cached(&self, text: &Text) -> usize {
        if text.request.shares { self.memory.pages.cached(text.seen()) } else { 0 }
    }

    /// Returns `true` if one more text fits: a slot is free, and there are enough blocks for its missing
    /// tokens and for the next token of every other text.
    fn admits(&self, pending: usize) -> bool {
        let (running, Counts { free, cached, .. }) = (self.running(), self.memory.pages.counts());
        let needed = (pending + 1).div_ceil(self.options.block_size) + running;
        running == 0 || running < self.options.rows && needed <= free + cached
    }

    /// Returns `true` if a text whose prompt is still being computed shares a longer prefix with this text
    /// than the cache does, so that waiting for that text's blocks saves work.
    fn will_be_cached(&self, id: RequestId) -> bool {
        let text = &self.texts[&id];
        let cached = self.cached(text);
        let common = |other: &Text| {
            let computable = &text.seen()[..text.seen().len() - 1];
            let equal = computable.iter().zip(other.seen()).take_while(|(a, b)| a == b).count();
            equal - equal % self.options.block_size
        };
        let being_read = |other: &&Text| other.request.shares && self.pending(other).is_some_and(|n| n > 1);
        let mut running = self.running.iter().map(|id| &self.texts[id]);
        text.request.shares && running.any(|other| being_read(&other) && common(other) > cached)
    }

    /// Returns the youngest text in memory that is younger than `id`.
    fn youngest_after(&self, id: RequestId) -> Option<RequestId> {
        self.running.range((Excluded(id), Unbounded)).next_back().copied()
    }

    /// Reserves space for new tokens of a text. If `preempts` is set, preempts younger texts as needed.
    /// Returns `false` if there are too few blocks.
    fn place(&mut self, new: New, planned: &mut Planned, preempts: bool) -> bool {
        let id = new.id;
        let sequence = self.texts[&id].sequence.expect("it is in memory");
        loop {
            match self.memory.pages.reserve(sequence, new.under_way() + new.count) {
                Ok(copy) => {
                    planned.rows.push(new);
                    planned.copies.extend(copy.map(|copy| (id, copy)));
                    return true;
                }
                Err(PagesError::OutOfBlocks { .. }) => {
                    let Some(last) = self.youngest_after(id).filter(|_| preempts) else { return false };
                    self.rest(last);
                    self.totals.preempted += 1;
                }
                Err(error) => unreachable!("the sequence has begun: {error}"),
            }
        }
    }
}

fn refuse(message: impl Into<String>, help: impl Into<String>) -> Result<()> {
    Err(refusal(message, help))
}
