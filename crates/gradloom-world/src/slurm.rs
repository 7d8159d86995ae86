//! Slurm's environment.
//!
//! In: variables of a step. Out: a membership, or none outside of a step of several tasks. Invariant: a batch
//! script or a shell of an allocation, which is one process, is a world of one rank.

use crate::env::Variables;
use crate::membership::{Membership, Rendezvous};
use gradloom_core::error::Result;

/// Returns `true` in a step, which `srun` starts.
pub(crate) fn is_step(variables: Variables) -> bool {
    variables.get("SLURM_STEP_NUM_TASKS").is_some()
}

/// Reads the membership of a task.
pub(crate) fn membership(variables: Variables) -> Result<Membership> {
    let size = variables.size("SLURM_STEP_NUM_TASKS")?;
    if size == 1 {
        return Ok(Membership::alone());
    }
    let rank = variables.rank("SLURM_PROCID", size, "SLURM_STEP_NUM_TASKS")?;
    let local_rank = variables.number("SLURM_LOCALID")?;
    let (job, step) = (variables.text("SLURM_JOB_ID")?, variables.text("SLURM_STEP_ID")?);
    let token = format!("slurm {job}.{step}");
    let address = match variables.get("MASTER_ADDR") {
        Some(address) => address,
        None => first_host(&variables.text("SLURM_STEP_NODELIST")?).ok_or_else(|| {
            variables.malformed("SLURM_STEP_NODELIST", "a list of hosts as `node[003-010,12]`")
        })?,
    };
    let port = variables.port_or_derived(&token)?;
    let rendezvous = Rendezvous::Direct { address, port };
    Ok(Membership { rank, size, local_rank, rendezvous, token, ..Membership::alone() })
}

/// Returns the first host of a list as `node[003-010,12],other`, in which each bracket stands for one of its
/// numbers.
fn first_host(list: &str) -> Option<String> {
    let mut host = String::new();
    let mut rest = list;
    loop {
        let end = rest.find(['[', ',']).unwrap_or(rest.len());
        host.push_str(&rest[..end]);
        let Some(inside) = rest[end..].strip_prefix('[') else { break };
        let (numbers, after) = inside.split_once(']')?;
        let first = numbers.split([',', '-']).next().filter(|number| !number.is_empty())?;
        host.push_str(first);
        rest = after;
    }
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    (!host.is_empty() && host.chars().all(is_name)).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::first_host;

    #[test]
    fn the_first_host_of_a_list() {
        let cases = [
            ("node1", Some("node1")),
            ("node1,node2", Some("node1")),
            ("node[003-010,12]", Some("node003")),
            ("node[12,003-010]", Some("node12")),
            ("rack[2-3]node[07-09].cluster,login", Some("rack2node07.cluster")),
            ("a-b[1-2],c", Some("a-b1")),
            ("", None),
            ("node[", None),
            ("node[]", None),
            ("node[1-2", None),
            ("bad name", None),
        ];
        for (list, host) in cases {
            assert_eq!(first_host(list).as_deref(), host, "{list}");
        }
    }
}
