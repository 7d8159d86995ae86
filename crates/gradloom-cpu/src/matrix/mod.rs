//! Products of small matrices in registers, and the packing that they need. Matrix products and attention are
//! built on them.

// Tiles are small arrays of vectors; their loops over indices with constant bounds are what unrolls into
// registers.
#![allow(clippy::needless_range_loop)]

pub(super) mod blocks;
pub(super) mod few;
pub(super) mod pack;
pub(super) mod stored;
pub(super) mod tile;
