//! Sequences of blocks: operations that begin, grow, fork, shrink and end them.
//!
//! In: tokens. Out: tables, and blocks to copy. Invariant: every operation preserves the invariants of the
//! parent module.

use super::blocks::Blocks;
use super::sequence::Sequence;
use super::{BlockCopy, BlockId, Counts, PagesError, SequenceId};
use std::collections::BTreeMap;

/// Bookkeeping of paged keys and values: the blocks of a pool, the sequences whose tables list them, and the
/// tree of prefixes that keeps full blocks for later sequences.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub struct Pages {
    pub(super) block_size: usize,
    pub(super) blocks: Blocks,
    pub(super) sequences: BTreeMap<SequenceId, Sequence>,
}

/// A new sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Id of the sequence.
    pub sequence: SequenceId,
    /// Number of tokens of the prompt found in the cache: whole blocks, but never the whole prompt.
    pub cached: usize,
}

impl Pages {
    /// Creates the bookkeeping for pools of `blocks` blocks of `block_size` tokens each.
    ///
    /// Block 0 pads tables ([`BlockId::PADDING`]), so the capacity is one block less. Host memory is
    /// allocated when blocks are first used.
    ///
    /// # Errors
    /// Returns an error if the block size is 0, if there are fewer than 2 blocks, or if an `i32` cannot index
    /// all positions.
    pub fn new(blocks: usize, block_size: usize) -> Result<Self, PagesError> {
        if block_size == 0 {
            return Err(PagesError::BlockSize);
        }
        if blocks < 2 {
            return Err(PagesError::NoCapacity { blocks });
        }
        numbered("a pool", blocks, block_size)?;
        Ok(Self { block_size, blocks: Blocks::new(blocks), sequences: BTreeMap::new() })
    }

    /// Begins a sequence with the longest cached prefix of the prompt.
    ///
    /// The prefix consists of whole blocks and excludes at least the last token, which must be computed to
    /// obtain logits. The caller computes the rest, in chunks of any length. Full blocks of the sequence are
    /// shared with other sequences from then on.
    pub fn begin(&mut self, prompt: &[i32]) -> Begun {
        let table: Vec<BlockId> = self.prefix(prompt).collect();
        table.iter().for_each(|&block| self.blocks.share(block));
        let cached = table.len() * self.block_size;
        let sequence = self.add(Sequence { tokens: prompt[..cached].to_vec(), table, room: 0, shares: true });
        Begun { sequence, cached }
    }

    /// Returns the number of tokens of a prompt that [`Pages::begin`] would find in the cache.
    pub fn cached(&self, prompt: &[i32]) -> usize {
        self.prefix(prompt).count() * self.block_size
    }

    /// Returns the blocks of the longest cached prefix of a prompt, in order.
    fn prefix<'a>(&'a self, prompt: &'a [i32]) -> impl Iterator<Item = BlockId> + 'a {
        let computable = &prompt[..prompt.len().saturating_sub(1)];
        computable.chunks_exact(self.block_size).scan(BlockId::PADDING, |last, tokens| {
            *last = self.blocks.prefixes.child(*last, tokens)?;
            Some(*last)
        })
    }

    /// Begins an empty sequence that neither takes blocks from the prefix tree nor adds any.
    ///
    /// Use it for results whose bits must not depend on other sequences, which may have computed a prefix in
    /// a batch of another shape, and for texts whose keys and values depend on more than their tokens, such
    /// as on an adapter.
    pub fn begin_private(&mut self) -> SequenceId {
        self.add(Sequence { tokens: Vec::new(), table: Vec::new(), room: 0, shares: false })
    }

    /// Ensures that space for at least `tokens` tokens after the committed ones is reserved. Space reserved
    /// earlier counts.
    ///
    /// If the sequence needs its own copy of a block that others read, the copy is returned and must be run
    /// before anything else is written to the pools. If the copy fails on the device, retry it, or drop the
    /// block by truncating the sequence, and those forked from it since, to the last multiple of the block
    /// size before its length.
    ///
    /// # Errors
    /// Returns an error if there are too few free and cached blocks ([`PagesError::OutOfBlocks`]), or the
    /// sequence is unknown.
    pub fn reserve(&mut self, sequence: SequenceId, tokens: usize) -> Result<Option<BlockCopy>, PagesError> {
        let this = known_mut(&mut self.sequences, sequence)?;
        if tokens <= this.room {
            return Ok(None);
        }
        let length = this.tokens.len();
        // The partial last block, if this sequence has not yet reserved its end.
        let partial = this.table.last().copied().filter(|_| this.room == 0 && length % self.block_size > 0);
        let shared = partial.filter(|&block| !self.blocks.writable(block));
        let needed = length.saturating_add(tokens).div_ceil(self.block_size) - this.table.len();
        let wanted = needed.saturating_add(usize::from(shared.is_some()));
        let mut fresh = self.blocks.allocate(wanted)?.into_iter();

        let mut copy = None;
        if let Some(from) = shared {
            let to = fresh.next().expect("one was wanted for the copy");
            this.table.pop();
            this.table.push(to);
            self.blocks.release(from);
            copy = Some(BlockCopy { from, to });
        } else if let Some(block) = partial {
            // Overwrite the end of the block, which may be in the tree because the text was longer before.
            self.blocks.prefixes.remove(block);
        }
        this.table.extend(fresh);
        this.room = this.table.len() * self.block_size - length;
        Ok(copy)
    }

    /// Appends tokens whose keys and values a successful step has written to the reserved space.
    /// [`Pages::begin`] can find the blocks that are now full.
    ///
    /// If the tree already contains a block with the same text, computed concurrently by another sequence,
    /// the table switches to that block and the sequence's own block is released. Both contain the same
    /// values up to the order of summation. Thus memory contains each text once, and every user of a block in
    /// the tree uses all blocks on the path to it, which is why all cached blocks can be evicted.
    ///
    /// # Errors
    /// Returns an error if the reserved space is too small, or the sequence is unknown.
    pub fn commit(&mut self, sequence: SequenceId, tokens: &[i32]) -> Result<(), PagesError> {
        let this = known_mut(&mut self.sequences, sequence)?;
        if tokens.len() > this.room {
            return Err(PagesError::NoRoom { sequence, tokens: tokens.len(), room: this.room });
        }
        let full = this.tokens.len() / self.block_size;
        this.tokens.extend_from_slice(tokens);
        this.room -= tokens.len();
        if this.shares {
            for (i, tokens) in this.tokens.chunks_exact(self.block_size).enumerate().skip(full) {
                let parent = i.checked_sub(1).map_or(BlockId::PADDING, |before| this.table[before]);
                this.table[i] = self.blocks.file(parent, tokens, this.table[i]);
            }
        }
        Ok(())
    }

    /// Truncates a sequence to its first `length` tokens, and releases the blocks after them and all reserved
    /// space. Use it for rejected tokens and after a failed step. Full blocks remain cached.
    ///
    /// # Errors
    /// Returns an error if the sequence has fewer than `length` tokens, or is unknown.
    pub fn truncate(&mut self, sequence: SequenceId, length: usize) -> Result<(), PagesError> {
        let this = known_mut(&mut self.sequences, sequence)?;
        if length > this.tokens.len() {
            return Err(PagesError::TooShort { sequence, length: this.tokens.len(), wanted: length });
        }
        this.tokens.truncate(length);
        this.room = 0;
        for block in this.table.drain(length.div_ceil(self.block_size)..).rev() {
            self.blocks.release(block);
        }
        Ok(())
    }

    /// Begins another sequence with the same tokens and the same blocks. Reserved space stays with the
    /// original sequence.
    ///
    /// # Errors
    /// Returns an error if the sequence is unknown.
    pub fn fork(&mut self, sequence: SequenceId) -> Result<SequenceId, PagesError> {
        let this = self.known(sequence)?;
        let blocks = this.tokens.len().div_ceil(self.block_size);
        let twin = Sequence { table: this.table[..blocks].to_vec(), room: 0, ..this.clone() };
        for &block in &twin.table {
            self.blocks.share(block);
        }
        Ok(self.add(twin))
    }

    /// Ends a sequence and releases its blocks and reserved space. If it shares blocks, full ones remain
    /// cached; other blocks without users become free.
    ///
    /// # Errors
    /// Returns an error if the sequence is unknown.
    pub fn end(&mut self, sequence: SequenceId) -> Result<(), PagesError> {
        self.truncate(sequence, 0)?;
        self.sequences.remove(&sequence);
        Ok(())
    }

    /// Clears the prefix tree, so that all cached blocks become free. Call it after the weights have changed,
    /// which invalidates the cached keys and values. Existing sequences become private.
    pub fn forget_prefixes(&mut self) {
        self.blocks.forget_prefixes();
        self.sequences.values_mut().for_each(|sequence| sequence.shares = false);
    }

    /// Returns the number of blocks for tokens: all blocks of the pool except [`BlockId::PADDING`].
    pub fn capacity(&self) -> usize {
        self.blocks.capacity()
    }

    /// Returns the numbers of free, cached and used blocks in O(1).
    pub fn counts(&self) -> Counts {
        self.blocks.counts()
    }

    /// Returns the committed tokens of a sequence.
    ///
    /// # Errors
    /// Returns an error if the sequence is unknown.
    pub fn tokens(&self, sequence: SequenceId) -> Result<&[i32], PagesError> {
        Ok(&self.known(sequence)?.tokens)
    }

    pub(super) fn known(&self, sequence: SequenceId) -> Result<&Sequence, PagesError> {
        self.sequences.get(&sequence).ok_or(PagesError::Unknown { sequence })
    }

    fn add(&mut self, sequence: Sequence) -> SequenceId {
        let id = SequenceId::fresh();
        self.sequences.insert(id, sequence);
        id
    }
}

/// Returns a sequence by id, borrowing it separately from the blocks.
fn known_mut(
    sequences: &mut BTreeMap<SequenceId, Sequence>,
    sequence: SequenceId,
) -> Result<&mut Sequence, PagesError> {
    sequences.get_mut(&sequence).ok_or(PagesError::Unknown { sequence })
}

/// Checks that an `i32` can index the elements of a matrix.
pub(super) fn numbered(what: &'static str, rows: usize, columns: usize) -> Result<(), PagesError> {
    let most = i32::MAX as usize;
    match rows.checked_mul(columns) {
        Some(elements) if elements <= most && rows.max(columns) <= most => Ok(()),
        _ => Err(PagesError::TooLarge { what, rows, columns }),
    }
}
