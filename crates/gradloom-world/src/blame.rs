//! The verdicts on data connections.
//!
//! In: a fault of a data connection, as one of its ends saw it. Out: the world's verdict. Invariant: a broken
//! connection is blamed itself only if rank 0 knows of no rank that ended.

use crate::collective::{Call, Fault, Unconnected};
use crate::control::{Control, State};
use crate::verdict::Verdict;
use std::io;

/// Finds out why a collective failed.
pub(crate) fn failure(state: &State, control: &Control, call: &Call, fault: Fault) -> Verdict {
    let (own, size) = (state.rank, state.size());
    let (previous, next) = (state.name((own + size - 1) % size), state.name((own + 1) % size));
    let broken = |other: &str, reason: &str| {
        let message = format!("the data connection between {} and {other} broke{reason}", state.name(own));
        Verdict::new(message, "check the network between the hosts, then start all ranks again")
    };
    match fault {
        Fault::Mismatch(theirs) => {
            let only_hash = Call { hash: call.hash, ..theirs } == *call;
            let hint = if only_hash { ", with parts of other lengths" } else { "" };
            let message = format!("{} calls {call}, but {previous} calls {theirs}{hint}", state.name(own));
            let help =
                "call the same collectives in the same order on all ranks, with parts of the same lengths";
            control.report(Verdict::new(message, help))
        }
        Fault::Garbled => control.report(Verdict::garbled(&previous)),
        Fault::Previous(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
            control.explain(broken(&previous, &format!(": {error}")))
        }
        Fault::Previous(_) => control.explain(broken(&previous, "")),
        Fault::Next => control.explain(broken(&next, "")),
    }
}

/// Makes the verdict on a ring that cannot be connected.
pub(crate) fn unconnected(state: &State, failure: Unconnected) -> Verdict {
    let (own, size) = (state.rank, state.size());
    let name = state.name(own);
    let help = "allow TCP connections between the hosts at all ports from 1024";
    match failure {
        Unconnected::Next(address, error) => {
            let next = state.name((own + 1) % size);
            Verdict::new(format!("{name} cannot connect to {next} at {address}: {error}"), help)
        }
        Unconnected::Previous => {
            let previous = state.name((own + size - 1) % size);
            Verdict::new(format!("{previous} has not connected to {name}"), help)
        }
    }
}
