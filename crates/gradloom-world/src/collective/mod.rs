//! Collectives over a ring of data connections.
//!
//! In: host memory of all ranks. Out: sums and copies of it. Each rank receives from the previous one and
//! sends to the next one, at the same time. Invariants: the order of all additions and messages follows from
//! lengths and the number of ranks alone; memory use is a few pieces, whatever the lengths.

mod broadcast;
mod call;
mod gather;
mod link;
mod pieces;
mod reduce;
mod ring;
mod spans;

pub(crate) use broadcast::broadcast;
pub(crate) use call::{Call, Kind};
pub(crate) use gather::AllGather;
pub(crate) use link::Fault;
pub(crate) use reduce::{AllReduce, ReduceScatter};
pub(crate) use ring::{Ring, Unconnected, run};
