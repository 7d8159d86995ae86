//! Ragged batches: sequences of different lengths in a batch of fixed shape.

use super::memory::numbered;
use super::{BlockId, Pages, PagesError, SequenceId};
use std::ops::Range;

/// Shape of a batch that a program is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchShape {
    /// Number of rows; each holds one sequence.
    pub rows: usize,
    /// Maximum number of new tokens in a row.
    pub time: usize,
    /// Maximum number of blocks in a row's sequence.
    pub blocks: usize,
}

/// Inputs of a step over a batch in addition to the new tokens, in the form that
/// [`PagedBatch`](crate::kv::PagedBatch) takes. All are row-major i32.
///
/// Tokens after a row's new ones, and rows without a sequence, which have length 0, are padding. Padding is
/// not written to the pools, and the step's output for it is meaningless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Blocks of each sequence, padded with [`BlockId::PADDING`], `[rows, blocks]`.
    pub tables: Vec<i32>,
    /// Position of the first new token of each sequence, which is the number of tokens before it, `[rows]`.
    pub starts: Vec<i32>,
    /// Number of tokens of each sequence, including the new ones, `[rows]`.
    pub lengths: Vec<i32>,
}

impl Pages {
    /// Returns the inputs of a step.
    ///
    /// For each row, `chosen` has the range of tokens to compute, relative to the end of the committed ones,
    /// or `None` for an empty row. Space must be reserved up to the end of the range. The range begins above
    /// 0 if the step is queued after another one, whose tokens are not committed yet.
    ///
    /// # Errors
    /// Returns an error if a sequence is unknown, occurs twice or lacks space for its new tokens, if the
    /// shape is too small, or if an `i32` cannot index its elements.
    pub fn batch(
        &self,
        chosen: &[Option<(SequenceId, Range<usize>)>],
        shape: BatchShape,
    ) -> Result<Batch, PagesError> {
        let BatchShape { rows, time, blocks } = shape;
        numbered("a batch", rows, time.max(blocks))?;
        at_most("rows", chosen.len(), rows)?;
        let mut batch = Batch {
            tables: vec![BlockId::PADDING.0 as i32; rows * blocks],
            starts: vec![0; rows],
            lengths: vec![0; rows],
        };
        for (row, here) in chosen.iter().enumerate() {
            let Some((id, new)) = here.clone() else { continue };
            let tokens = new.end;
            let sequence = self.known(id)?;
            if chosen[..row].iter().flatten().any(|(other, _)| *other == id) {
                return Err(PagesError::Twice { sequence: id });
            }
            if tokens > sequence.room {
                return Err(PagesError::NoRoom { sequence: id, tokens, room: sequence.room });
            }
            let start = sequence.tokens.len() + new.start;
            let length = sequence.tokens.len() + tokens;
            let needed = length.div_ceil(self.block_size);
            at_most("tokens in a row", new.len(), time)?;
            at_most("blocks in a row", needed, blocks)?;
            (batch.starts[row], batch.lengths[row]) = (start as i32, length as i32);
            for (place, block) in batch.tables[row * blocks..].iter_mut().zip(&sequence.table[..needed]) {
                *place = block.0 as i32;
            }
        }
        Ok(batch)
    }
}

fn at_most(axis: &'static str, needed: usize, given: usize) -> Result<(), PagesError> {
    if needed > given { Err(PagesError::Shape { axis, needed, given }) } else { Ok(()) }
}
