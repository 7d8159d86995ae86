//! Tests of paged memory: bugs of other implementations, a naive model of eviction, and a simulated device.

mod behaviour;
mod device;
mod eviction;
mod mistakes;

use super::*;
use gradloom_core::philox::philox4x32;

/// A counter-based random generator, which makes failures reproducible.
struct Random(u32, u32);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.1 += 1;
        philox4x32([self.1, 0, 0, 0], [self.0, 0])[0] as usize % n
    }

    fn tokens(&mut self, most: usize) -> Vec<i32> {
        (0..self.below(most + 1)).map(|_| self.below(2) as i32).collect()
    }
}

impl Pages {
    fn block_size(&self) -> usize {
        self.block_size
    }

    /// Returns the sequences that have not ended, oldest first.
    fn sequences(&self) -> impl Iterator<Item = SequenceId> {
        self.sequences.keys().copied()
    }

    /// Returns the number of tokens that the reserved space of a sequence holds.
    fn room(&self, sequence: SequenceId) -> Result<usize, PagesError> {
        Ok(self.known(sequence)?.room)
    }

    /// Returns the blocks of a sequence.
    fn table(&self, sequence: SequenceId) -> Result<&[BlockId], PagesError> {
        Ok(&self.known(sequence)?.table)
    }

    /// Returns the inputs of a step that computes a number of new tokens of each sequence.
    fn batch_of(&self, chosen: &[(SequenceId, usize)], shape: BatchShape) -> Result<Batch, PagesError> {
        let rows: Vec<_> = chosen.iter().map(|&(id, tokens)| Some((id, 0..tokens))).collect();
        self.batch(&rows, shape)
    }
}

fn pages(capacity: usize, block_size: usize) -> Pages {
    Pages::new(capacity + 1, block_size).unwrap()
}

/// Begins a sequence and computes its whole prompt. The sequence has reserved space to the end of its last
/// block.
fn filled(pages: &mut Pages, prompt: &[i32]) -> Result<SequenceId, PagesError> {
    let Begun { sequence, cached } = pages.begin(prompt);
    if let Err(error) = append(pages, sequence, &prompt[cached..]) {
        pages.end(sequence).unwrap();
        return Err(error);
    }
    Ok(sequence)
}

fn append(pages: &mut Pages, sequence: SequenceId, tokens: &[i32]) -> Result<Option<BlockCopy>, PagesError> {
    let copy = pages.reserve(sequence, tokens.len())?;
    pages.commit(sequence, tokens).unwrap();
    pages.check();
    Ok(copy)
}

fn counts(free: usize, cached: usize, used: usize) -> Counts {
    Counts { free, cached, used }
}
