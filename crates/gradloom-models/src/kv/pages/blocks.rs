//! The blocks of a pool, each of which is free, used or cached.
//!
//! In: references to blocks that tables gain and lose, and full blocks for the prefix tree. Out: blocks to
//! write to. Invariant: a block's number of users is the number of tables that list it; a block without
//! users is either in the tree or free; `free + cached + used` is the capacity.

use super::PagesError;
use super::prefixes::Prefixes;

/// Index of a block in the device's pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub(super) u32);

impl BlockId {
    /// The block that pads tables. No sequence owns it, and its contents are never read.
    pub const PADDING: Self = Self(0);

    /// Returns the index of the block.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Numbers of blocks by state. Their sum is the capacity: all blocks of the pool except [`BlockId::PADDING`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Number of blocks that are unused.
    pub free: usize,
    /// Number of blocks that are referenced only by the prefix tree. All of them can be evicted.
    pub cached: usize,
    /// Number of blocks in the table of at least one sequence.
    pub used: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Blocks {
    /// Number of blocks in the pool including the padding block, from 2 to `i32::MAX`.
    total: usize,
    /// Number of tables that list each block. Blocks beyond the end of the vector have never been allocated
    /// and are free.
    pub(super) users: Vec<u32>,
    /// Free blocks that were allocated before.
    pub(super) free: Vec<BlockId>,
    /// Number of blocks with users.
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

    /// Allocates blocks for one user, evicting cached blocks if necessary.
    ///
    /// # Errors
    /// Returns an error without evicting any block if there are too few free and cached blocks.
    pub(super) fn allocate(&mut self, wanted: usize) -> Result<Vec<BlockId>, PagesError> {
        let Counts { free, cached, .. } = self.counts();
        if wanted > free + cached {
            return Err(PagesError::OutOfBlocks { wanted, free, cached });
        }
        Ok((0..wanted).map(|_| self.take()).collect())
    }

    /// Allocates one block. The caller has checked that one is available.
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

    /// Adds a user to a used or cached block.
    pub(super) fn share(&mut self, block: BlockId) {
        let users = &mut self.users[block.index()];
        if *users == 0 {
            self.prefixes.wake(block);
            self.used += 1;
        }
        *users += 1;
    }

    /// Removes a user from a block. The blocks of a text must be released in reverse order.
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

    /// Returns `true` if a block has a single user, which may overwrite the block's end because no cached
    /// text continues it.
    pub(super) fn writable(&self, block: BlockId) -> bool {
        self.users[block.index()] == 1 && self.prefixes.continuations(block) == 0
    }

    /// Inserts a full, used block into the tree as a child of `parent`. If the tree already contains a block
    /// with these tokens, moves the user's reference to that block instead. Returns the block in the tree.
    pub(super) fn file(&mut self, parent: BlockId, tokens: &[i32], block: BlockId) -> BlockId {
        let Some(known) = self.prefixes.child(parent, tokens) else {
            self.prefixes.insert(parent, tokens, block);
            return block;
        };
        self.share(known);
        self.release(block);
        known
    }

    /// Clears the tree. Cached blocks become free.
    pub(super) fn forget_prefixes(&mut self) {
        while let Some(block) = self.prefixes.evict() {
            self.free.push(block);
        }
        self.prefixes = Prefixes::new();
    }
}
