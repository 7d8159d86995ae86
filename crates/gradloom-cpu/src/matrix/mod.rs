//! Products of small matrices in registers, and the packing that they require. Matrix products and attention
//! are built on them.

// Tiles are small arrays of vectors. Loops over indices with constant bounds unroll, which keeps tiles in
// registers.
#![allow(clippy::needless_range_loop)]

pub(super) mod blocks;
pub(super) mod few;
pub(super) mod pack;
pub(super) mod rounded;
pub(super) mod stored;
pub(super) mod tile;
