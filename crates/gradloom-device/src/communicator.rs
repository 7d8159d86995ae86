//! Communication between the processes of a world, which train one model together.
//!
//! In: host memory of one process, called a rank. Out: sums and copies over all ranks. Invariant: all ranks
//! get the same bits, or all of them get an error.

use gradloom_core::error::{Error, ErrorKind, Result};
use std::fmt;

/// Connection of one rank to all others.
///
/// The ranks must call the collective methods (all but `rank`, `size`, `session`, `fail` and `check`) in the
/// same order, with parts of the same lengths. A collective method waits for the other ranks. Once one has
/// failed, all later ones fail with the same error.
pub trait Communicator: fmt::Debug + Send + Sync {
    /// Returns the number of this process among those of the world, from 0.
    fn rank(&self) -> usize;
    /// Returns the number of processes.
    fn size(&self) -> usize;
    /// Returns a random number that all ranks of this world have, and no other world.
    fn session(&self) -> u64;
    /// Replaces each element of `parts` by its sum over all ranks. The order of the additions depends only on
    /// the lengths and the number of ranks. No rank returns before all have called this, even if there is no
    /// element.
    ///
    /// # Errors
    /// Returns [`ErrorKind::World`], naming the rank that failed. The
    /// contents of `parts` are then unspecified.
    fn all_reduce(&self, parts: &mut [&mut [f32]]) -> Result<()>;
    /// Sums each part over all ranks, and returns this rank's slice of each sum in `shards`: elements
    /// `rank * n .. (rank + 1) * n` of a part of `size * n` elements.
    ///
    /// # Errors
    /// Returns the same errors as [`Communicator::all_reduce`].
    fn reduce_scatter(&self, parts: &[&[f32]], shards: &mut [&mut [f32]]) -> Result<()>;
    /// Concatenates the shards of all ranks, in the order of the ranks: part `i` receives shard `i` of every
    /// rank.
    ///
    /// # Errors
    /// Returns the same errors as [`Communicator::all_reduce`].
    fn all_gather(&self, shards: &[&[f32]], parts: &mut [&mut [f32]]) -> Result<()>;
    /// Replaces `bytes` by those of rank `root`.
    ///
    /// # Errors
    /// Returns the same errors as [`Communicator::all_reduce`].
    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<()>;
    /// Ends the world because this rank cannot go on. All ranks get an error that names this one; waits a few
    /// seconds at most for the others to know.
    fn fail(&self, error: &Error);
    /// Checks that no rank is known to have failed, without waiting.
    ///
    /// # Errors
    /// Returns the error of the rank that failed first.
    fn check(&self) -> Result<()>;
}

/// World of a number of ranks that are not connected, for plans of what a rank would run.
#[derive(Clone, Copy, Debug)]
pub struct Planned {
    /// Number of ranks.
    pub ranks: usize,
}

impl Planned {
    fn unconnected<T>() -> Result<T> {
        Err(Error::new(ErrorKind::World, "the ranks of a planned world are not connected")
            .help("join a world, as with `World::from_env()`"))
    }
}

impl Communicator for Planned {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        self.ranks
    }

    fn session(&self) -> u64 {
        0
    }

    fn all_reduce(&self, _: &mut [&mut [f32]]) -> Result<()> {
        Self::unconnected()
    }

    fn reduce_scatter(&self, _: &[&[f32]], _: &mut [&mut [f32]]) -> Result<()> {
        Self::unconnected()
    }

    fn all_gather(&self, _: &[&[f32]], _: &mut [&mut [f32]]) -> Result<()> {
        Self::unconnected()
    }

    fn broadcast(&self, _: usize, _: &mut Vec<u8>) -> Result<()> {
        Self::unconnected()
    }

    fn fail(&self, _: &Error) {}

    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// World of ranks that all have the operands of this one. It shows what one rank computes without the others.
#[derive(Clone, Copy, Debug)]
pub struct Alike {
    /// Number of this rank.
    pub rank: usize,
    /// Number of ranks.
    pub ranks: usize,
}

impl Communicator for Alike {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.ranks
    }

    fn session(&self) -> u64 {
        0
    }

    fn all_reduce(&self, parts: &mut [&mut [f32]]) -> Result<()> {
        parts.iter_mut().flat_map(|part| part.iter_mut()).for_each(|x| *x *= self.ranks as f32);
        Ok(())
    }

    fn reduce_scatter(&self, parts: &[&[f32]], shards: &mut [&mut [f32]]) -> Result<()> {
        for (part, shard) in parts.iter().zip(shards) {
            let own = &part[self.rank * shard.len()..];
            shard.iter_mut().zip(own).for_each(|(sum, x)| *sum = x * self.ranks as f32);
        }
        Ok(())
    }

    fn all_gather(&self, shards: &[&[f32]], parts: &mut [&mut [f32]]) -> Result<()> {
        for (shard, part) in shards.iter().zip(parts) {
            part.chunks_mut(shard.len().max(1)).for_each(|of_rank| of_rank.copy_from_slice(shard));
        }
        Ok(())
    }

    fn broadcast(&self, _: usize, _: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn fail(&self, _: &Error) {}

    fn check(&self) -> Result<()> {
        Ok(())
    }
}
