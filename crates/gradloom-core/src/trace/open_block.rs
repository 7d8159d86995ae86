//! The guard of a block under construction, which removes the block if a panic unwinds before its results are
//! known.
//!
//! In: the open trace, before a block begins. Out: the block's frame, when it is closed. Invariant: if a
//! panic ended a block, the trace is as it was before the block began. The block's ops and values remain in
//! the graph's arenas, but no list contains them, and they belong to no block under construction. The use of
//! a tensor that was carried out of the block is therefore an error, and never refers to another value.
//! Outputs and updates need no guard, as blocks cannot have them.

use super::scope::{Frame, Scope, with_scope_of};
use crate::error::Error;
use crate::ir::{BlockId, ValueId};

/// Lengths of the lists that a block can add to while it is open.
#[derive(Debug)]
struct Listed {
    block: BlockId,
    params: usize,
    ops: usize,
    captured: usize,
    drawn: usize,
}

/// The guard of an open block. Dropping the guard removes the block.
#[derive(Debug)]
pub(super) struct OpenBlock {
    generation: u32,
    /// Lengths of the lists of the entry block, to which leaves are added, and of the enclosing blocks, to
    /// which parameters are added.
    listed: Vec<Listed>,
    values: usize,
    sites: u32,
    error: Option<Error>,
    is_closed: bool,
}

impl OpenBlock {
    /// Records the state of the trace before the block is added.
    pub(super) fn before(scope: &Scope) -> Self {
        let listed = |block: BlockId, [captured, drawn]: [usize; 2]| {
            let lists = &scope.graph.blocks[block];
            Listed { block, params: lists.params.len(), ops: lists.ops.len(), captured, drawn }
        };
        let entry = listed(scope.graph.entry, [0; 2]);
        let outer = |frame: &Frame| listed(frame.block, [frame.captured.len(), frame.drawn.len()]);
        let outer = scope.frames.iter().map(outer);
        Self {
            generation: scope.generation(),
            listed: std::iter::once(entry).chain(outer).collect(),
            values: scope.graph.values.len(),
            sites: scope.sites,
            error: scope.error.clone(),
            is_closed: false,
        }
    }

    /// Ends the block with these results and returns its frame.
    ///
    /// # Panics
    /// Panics if a block or trace that was opened later is still open: its closure has not ended.
    pub(super) fn close(mut self, scope: &mut Scope, results: Vec<ValueId>) -> Frame {
        let depth = self.listed.len();
        assert!(
            scope.generation() == self.generation && scope.frames.len() == depth,
            "a trace that was begun inside `checkpoint` or `scan` has not ended"
        );
        let frame = scope.frames.pop().expect("just looked");
        scope.graph.blocks[frame.block].results = results;
        scope.graph.cursor = scope.innermost();
        self.is_closed = true;
        frame
    }

    fn take_back(&self, scope: &mut Scope) {
        scope.frames.truncate(self.listed.len() - 1);
        scope.graph.cursor = scope.innermost();
        for (frame, outer) in scope.frames.iter_mut().zip(&self.listed[1..]) {
            frame.captured.truncate(outer.captured);
            frame.drawn.truncate(outer.drawn);
        }
        for Listed { block, params, ops, .. } in &self.listed {
            let lists = &mut scope.graph.blocks[*block];
            lists.params.truncate(*params);
            lists.ops.truncate(*ops);
        }
        // Forget leaves whose first use was in the block: they are no longer in the entry block.
        scope.forget_leaves_from(self.values);
        scope.sites = self.sites;
        scope.error.clone_from(&self.error);
    }
}

impl Drop for OpenBlock {
    fn drop(&mut self) {
        if !self.is_closed {
            // If the trace itself has ended, there is nothing to remove.
            with_scope_of(self.generation, |scope| self.take_back(scope));
        }
    }
}
