//! Connects the processes that train one model together.
//!
//! In: the environment that torchrun, Slurm, Open MPI or Kubernetes' training operator gives to each process.
//! Out: a [`World`], whose collectives sum and copy memory over all processes, called ranks. Invariant: a
//! rank that fails, hangs or calls something else gives all others one error that names it, in bounded time.
//!
//! The ranks meet at rank 0 ([`Rendezvous`]). Each keeps a control connection to rank 0, over which
//! heartbeats and verdicts travel, and a data connection to the next rank in a ring, over which collectives
//! run.
//!
//! There is neither encryption nor authentication: the network between the ranks must be trusted, as for
//! PyTorch's and MPI's own connections.
//!
//! ```
//! use gradloom_device::communicator::Communicator;
//! use gradloom_world::World;
//!
//! // Without a launcher, the world consists of this process alone.
//! let world = World::from_env()?;
//! let mut gradient = [world.rank() as f32, 1.0];
//! world.all_reduce(&mut [&mut gradient])?;
//! assert_eq!(gradient[1], world.size() as f32);
//! # Ok::<(), gradloom_core::error::Error>(())
//! ```

mod blame;
mod collective;
mod control;
mod env;
mod membership;
mod net;
mod rendezvous;
mod slurm;
mod torch_store;
mod verdict;
mod wire;
mod world;

pub use membership::{Membership, Rendezvous, WorldOptions};
pub use world::World;
