//! Sequences over the blocks of a pool: they begin, grow, fork, shrink and end.
//!
//! In: tokens. Out: tables, and blocks to copy. Always holds: the invariants of the parent module.

use super::blocks::Blocks;
use super::sequence::Sequence;
use super::{BlockCopy, BlockId, Counts, PagesError, SequenceId};
use std::collections::{BTreeMap, HashMap};

/// The memory of keys and values: the blocks of a pool, the sequences whose tables list them, and the tree of
/// prefixes that keeps full blocks for later sequences.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq))]
pub struct Pages {
    pub(super) block_size: usize,
    pub(super) blocks: Blocks,
    pub(super) sequences: BTreeMap<SequenceId, Sequence>,
}

/// A sequence that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Its id.
    pub sequence: SequenceId,
    /// Number of tokens of the prompt that it has already: whole blocks, and never all of the prompt.
    pub cached: usize,
}

impl Pages {
    /// Makes memory for pools of `blocks` blocks with `block_size` tokens each. Block 0 fills up tables
    /// ([`BlockId::PADDING`]), so the capacity is one block less. Memory of the host is allocated as blocks
    /// are first used.
    ///
    /// # Errors
    /// When the block size is 0, there are fewer than 2 blocks, or an i32 cannot number all positions.
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

    /// Begins a sequence with the longest part of the prompt whose blocks are known: whole blocks, and never
    /// the whole prompt, because logits come from computing at least its last token. The caller computes the
    /// rest, in chunks of any length. Full blocks of the sequence are shared with others from then on.
    pub fn begin(&mut self, prompt: &[i32]) -> Begun {
        let table: Vec<BlockId> = self.prefix(prompt).collect();
        table.iter().for_each(|&block| self.blocks.share(block));
        let cached = table.len() * self.block_size;
        let sequence = self.add(Sequence { tokens: prompt[..cached].to_vec(), table, room: 0, shares: true });
        Begun { sequence, cached }
    }

    /// Returns the number of tokens of a prompt that [`Pages::begin`] would find.
    pub fn cached(&self, prompt: &[i32]) -> usize {
        self.prefix(prompt).count() * self.block_size
    }

    /// Returns the known blocks of a prompt, in order.
    fn prefix<'a>(&'a self, prompt: &'a [i32]) -> impl Iterator<Item = BlockId> + 'a {
        let computable = &prompt[..prompt.len().saturating_sub(1)];
        computable.chunks_exact(self.block_size).scan(BlockId::PADDING, |last, tokens| {
            *last = self.blocks.prefixes.child(*last, tokens)?;
            Some(*last)
        })
    }

    /// Begins an empty sequence that neither takes blocks from the tree of prefixes nor puts them there. For
    /// results whose bits must not depend on other sequences, which may have computed a prefix in another
    /// shape of batch, and for texts whose meaning is not in their tokens alone, as with another adapter.
    pub fn begin_private(&mut self) -> SequenceId {
        self.add(Sequence { tokens: Vec::new(), table: Vec::new(), room: 0, shares: false })
    }

    /// Makes room for at least `tokens` tokens after those committed, whatever room there was before.
    ///
    /// If the sequence must first get a block of its own, in place of one that others read, this gives the
    /// copy: it must be run before anything else is written to the pools. If it fails on the device, try it
    /// again, or truncate the sequence, and those forked from it since, to the last multiple of the block
    /// size before their length, which drops the block.
    ///
    /// # Errors
    /// When there are too few blocks, even with all that can be evicted ([`PagesError::OutOfBlocks`]), or the
    /// sequence is unknown.
    pub fn reserve(&mut self, sequence: SequenceId, tokens: usize) -> Result<Option<BlockCopy>, PagesError> {
        let this = known_mut(&mut self.sequences, sequence)?;
        if tokens <= this.room {
            return Ok(None);
        }
        let length = this.tokens.len();
        // The block with the last token, if it is not full and this sequence may not write to it yet.
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
            // Tokens behind this sequence's length, which may stand in the tree, are overwritten.
            self.blocks.prefixes.remove(block);
        }
        this.table.extend(fresh);
        this.room = this.table.len() * self.block_size - length;
        Ok(copy)
    }

    /// Notes the tokens whose keys and values were written behind the sequence's others, after the step that
    /// did so has succeeded. Blocks that are full now can be found by [`Pages::begin`].
    ///
    /// If the tree already has a block with the same text, which another sequence computed at the same
    /// time, the table switches to that block and the sequence's own is given back. Both hold the same
    /// values up to the order of sums. So memory holds each text once, and whatever uses a block of the
    /// tree uses the blocks on the path to it, which is why everything cached can be evicted.
    ///
    /// # Errors
    /// When there is no room for so many, or the sequence is unknown.
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

    /// Cuts a sequence to its first `length` tokens, and gives back the blocks behind them and all room: for
    /// tokens that turned out wrong, and for a step that failed. Full blocks stay cached.
    ///
    /// # Errors
    /// When the sequence is shorter, or unknown.
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

    /// Begins a second sequence with the same tokens, in the same blocks. Room stays with the first.
    ///
    /// # Errors
    /// When the sequence is unknown.
    pub fn fork(&mut self, sequence: SequenceId) -> Result<SequenceId, PagesError> {
        let this = self.known(sequence)?;
        let blocks = this.tokens.len().div_ceil(self.block_size);
        let twin = Sequence { table: this.table[..blocks].to_vec(), room: 0, ..this.clone() };
        for &block in &twin.table {
            self.blocks.share(block);
        }
        Ok(self.add(twin))
    }

    /// Ends a sequence, with or without room left. Its full blocks stay cached, if it shares; the others that
    /// no other sequence uses become free.
    ///
    /// # Errors
    /// When the sequence is unknown.
    pub fn end(&mut self, sequence: SequenceId) -> Result<(), PagesError> {
        self.truncate(sequence, 0)?;
        self.sequences.remove(&sequence);
        Ok(())
    }

    /// Empties the tree of prefixes, after which all cached blocks are free: for new weights, which make old
    /// keys and values wrong. Sequences that live are private from then on.
    pub fn forget_prefixes(&mut self) {
        self.blocks.forget_prefixes();
        self.sequences.values_mut().for_each(|sequence| sequence.shares = false);
    }

    /// Tokens that a block holds.
    pub fn block_size(&self) -> usize {
        self.block_size
    }

    /// Blocks for tokens: all of the pool but [`BlockId::PADDING`].
    pub fn capacity(&self) -> usize {
        self.blocks.capacity()
    }

    /// Returns the numbers of blocks that are free, cached and used. O(1).
    pub fn counts(&self) -> Counts {
        self.blocks.counts()
    }

    /// Returns the sequences that have begun and not ended, the oldest first.
    pub fn sequences(&self) -> impl Iterator<Item = SequenceId> {
        self.sequences.keys().copied()
    }

    /// Returns the committed tokens of a sequence.
    ///
    /// # Errors
    /// When the sequence is unknown.
    pub fn tokens(&self, sequence: SequenceId) -> Result<&[i32], PagesError> {
        Ok(&self.known(sequence)?.tokens)
    }

    /// Returns the number of tokens that a sequence has room for.
    ///
    /// # Errors
    /// When the sequence is unknown.
    pub fn room(&self, sequence: SequenceId) -> Result<usize, PagesError> {
        Ok(self.known(sequence)?.room)
    }

    /// Returns the blocks of a sequence: position p is row `p % block_size` of block
    /// `table[p / block_size]`.
    ///
    /// # Errors
    /// When the sequence is unknown.
    pub fn table(&self, sequence: SequenceId) -> Result<&[BlockId], PagesError> {
        Ok(&self.known(sequence)?.table)
    }

    /// Returns the share of the positions in used blocks that hold no token, from 0 to 1; 0 without a used
    /// block. A position counts once, however many sequences share it. O(sum of the tables' lengths).
    pub fn fragmentation(&self) -> f64 {
        let mut filled = HashMap::new();
        for sequence in self.sequences.values() {
            for (i, block) in sequence.table.iter().enumerate() {
                let tokens = sequence.tokens.len().saturating_sub(i * self.block_size).min(self.block_size);
                let most = filled.entry(block).or_insert(0);
                *most = tokens.max(*most);
            }
        }
        let positions = (filled.len() * self.block_size).max(1);
        let unfilled: usize = filled.values().map(|tokens| self.block_size - tokens).sum();
        unfilled as f64 / positions as f64
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

/// Returns the sequence of an id, borrowed apart from the blocks.
fn known_mut(
    sequences: &mut BTreeMap<SequenceId, Sequence>,
    sequence: SequenceId,
) -> Result<&mut Sequence, PagesError> {
    sequences.get_mut(&sequence).ok_or(PagesError::Unknown { sequence })
}

/// Refuses sizes whose elements an i32 cannot number.
pub(super) fn numbered(what: &'static str, rows: usize, columns: usize) -> Result<(), PagesError> {
    let most = i32::MAX as usize;
    match rows.checked_mul(columns) {
        Some(elements) if elements <= most && rows.max(columns) <= most => Ok(()),
        _ => Err(PagesError::TooLarge { what, rows, columns }),
    }
}
