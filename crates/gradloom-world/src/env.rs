//! The environments of launchers.
//!
//! In: environment variables. Out: a membership. The first launcher that set its variables is taken, in this
//! order: torchrun or Kubernetes' training operator, Open MPI, Slurm. An `mpirun` in an allocation of Slurm
//! sets the variables of both, of which Slurm's then count its daemons. Invariant: a variable that is
//! malformed, impossible or missing beside others is an error that names it.

use crate::membership::{Membership, Rendezvous, WorldOptions};
use crate::slurm;
use crate::verdict::Verdict;
use gradloom_core::error::{Error, Result};
use std::str::FromStr;
use std::time::Duration;

/// Ports that are derived from a job: below those that systems give to sockets by themselves.
const PORTS: std::ops::Range<u64> = 20_000..32_000;

/// The variables of an environment.
#[derive(Clone, Copy)]
pub(crate) struct Variables<'a>(&'a dyn Fn(&str) -> Option<String>);

/// Reads the membership of an environment.
pub(crate) fn membership(variables: &dyn Fn(&str) -> Option<String>) -> Result<Membership> {
    let variables = Variables(variables);
    let membership = if variables.get("RANK").is_some() {
        torchrun(variables)?
    } else if variables.get("OMPI_COMM_WORLD_RANK").is_some() {
        open_mpi(variables)?
    } else if slurm::is_step(variables) {
        slurm::membership(variables)?
    } else if let Some(name) =
        ["WORLD_SIZE", "LOCAL_RANK"].into_iter().find(|name| variables.get(name).is_some())
    {
        let help = format!("start the program with a launcher as torchrun, set RANK too, or unset {name}");
        return Err(Verdict::new(format!("{name} is set, but RANK is not"), help).error());
    } else {
        Membership::alone()
    };
    Ok(Membership { options: options(variables)?, ..membership })
}

/// Reads what torchrun and Kubernetes' training operator set. The latter starts one process on each host, and
/// no LOCAL_RANK.
fn torchrun(variables: Variables) -> Result<Membership> {
    let size = variables.size("WORLD_SIZE")?;
    let rank = variables.rank("RANK", size, "WORLD_SIZE")?;
    let local_rank = match variables.get("LOCAL_RANK") {
        Some(_) => variables.rank("LOCAL_RANK", size, "WORLD_SIZE")?,
        None => 0,
    };
    let run = variables.get("TORCHELASTIC_RUN_ID");
    let restarts = variables.get("TORCHELASTIC_RESTART_COUNT").unwrap_or_else(|| "0".to_string());
    let token = run.map(|run| format!("torchrun {run}/{restarts}")).unwrap_or_default();
    let membership = Membership { rank, size, local_rank, token, ..Membership::alone() };
    if size == 1 {
        return Ok(membership);
    }
    let (address, port) = (variables.text("MASTER_ADDR")?, variables.port("MASTER_PORT")?);
    let uses_store = variables.get("TORCHELASTIC_USE_AGENT_STORE").is_some_and(|value| value == "True");
    let key = format!("gradloom/{}/address", membership.token);
    Ok(membership.at(if uses_store {
        Rendezvous::TorchStore { address, port, key }
    } else {
        Rendezvous::Direct { address, port }
    }))
}

/// Reads what Open MPI's `mpirun` sets.
fn open_mpi(variables: Variables) -> Result<Membership> {
    let size = variables.size("OMPI_COMM_WORLD_SIZE")?;
    let rank = variables.rank("OMPI_COMM_WORLD_RANK", size, "OMPI_COMM_WORLD_SIZE")?;
    let local_rank = variables.rank("OMPI_COMM_WORLD_LOCAL_RANK", size, "OMPI_COMM_WORLD_SIZE")?;
    let local_size = variables.size("OMPI_COMM_WORLD_LOCAL_SIZE")?;
    let job = variables.get("PMIX_NAMESPACE").or_else(|| variables.get("OMPI_MCA_ess_base_jobid"));
    let token = job.map(|job| format!("mpi {job}")).unwrap_or_default();
    let membership = Membership { rank, size, local_rank, token, ..Membership::alone() };
    if size == 1 {
        return Ok(membership);
    }
    let address = match variables.get("MASTER_ADDR") {
        None if local_size >= size => "127.0.0.1".to_string(),
        _ => variables.text("MASTER_ADDR")?,
    };
    let port = if local_size < size || membership.token.is_empty() {
        variables.port("MASTER_PORT")?
    } else {
        variables.port_or_derived(&membership.token)?
    };
    Ok(membership.at(Rendezvous::Direct { address, port }))
}

fn options(variables: Variables) -> Result<WorldOptions> {
    let defaults = WorldOptions::default();
    Ok(WorldOptions {
        join_timeout: variables.seconds("GRADLOOM_WORLD_JOIN_SECONDS", defaults.join_timeout)?,
        heartbeat_timeout: variables
            .seconds("GRADLOOM_WORLD_HEARTBEAT_SECONDS", defaults.heartbeat_timeout)?,
        stall_timeout: variables.seconds("GRADLOOM_WORLD_STALL_SECONDS", defaults.stall_timeout)?,
        ..defaults
    })
}

impl Variables<'_> {
    /// Returns the value of a variable. One that is empty counts as not set.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        self.0(name).filter(|value| !value.is_empty())
    }

    /// Returns the value of a variable that must be set.
    pub(crate) fn text(&self, name: &str) -> Result<String> {
        self.get(name).ok_or_else(|| {
            let message = format!("the environment variable {name} is not set");
            Verdict::new(message, "the launcher sets some of its variables; set this one too").error()
        })
    }

    pub(crate) fn malformed(&self, name: &str, expected: &str) -> Error {
        let value = self.get(name).unwrap_or_default();
        let message = format!("the environment variable {name} is `{value}`, which is not {expected}");
        Verdict::new(message, format!("set {name} to {expected}")).error()
    }

    fn parsed<T: FromStr>(&self, name: &str, expected: &str) -> Result<T> {
        self.text(name)?.trim().parse().map_err(|_| self.malformed(name, expected))
    }

    pub(crate) fn number(&self, name: &str) -> Result<usize> {
        Ok(self.parsed::<u32>(name, "a number from 0")? as usize)
    }

    pub(crate) fn size(&self, name: &str) -> Result<usize> {
        let size = self.number(name)?;
        if size == 0 { Err(self.malformed(name, "a number from 1")) } else { Ok(size) }
    }

    pub(crate) fn rank(&self, name: &str, size: usize, of: &str) -> Result<usize> {
        let rank = self.number(name)?;
        let expected = || format!("a number below {of}, which is {size}");
        if rank < size { Ok(rank) } else { Err(self.malformed(name, &expected())) }
    }

    fn port(&self, name: &str) -> Result<u16> {
        let expected = "a port from 1 to 65535";
        match self.parsed(name, expected)? {
            0 => Err(self.malformed(name, expected)),
            port => Ok(port),
        }
    }

    /// Returns the port of MASTER_PORT if it is set, else one that follows from the name of the run.
    pub(crate) fn port_or_derived(&self, run: &str) -> Result<u16> {
        if self.get("MASTER_PORT").is_some() {
            return self.port("MASTER_PORT");
        }
        let hash = run.bytes().fold(0, |hash: u64, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        Ok((PORTS.start + hash % (PORTS.end - PORTS.start)) as u16)
    }

    fn seconds(&self, name: &str, default: Duration) -> Result<Duration> {
        if self.get(name).is_none() {
            return Ok(default);
        }
        let expected = "a number of seconds above 0";
        let seconds: f64 = self.parsed(name, expected)?;
        match Duration::try_from_secs_f64(seconds) {
            Ok(duration) if !duration.is_zero() && seconds < 1e9 => Ok(duration),
            _ => Err(self.malformed(name, expected)),
        }
    }
}
