//! The place of a process in its world.
//!
//! In: numbers that a launcher or a program chose. Out: what [`World::join`](crate::World::join) needs.
//! Invariant: `rank < size`, which `join` checks.

use crate::env;
use crate::verdict::Verdict;
use gradloom_core::error::Result;
use std::time::Duration;

/// The place of this process in its world, and the way to the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Number of this process, from 0.
    pub rank: usize,
    /// Number of processes.
    pub size: usize,
    /// Number of this process among those of its host, from 0.
    pub local_rank: usize,
    /// Meeting point of the ranks.
    pub rendezvous: Rendezvous,
    /// Name of the run. Rank 0 turns away ranks of other runs.
    pub token: String,
    /// Timeouts.
    pub options: WorldOptions,
}

/// The meeting point of the ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rendezvous {
    /// None, as the world has one rank.
    Alone,
    /// A port at which rank 0 listens.
    Direct {
        /// Name or address of rank 0's host.
        address: String,
        /// TCP port.
        port: u16,
    },
    /// A store of torchrun's agent, in which rank 0 leaves its address.
    TorchStore {
        /// Name or address of the store's host.
        address: String,
        /// TCP port of the store.
        port: u16,
        /// Key of rank 0's address.
        key: String,
    },
}

impl Rendezvous {
    /// Returns the host's name or address.
    pub(crate) fn address(&self) -> &str {
        match self {
            Self::Alone => "localhost",
            Self::Direct { address, .. } | Self::TorchStore { address, .. } => address,
        }
    }
}

/// Timeouts, which should be the same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorldOptions {
    /// Time in which all ranks must have joined.
    pub join_timeout: Duration,
    /// Time without a heartbeat after which a rank is given up.
    pub heartbeat_timeout: Duration,
    /// Time for which ranks may wait in a collective while no rank enters one or receives data.
    pub stall_timeout: Duration,
    /// Time for which a rank with a broken data connection waits for rank 0 to tell the reason.
    pub verdict_timeout: Duration,
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self {
            join_timeout: Duration::from_secs(300),
            heartbeat_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(600),
            verdict_timeout: Duration::from_secs(5),
        }
    }
}

impl WorldOptions {
    /// Returns the time between heartbeats: one second, or less if a timeout is short.
    pub(crate) fn tick(&self) -> Duration {
        let shortest = self.heartbeat_timeout.min(self.stall_timeout) / 4;
        shortest.clamp(Duration::from_millis(1), Duration::from_secs(1))
    }

    /// Returns the timeouts, cut to what can be added to a point in time.
    pub(crate) fn bounded(&self) -> Self {
        let bounded = |timeout: Duration| timeout.min(Duration::from_secs(1_000_000_000));
        Self {
            join_timeout: bounded(self.join_timeout),
            heartbeat_timeout: bounded(self.heartbeat_timeout),
            stall_timeout: bounded(self.stall_timeout),
            verdict_timeout: bounded(self.verdict_timeout),
        }
    }
}

impl Membership {
    /// Returns the membership of a world of one rank.
    pub fn alone() -> Self {
        Self::direct(0, 1, "", 0).at(Rendezvous::Alone)
    }

    /// Returns the membership of a rank that meets the others at a port of rank 0's host.
    pub fn direct(rank: usize, size: usize, address: impl Into<String>, port: u16) -> Self {
        Self {
            rank,
            size,
            local_rank: rank,
            rendezvous: Rendezvous::Direct { address: address.into(), port },
            token: String::new(),
            options: WorldOptions::default(),
        }
    }

    /// Reads the environment that a launcher set, and the timeouts of [`WorldOptions`] in seconds from
    /// `GRADLOOM_WORLD_JOIN_SECONDS`, `GRADLOOM_WORLD_HEARTBEAT_SECONDS` and `GRADLOOM_WORLD_STALL_SECONDS`.
    ///
    /// - `RANK`: torchrun, or Kubernetes' training operator, with `WORLD_SIZE`, `LOCAL_RANK` (else 0),
    ///   `MASTER_ADDR` and `MASTER_PORT`, and the store of torchrun's agent if it tells so.
    /// - `OMPI_COMM_WORLD_RANK`: Open MPI. Several hosts also need `MASTER_ADDR` and `MASTER_PORT`.
    /// - `SLURM_STEP_NUM_TASKS`: a step of Slurm, as `srun` starts it. `MASTER_ADDR` and `MASTER_PORT` take
    ///   precedence over the first host of the step and a port that follows from the job.
    /// - None of them: this process alone.
    ///
    /// # Errors
    /// Returns [`ErrorKind::World`](gradloom_core::error::ErrorKind::World), naming the variable that is
    /// missing, malformed or impossible.
    pub fn from_env() -> Result<Self> {
        Self::from_variables(&|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// Reads an environment through a function that returns the value of a variable.
    ///
    /// # Errors
    /// Returns the same errors as [`Membership::from_env`].
    pub fn from_variables(variables: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        env::membership(variables)
    }

    pub(crate) fn at(mut self, rendezvous: Rendezvous) -> Self {
        self.rendezvous = rendezvous;
        self
    }

    /// Checks the numbers.
    pub(crate) fn check(&self) -> Result<()> {
        let (rank, size) = (self.rank, self.size);
        if rank >= size {
            let message = format!("there is no rank {rank} in a world of {size} ranks");
            return Err(Verdict::new(message, "number the ranks from 0 to the size minus 1").error());
        }
        if size > 1 && self.rendezvous == Rendezvous::Alone {
            let message = format!("rank {rank} of {size} has no meeting point");
            return Err(Verdict::new(message, "give the address and port of rank 0").error());
        }
        Ok(())
    }
}
