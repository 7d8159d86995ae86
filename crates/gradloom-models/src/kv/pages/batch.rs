//! Ragged batches: sequences of any lengths in rows of one shape.

use super::memory::numbered;
use super::{BlockId, Pages, PagesError, SequenceId};
use std::ops::Range;

/// The shape that a program was compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchShape {
    /// Sequences.
    pub rows: usize,
    /// New tokens of each sequence, at most.
    pub time: usize,
    /// Blocks of each sequence, at most.
    pub blocks: usize,
}

/// Inputs of a step over a batch besides the new tokens, as [`PagedBatch`](crate::kv::PagedBatch) takes
/// them. All are row-major i32.
///
/// Tokens in a row beyond its new ones, and all of a row without a sequence, which has length 0, write
/// nothing. The step's output for them is to be ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// `[rows, blocks]`: the blocks of each sequence, filled up with [`BlockId::PADDING`].
    pub tables: Vec<i32>,
    /// `[rows]`: the position of the first new token, which is the number of tokens before it.
    pub starts: Vec<i32>,
    /// `[rows]`: number of tokens of the sequence, including the new ones.
    pub lengths: Vec<i32>,
}

impl Pages {
    /// Lays out a step that computes, for each of `chosen`, a number of new tokens for which there is room.
    ///
    /// # Errors
    /// When a sequence is unknown, there twice or without room for its new tokens, the shape is too small
    /// for them, or an i32 cannot number its elements.
    pub fn batch(&self, chosen: &[(SequenceId, usize)], shape: BatchShape) -> Result<Batch, PagesError> {
        let rows: Vec<_> = chosen.iter().map(|&(id, tokens)| Some((id, 0..tokens))).collect();
        self.batch_ahead(&rows, shape)
    }

    /// Lays out a step that is queued behind another one, whose tokens are not committed yet. `chosen` has,
    /// for each row, the range of tokens to compute, counted from the end of the committed ones; a row may
    /// be empty. There must be room for those before them, too.
    ///
    /// # Errors
    /// As [`Pages::batch`].
    pub fn batch_ahead(
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
