//! The meeting of all ranks.
//!
//! In: a membership. Out: the control connections, the seats of all ranks, and a listener for the data
//! connection of the previous rank. Invariants: all ranks get the same seats, or each an error that says who
//! is missing or does not fit; a connection that is no rank's does no harm.

mod arrivals;
mod attend;
mod gather;
mod table;

use crate::membership::Membership;
use crate::wire::{Seat, Start};
use gradloom_core::error::Result;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Result of a meeting, beside the control connections.
#[derive(Debug)]
pub(crate) struct Party {
    pub(crate) start: Start,
    /// Listener to which the previous rank connects.
    pub(crate) data: TcpListener,
    /// Address under which this rank reaches rank 0's host; none on rank 0.
    pub(crate) first: Option<IpAddr>,
}

/// The control connections of a rank.
#[derive(Debug)]
pub(crate) enum Lines {
    /// Connections of rank 0 to the ranks from 1, in their order.
    Hub(Vec<TcpStream>),
    /// Connection of another rank to rank 0.
    Spoke(TcpStream),
}

/// Longest wait for a part of the meeting that needs no other rank.
const PATIENCE: Duration = Duration::from_secs(10);

/// Meets the other ranks.
pub(crate) fn meet(membership: &Membership) -> Result<(Lines, Party)> {
    if membership.rank == 0 { gather::gather(membership) } else { attend::attend(membership) }
}

/// Replaces a loopback address, which is on rank 0's host, by one that reaches that host from here.
pub(crate) fn reachable(address: SocketAddr, first: Option<IpAddr>) -> SocketAddr {
    match first {
        Some(first) if address.ip().is_loopback() => SocketAddr::new(first, address.port()),
        _ => address,
    }
}

/// Returns the seat of rank 0.
fn first_seat(host: String, port: u16) -> Seat {
    Seat { host, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)) }
}
