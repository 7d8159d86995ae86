//! Texts in paged memory: reservation of space for new tokens, and steps that either succeed or have no
//! effect.

use super::GeneratorOptions;
use super::program::{Form, Head, Programs};
use crate::decoding::{LastTokens, Past, Sampling};
use crate::kv::PagedKeyValues;
use crate::kv::pages::{BlockCopy, Pages, PagesError, SequenceId};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_runtime::{Data, Infer, Step};
use std::collections::HashMap;

/// A pool of blocks on the device, its bookkeeping, and the programs that use it.
#[derive(Debug)]
pub(super) struct Memory {
    session: Box<dyn Programs>,
    pub(super) pages: Pages,
    pool: PagedKeyValues,
    /// Last tokens of steps with 1, 2, 4, .. rows.
    last: Vec<LastTokens>,
    /// Number of blocks in a row's block table.
    blocks: usize,
    /// Number of tokens that can be generated.
    vocabulary: usize,
    programs: HashMap<Form, Infer<0, ()>>,
    /// Program that copies blocks, compiled when a shared block is first copied.
    copies: Option<Infer<2, ()>>,
}

/// Maximum number of blocks copied in one run.
pub(super) const COPIES: usize = 16;

/// New tokens of a text in a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewTokens<'a> {
    pub(super) sequence: SequenceId,
    /// Number of tokens after those in memory that a queued step computes.
    pub(super) under_way: usize,
    /// Tokens after those in memory and in the queued step, or [`LastTokens::ID`] for one that is not known
    /// yet.
    pub(super) tokens: &'a [i32],
    /// Settings for choosing the next token. Without them, the row's chosen token is ignored.
    pub(super) choice: Option<Choice<'a>>,
}

impl<'a> NewTokens<'a> {
    /// Creates a row of tokens that follow those in memory, without choosing the next one.
    pub(super) fn known(sequence: SequenceId, tokens: &'a [i32]) -> Self {
        Self { sequence, under_way: 0, tokens, choice: None }
    }
}

/// Settings with which a row's next token is chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice<'a> {
    pub(super) sampling: &'a Sampling,
    pub(super) past: &'a Past,
    pub(super) position: usize,
}

impl Memory {
    pub(super) fn new(
        session: Box<dyn Programs>,
        options: &GeneratorOptions,
        vocabulary: usize,
    ) -> Result<Self> {
        let &GeneratorOptions { blocks, block_size, dtype, ref name, .. } = options;
        let sizes = session.sizes();
        let pages = Pages::new(blocks, block_size).map_err(refused)?;
        let pool = PagedKeyValues::new(sizes, blocks, block_size, name).kept_as(dtype);
        // Limit the rows to the number of blocks, because a text in memory occupies at least one block.
        let most = options.rows.min(pages.capacity()).next_power_of_two();
        let last = (0..=most.ilog2()).map(|exponent| 1 << exponent);
        let last: Vec<_> = last.map(|rows| LastTokens::new(rows, format!("{name}.last.{rows}"))).collect();
        session.declare(&pool, &last)?;
        let blocks = sizes.context.div_ceil(block_size).min(pages.capacity());
        let (programs, copies) = (HashMap::new(), None);
        Ok(Self { session, pages, pool, last, blocks, vocabulary, programs, copies })
    }

    pub(super) fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Returns `true` if a token is in the model's vocabulary.
    pub(super) fn knows(&self, token: i32) -> bool {
        usize::try_from(token).is_ok_and(|id| id < self.session.sizes().vocabulary)
    }

    pub(super) fn context(&self) -> usize {
        self.session.sizes().context
    }

    /// Returns `true` if the device works concurrently with the host.
    pub(super) fn is_beside_host(&self) -> bool {
        self.session.is_gpu()
    }

    /// Begins a sequence. If `shares` is set, the sequence contains the longest cached prefix of `tokens`;
    /// otherwise, the sequence is empty and private.
    pub(super) fn begin(&mut self, tokens: &[i32], shares: bool) -> SequenceId {
        if shares { self.pages.begin(tokens).sequence } else { self.pages.begin_private() }
    }

    /// Returns the number of tokens of a sequence in memory.
    pub(super) fn length(&self, sequence: SequenceId) -> usize {
        self.pages.tokens(sequence).map_or(0, <[i32]>::len)
    }

    /// Computes the missing tokens of a text, in chunks of at most `chunk` tokens. Returns the step of the
    /// last chunk, which has the output `head`.
    pub(super) fn read(
        &mut self,
        sequence: SequenceId,
        text: &[i32],
        chunk: usize,
        head: Head,
    ) -> Result<Step> {
        loop {
            let missing = &text[self.length(sequence)..];
            let tokens = &missing[..missing.len().min(chunk)];
            let is_last = tokens.len() == missing.len();
            let row = NewTokens::known(sequence, tokens);
            let step = self.append(&[row], if is_last { head } else { Head::Nothing })?;
            if is_last {
                return Ok(step);
            }
        }
    }

    /// Reserves space for the new tokens of rows with [`Pages::reserve`], then computes them with
    /// [`Memory::run`].
    pub(super) fn append(&mut self, rows: &[NewTokens<'_>], head: Head) -> Result<Step> {
        let mut copies = Vec::new();
        for row in rows {
            match self.pages.reserve(row.sequence, row.tokens.len()) {
                Ok(copy) => copies.extend(copy),
                Err(error) => {
                    self.run_copies(&copies)?;
                    return Err(refused(error));
                }
            }
        }
        self.run_copies(&copies)?;
        self.run(rows, head)
    }

    /// Computes the new tokens of rows whose space is reserved and whose copies have been run, and waits for
    /// the result. On failure, the rows are unchanged and their space is released.
    fn run(&mut self, rows: &[NewTokens<'_>], head: Head) -> Result<Step> {
        let places: Vec<_> = rows.iter().copied().map(Some).collect();
        let outcome = self.queue(&places, head).and_then(|step| step.result().map(|()| step));
        for row in rows {
            match outcome {
                Ok(_) => self.pages.commit(row.sequence, row.tokens),
                Err(_) => self.pages.truncate(row.sequence, self.length(row.sequence)),
            }
            .map_err(refused)?;
        }
        outcome
    }

    /// Runs the copies that reservations returned, in order. On failure, the caller must end the sequences to
    /// which the copies belong, because their new blocks are invalid.
    pub(super) fn run_copies(&mut self, copies: &[BlockCopy]) -> Result<()> {
        if copies.is_empty() {
            return Ok(());
        }
        let program = match self.copies {
            Some(ref mut program) => program,
            None => self.copies.insert(self.session.copies(&self.pool)?),
        };
        for some in copies.chunks(COPIES) {
            let (mut from, mut to) = ([0; COPIES], [-1; COPIES]);
            for (i, copy) in BlockCopy::at_once(some).into_iter().enumerate() {
                (from[i], to[i]) = (copy.from.index() as i32, copy.to.index() as i32);
            }
            program.run((&from, &to))?;
        }
        Ok(())
    }

    /// Queues a step over rows whose space is reserved and whose copies have been run; an empty row is
    /// `None`. The caller must commit the tokens once the step has succeeded.
    pub(super) fn queue(&mut self, rows: &[Option<NewTokens<'_>>], head: Head) -> Result<Step> {
        let time = rows.iter().flatten().map(|row| row.tokens.len()).max().unwrap_or(1);
        let form = Form::holding(rows.len(), time, head);
        let new = |row: &NewTokens<'_>| (row.sequence, row.under_way..row.under_way + row.tokens.len());
        let new: Vec<_> = rows.iter().map(|row| row.as_ref().map(new)).collect();
        let batch = self.pages.batch(&new, form.shape(self.blocks)).map_err(refused)?;
        let mut ids = vec![0; form.rows * form.time];
        for (place, row) in ids.chunks_mut(form.time).zip(rows) {
            let tokens = row.map_or(&[][..], |row| row.tokens);
            place[..tokens.len()].copy_from_slice(tokens);
        }
        let choices = Settings::of(rows, form, self.vocabulary)?;
        let mut data: Vec<Data<'_>> =
            vec![(&ids).into(), (&batch.tables).into(), (&batch.starts).into(), (&batch.lengths).into()];
        if let Some(choices) = &choices {
            choices.give(&mut data);
        }
        use std::collections::hash_map::Entry;
        let program = match self.programs.entry(form) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let last = self.last.get(form.rows.ilog2() as usize).filter(|_| form.hands_on());
                new.insert(self.session.compile(form, &self.pool, last, self.blocks, self.vocabulary)?)
            }
        };
        program.queue(&data)
    }
}

/// Settings of the rows in the form that [`Choices`](crate::decoding::Choices) takes.
#[derive(Default)]
struct Settings {
    numbers: Vec<f32>,
    words: Vec<u32>,
    adjustments: Option<(Vec<i32>, Vec<f32>)>,
}

impl Settings {
    /// Returns the settings of all rows, or `None` if no token is chosen. Rows without settings get the
    /// default ones.
    fn of(rows: &[Option<NewTokens<'_>>], form: Form, vocabulary: usize) -> Result<Option<Self>> {
        let Head::Choose { adjusts, .. } = form.head else { return Ok(None) };
        let (sampling, past) = (Sampling::default(), Past::default());
        let nothing = Choice { sampling: &sampling, past: &past, position: 0 };
        let mut all = Self { adjustments: adjusts.then(Default::default), ..Self::default() };
        for row in 0..form.rows {
            let Choice { sampling, past, position } =
                rows.get(row).copied().flatten().and_then(|row| row.choice).unwrap_or(nothing);
            all.numbers.extend(sampling.numbers());
            all.words.extend(sampling.words(position as u64));
            if let Some((pasts, biases)) = &mut all.adjustments {
                pasts.extend(past.row(vocabulary));
                biases.extend(
                    sampling.biases(vocabulary).map_err(|error| {
                        Error::new(ErrorKind::Feed, error.to_string()).help(error.remedy())
                    })?,
                );
            }
        }
        Ok(Some(all))
    }

    fn give<'a>(&'a self, data: &mut Vec<Data<'a>>) {
        data.extend([Data::from(&self.numbers), Data::from(&self.words)]);
        if let Some((past, bias)) = &self.adjustments {
            data.push(past.into());
            data.push(bias.into());
        }
    }
}

/// Returns the error for a request that cannot be fulfilled.
pub(super) fn refusal(message: impl Into<String>, help: impl Into<String>) -> Error {
    Error::new(ErrorKind::Feed, message).help(help)
}

/// Converts a paging error to an [`Error`] with the same message and remedy.
pub(super) fn refused(error: PagesError) -> Error {
    refusal(error.to_string(), error.remedy())
}

/// Returns the elements of an f32 output of a step.
pub(super) fn floats(step: &Step, output: usize) -> Vec<f32> {
    words(step, output).into_iter().map(f32::from_bits).collect()
}

/// Returns the elements of a 32-bit output of a step.
pub(super) fn words(step: &Step, output: usize) -> Vec<u32> {
    let (_, _, bytes) = step.outputs().nth(output).expect("the program gives it");
    bytes.chunks_exact(4).map(|b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]])).collect()
}
