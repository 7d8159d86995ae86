//! Programs that compute the new tokens of some texts and choose the next ones.

use super::memory::COPIES;
use crate::decoding::{Choices, LastTokens, Rows, Sampling};
use crate::kv::pages::BatchShape;
use crate::kv::{PagedBatch, PagedKeyValues};
use crate::language_model::{LanguageModel, Sizes};
use gradloom_core::error::Result;
use gradloom_core::ir::DType;
use gradloom_core::trace::{Tensor, f32, i32, iota, u32};
use gradloom_runtime::{Infer, Session};
use std::fmt;

/// Output of a step's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Head {
    /// No output, for a prompt that continues.
    Nothing,
    /// The next token of each row, and its log-probabilities if requested.
    Choose {
        choices: Choices,
        /// True if any row has penalties or biases.
        adjusts: bool,
    },
    /// The logits after each row's last token, `[rows, vocabulary]`.
    Last,
    /// The logits after each token, `[rows, time, vocabulary]`.
    Each,
}

/// Shape and output of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Form {
    pub(super) rows: usize,
    pub(super) time: usize,
    pub(super) head: Head,
}

impl Form {
    /// Returns the smallest form for `rows` rows of `time` tokens.
    pub(super) fn holding(rows: usize, time: usize, head: Head) -> Self {
        Self { rows: rows.next_power_of_two(), time: time.next_power_of_two(), head }
    }

    pub(super) fn shape(&self, blocks: usize) -> BatchShape {
        BatchShape { rows: self.rows, time: self.time, blocks }
    }

    /// Returns `true` if the next step can read the tokens that this one chooses, which requires one token
    /// per row.
    pub(super) fn hands_on(&self) -> bool {
        self.time == 1 && matches!(self.head, Head::Choose { .. })
    }
}

/// A compiler of programs for a session, independent of the type of its model.
pub(super) trait Programs: Send {
    fn sizes(&self) -> Sizes;

    fn is_gpu(&self) -> bool;

    /// Adds the states to the session's store, so that the store's contents do not depend on what is
    /// generated.
    fn declare(&self, pool: &PagedKeyValues, last: &[LastTokens]) -> Result<()>;

    /// Compiles the program that copies blocks of a pool.
    fn copies(&self, pool: &PagedKeyValues) -> Result<Infer<2, ()>>;

    /// Compiles the program of a form with block tables of `blocks` entries. Only the first `vocabulary`
    /// tokens can be chosen. With `last`, ids may refer to its tokens, and chosen tokens are stored in it.
    ///
    /// The inputs are the ids, those of [`PagedBatch`], and, if tokens are chosen, those of [`Rows`].
    fn compile(
        &self,
        form: Form,
        pool: &PagedKeyValues,
        last: Option<&LastTokens>,
        blocks: usize,
        vocabulary: usize,
    ) -> Result<Infer<0, ()>>;
}

impl fmt::Debug for dyn Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl<M: LanguageModel + Send + Sync> Programs for Session<M> {
    fn sizes(&self) -> Sizes {
        self.model().sizes()
    }

    fn is_gpu(&self) -> bool {
        self.device().is_gpu()
    }

    fn declare(&self, pool: &PagedKeyValues, last: &[LastTokens]) -> Result<()> {
        let program = self.infer([], |_, []| {
            pool.declare();
            last.iter().for_each(LastTokens::declare);
        });
        program.map(|_: Infer<0, ()>| ())
    }

    fn copies(&self, pool: &PagedKeyValues) -> Result<Infer<2, ()>> {
        self.infer([i32("from", [COPIES]), i32("to", [COPIES])], |_, [from, to]| pool.copy_blocks(from, to))
    }

    fn compile(
        &self,
        form: Form,
        pool: &PagedKeyValues,
        last: Option<&LastTokens>,
        blocks: usize,
        vocabulary: usize,
    ) -> Result<Infer<0, ()>> {
        let Form { rows, time, head } = form;
        let mut inputs = vec![
            i32("ids", [rows, time]),
            i32("tables", [rows, blocks]),
            i32("starts", [rows]),
            i32("lengths", [rows]),
        ];
        if let Head::Choose { adjusts, .. } = head {
            inputs.push(f32("numbers", [rows, Sampling::NUMBERS]));
            inputs.push(u32("words", [rows, Sampling::WORDS]));
            if adjusts {
                inputs.push(i32("past", [rows, vocabulary]));
                inputs.push(f32("bias", [rows, vocabulary]));
            }
        }
        self.infer_over(inputs, |model, inputs| {
            let batch = PagedBatch { tables: inputs[1], starts: inputs[2], lengths: inputs[3] };
            let ids = last.map_or(inputs[0], |last| last.resolve(inputs[0]));
            let hidden = pool.extend(model, ids, batch);
            let [_, _, width] = hidden.dims();
            let tokens = hidden.reshape([rows * time, width]);
            let logits = |hidden: Tensor| model.logits(hidden).slice(1, 0..vocabulary);
            let of_last = || {
                // Clamp the index for a row without a text, which has length 0; its output is ignored.
                let in_row = (batch.lengths - batch.starts - 1).maximum(0);
                logits(match time {
                    1 => tokens,
                    _ => tokens.gather_rows(in_row + iota(DType::I32, [rows], 0) * time as i32),
                })
            };
            match head {
                Head::Nothing => Vec::new(),
                Head::Last => vec![of_last()],
                Head::Each => vec![logits(tokens)],
                Head::Choose { choices, .. } => {
                    let (past, bias) = (inputs.get(6).copied(), inputs.get(7).copied());
                    let rows = Rows { numbers: inputs[4], words: inputs[5], past, bias };
                    let chosen = choices.choose(of_last(), rows);
                    last.iter().for_each(|last| last.keep(chosen.token));
                    let logprobs = chosen.logprobs.map(|all| [all.token, all.top, all.ids]);
                    [chosen.token].into_iter().chain(logprobs.into_iter().flatten()).collect()
                }
            }
        })
    }
}
