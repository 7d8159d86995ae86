//! Ragged batches: sequences of any lengths in rows of one shape.

use super::memory::numbered;
use super::{BlockId, Pages, PagesError, SequenceId};

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

/// What a step over a batch is given beside the new tokens. All are row-major i32.
///
/// A place in a row that has fewer new tokens, and a row without a sequence, writes to
/// [`BlockId::SCRATCH`]. A row without a sequence has length 0, so that its queries see no key. The outputs
/// of both are to be ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// `[rows, blocks]`: the blocks of each sequence, filled up with [`BlockId::SCRATCH`].
    pub tables: Vec<i32>,
    /// `[rows]`: the position of the first new token, which is how many tokens the sequence has; attention's
    /// `query_offset`.
    pub starts: Vec<i32>,
    /// `[rows]`: how many tokens the sequence has with the new ones; attention's `key_length`.
    pub lengths: Vec<i32>,
    /// `[rows, time]`: where the keys and values of each new token are written, as
    /// `block * block_size + row in the block`.
    pub slots: Vec<i32>,
}

impl Pages {
    /// Lays out a step that computes, for each of `chosen`, a number of new tokens for which there is room.
    ///
    /// # Errors
    /// When a sequence is unknown, there twice or without room for its new tokens, the shape is too small
    /// for them, or an i32 cannot number its elements.
    pub fn batch(&self, chosen: &[(SequenceId, usize)], shape: BatchShape) -> Result<Batch, PagesError> {
        let BatchShape { rows, time, blocks } = shape;
        numbered("a batch", rows, time.max(blocks))?;
        at_most("rows", chosen.len(), rows)?;
        let unused: Vec<i32> = (0..time).map(|t| self.slot(BlockId::SCRATCH, t)).collect();
        let mut batch = Batch {
            tables: vec![BlockId::SCRATCH.0 as i32; rows * blocks],
            starts: vec![0; rows],
            lengths: vec![0; rows],
            slots: unused.repeat(rows),
        };
        for (row, &(id, tokens)) in chosen.iter().enumerate() {
            let sequence = self.known(id)?;
            if chosen[..row].iter().any(|&(other, _)| other == id) {
                return Err(PagesError::Twice { sequence: id });
            }
            if tokens > sequence.room {
                return Err(PagesError::NoRoom { sequence: id, tokens, room: sequence.room });
            }
            let start = sequence.tokens.len();
            let length = start + tokens;
            let needed = length.div_ceil(self.block_size);
            at_most("tokens in a row", tokens, time)?;
            at_most("blocks in a row", needed, blocks)?;
            (batch.starts[row], batch.lengths[row]) = (start as i32, length as i32);
            for (place, block) in batch.tables[row * blocks..].iter_mut().zip(&sequence.table[..needed]) {
                *place = block.0 as i32;
            }
            for (place, position) in batch.slots[row * time..].iter_mut().zip(start..length) {
                *place = self.slot(sequence.table[position / self.block_size], position);
            }
        }
        Ok(batch)
    }

    /// Where a position is that stands in this block.
    fn slot(&self, block: BlockId, position: usize) -> i32 {
        (block.index() * self.block_size + position % self.block_size) as i32
    }
}

fn at_most(axis: &'static str, needed: usize, given: usize) -> Result<(), PagesError> {
    if needed > given { Err(PagesError::Shape { axis, needed, given }) } else { Ok(()) }
}
