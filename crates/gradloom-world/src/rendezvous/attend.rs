//! The part of the ranks from 1 in the meeting: they look for rank 0.
//!
//! In: a place where rank 0 may listen later, or never. Out: a connection to it. Invariants: attempts are
//! repeated until rank 0 accepts or the time is over; from then on its end is an error at once.

use super::{Lines, PATIENCE, Party, reachable};
use crate::membership::{Membership, Rendezvous};
use crate::net;
use crate::torch_store::Store;
use crate::verdict::Verdict;
use crate::wire::{Hello, Message, Start, VERSION};
use gradloom_core::error::Result;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// Time between attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// Result of an attempt that did not succeed.
enum Failure {
    /// Rank 0 may come yet; the text says what happened.
    Again(String),
    /// The world cannot exist.
    World(Verdict),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Again(error.to_string())
    }
}

/// Joins rank 0.
pub(super) fn attend(membership: &Membership) -> Result<(Lines, Party)> {
    let deadline = Instant::now() + membership.options.join_timeout;
    loop {
        match attempt(membership, deadline) {
            Ok(party) => return Ok(party),
            Err(Failure::World(verdict)) => return Err(verdict.error()),
            Err(Failure::Again(reason)) if Instant::now() + PAUSE >= deadline => {
                return Err(not_found(membership, &reason).error());
            }
            Err(Failure::Again(_)) => thread::sleep(PAUSE),
        }
    }
}

fn not_found(membership: &Membership, reason: &str) -> Verdict {
    let place = match &membership.rendezvous {
        Rendezvous::Direct { address, port } => format!("at {address}:{port}"),
        Rendezvous::TorchStore { address, port, .. } => format!("by torchrun's store at {address}:{port}"),
        Rendezvous::Alone => "anywhere".to_string(),
    };
    let (rank, host) = (membership.rank, net::host_name());
    let seconds = membership.options.join_timeout.as_secs_f64();
    let message = format!("rank {rank} ({host}) has not reached rank 0 {place} within {seconds} s: {reason}");
    Verdict::new(message, "check that rank 0 runs, and that MASTER_ADDR and MASTER_PORT name it on all ranks")
}

/// Connects to rank 0 and waits for the others.
fn attempt(membership: &Membership, deadline: Instant) -> Result<(Lines, Party), Failure> {
    let mut stream = net::connect(&locate(membership, deadline)?, deadline)?;
    let data = net::listen_beside(membership.rendezvous.address(), stream.local_addr()?.ip())?;
    let hello = Hello {
        version: VERSION,
        rank: membership.rank as u32,
        size: membership.size as u32,
        port: data.local_addr()?.port(),
        host: net::host_name(),
        token: membership.token.clone(),
    };
    stream.write_all(&hello.encode())?;
    match Message::read(&mut stream, deadline.min(Instant::now() + PATIENCE))? {
        Message::Welcome => {}
        // A rank 0 of an earlier run may still be there.
        Message::OtherRun(reason) => return Err(Failure::Again(reason)),
        Message::Verdict(verdict) => return Err(Failure::World(verdict)),
        _ => return Err(Failure::Again("it is no rank 0 of gradloom".to_string())),
    }
    let first = stream.peer_addr()?.ip().to_canonical();
    let start = await_start(membership, &mut stream, &format!("rank 0 ({first})"))?;
    Ok((Lines::Spoke(stream), Party { start, data, first: Some(first) }))
}

/// Waits until all ranks have joined. Rank 0, whose clock began earlier, gives up first.
fn await_start(membership: &Membership, stream: &mut TcpStream, first: &str) -> Result<Start, Failure> {
    let deadline = Instant::now() + membership.options.join_timeout + PATIENCE;
    match Message::read(stream, deadline) {
        Ok(Message::Start(start)) if start.seats.len() == membership.size => Ok(start),
        Ok(Message::Verdict(verdict)) => Err(Failure::World(verdict)),
        Ok(_) => Err(Failure::World(Verdict::garbled(first))),
        Err(error) if net::is_timeout(&error) => {
            Err(Failure::World(Verdict::silent(first, membership.options.join_timeout + PATIENCE)))
        }
        Err(_) => Err(Failure::World(Verdict::ended(first))),
    }
}

/// Returns the addresses at which rank 0 may listen.
fn locate(membership: &Membership, deadline: Instant) -> Result<Vec<SocketAddr>, Failure> {
    match &membership.rendezvous {
        Rendezvous::Alone => Err(Failure::Again("there is no meeting point".to_string())),
        Rendezvous::Direct { address, port } => Ok(net::resolve(address, *port)?),
        Rendezvous::TorchStore { address, port, key } => {
            let mut store = Store::connect_patiently(address, *port, deadline)?;
            let value = String::from_utf8_lossy(&store.wait_and_get(key)?).into_owned();
            let invalid = || Failure::Again(format!("the store has `{value}` in place of rank 0's address"));
            let found: SocketAddr = value.parse().map_err(|_| invalid())?;
            Ok(vec![reachable(found, Some(store.peer_ip()?))])
        }
    }
}
