//! The blocks of a pool, each free, used or cached.
//!
//! In: blocks that tables list and drop, and full blocks for the tree of prefixes. Out: blocks to write to.
//! Always holds: a block has as many users as tables list it; one without users is in the tree or free;
//! `free + cached + used` is the capacity.

use super::PagesError;
use super::prefixes::Prefixes;

/// Number of a block in the pools of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub(super) u32);

impl BlockId {
    /// The block that pads tables. No sequence owns it, and its contents are never seen.
    pub const PADDING: Self = Self(0);

    /// Returns the number of the block.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Blocks by state. Their sum is the capacity: all blocks of the pool but [`BlockId::PADDING`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Blocks that hold nothing.
    pub free: usize,
    /// Blocks that only the tree of prefixes holds. All of them can be evicted.
    pub cached: usize,
    /// Blocks in the table of at least one sequence.
    pub used: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Blocks {
    /// Number of blocks of the pool, with the scratch block. At least 2, at most the greatest i32.
    total: usize,
    /// Number of tables that list each block, for blocks that were ever taken; the blocks behind are free.
    pub(super) users: Vec<u32>,
    /// Blocks that were taken and given back.
    pub(super) free: Vec<BlockId>,
    /// Blocks with users.
    used: usize,
    pub(super) prefixes: Prefixes,
}

impl Blocks {
    pub(super) fn new(total: usize) -> Self {
        Self { total, users: vec![0], free: Vec::new(), used: 0, prefixes: Prefixes::new() }
    }

    pub(super) fn capacity(&self) -> usize {
        self.total - 1
    }

    pub(super) fn counts(&self) -> Counts {
        let free = self.free.len() + self.total - self.users.len();
        Counts { free, cached: self.prefixes.idle(), used: self.used }
    }

    /// Takes blocks for one user, and evicts as many as are missing.
    ///
    /// # Errors
    /// When there are too few, even with all that can be evicted; none is evicted then.
    pub(super) fn allocate(&mut self, wanted: usize) -> Result<Vec<BlockId>, PagesError> {
        let Counts { free, cached, .. } = self.counts();
        if wanted > free + cached {
            return Err(PagesError::OutOfBlocks { wanted, free, cached });
        }
        Ok((0..wanted).map(|_| self.take()).collect())
    }

    /// Takes one of the blocks that were counted.
    fn take(&mut self) -> BlockId {
        let block = match self.free.pop() {
            Some(block) => block,
            None if self.users.len() < self.total => {
                self.users.push(0);
                BlockId(self.users.len() as u32 - 1)
            }
            None => self.prefixes.evict().expect("no more are taken than were counted"),
        };
        self.users[block.index()] = 1;
        self.used += 1;
        block
    }

    /// Notes that one more table lists a used or cached block.
    pub(super) fn share(&mut self, block: BlockId) {
        let users = &mut self.users[block.index()];
        if *users == 0 {
            self.prefixes.wake(block);
            self.used += 1;
        }
        *users += 1;
    }

    /// Notes that one table less lists a block. To release a text, its last block comes first.
    pub(super) fn release(&mut self, block: BlockId) {
        let users = &mut self.users[block.index()];
        *users -= 1;
        if *users == 0 {
            self.used -= 1;
            if !self.prefixes.rest(block) {
                self.free.push(block);
            }
        }
    }

    /// Returns whether the only user of a block may overwrite its end: no cached text goes through it.
    pub(super) fn writable(&self, block: BlockId) -> bool {
        self.users[block.index()] == 1 && self.prefixes.continuations(block) == 0
    }

    /// Puts a full, used block into the tree behind `parent`, and returns the block that is there now:
    /// another one, if the tree already had these tokens; the user's reference has moved to it.
    pub(super) fn file(&mut self, parent: BlockId, tokens: &[i32], block: BlockId) -> BlockId {
        let Some(known) = self.prefixes.child(parent, tokens) else {
            self.prefixes.insert(parent, tokens, block);
            return block;
        };
        self.share(known);
        self.release(block);
        known
    }

    /// Empties the tree. Cached blocks become free.
    pub(super) fn forget_prefixes(&mut self) {
        while let Some(block) = self.prefixes.evict() {
            self.free.push(block);
        }
        self.prefixes = Prefixes::new();
    }
}
