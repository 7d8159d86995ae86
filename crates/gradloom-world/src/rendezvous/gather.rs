//! Rank 0's part of the meeting: it waits for all others.
//!
//! In: connections of ranks and of others. Out: one connection of each rank. Invariant: when the meeting
//! fails, each rank that came gets the same error.

use super::arrivals::Arrivals;
use super::table::{Refusal, Table};
use super::{Lines, Party};
use crate::membership::{Membership, Rendezvous};
use crate::net;
use crate::torch_store::Store;
use crate::verdict::Verdict;
use crate::wire::Message;
use gradloom_core::error::Result;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Time between looks at the ranks that came.
const LOOK: Duration = Duration::from_millis(500);

/// Waits for all ranks.
pub(super) fn gather(membership: &Membership) -> Result<(Lines, Party)> {
    let deadline = Instant::now() + membership.options.join_timeout;
    let (arrivals, data, port) =
        listen(membership, deadline).map_err(|error| no_listener(membership, &error).error())?;
    let mut table = Table::new(membership);
    if let Err(verdict) = fill(&mut table, &arrivals, deadline) {
        table.send(&Message::Verdict(verdict.clone()).encode());
        return Err(verdict.error());
    }
    let start = table.start(port);
    Ok(table.party(start, data))
}

/// Listens for the other ranks, and for the data connection of the last one, whose port is the last result.
fn listen(membership: &Membership, deadline: Instant) -> io::Result<(Arrivals, TcpListener, u16)> {
    let listener = open(membership, deadline)?;
    let data = net::listen_beside(membership.rendezvous.address(), listener.local_addr()?.ip())?;
    let port = data.local_addr()?.port();
    Ok((Arrivals::new(listener, membership.size)?, data, port))
}

/// Gives seats until all ranks are there.
fn fill(table: &mut Table, arrivals: &Arrivals, deadline: Instant) -> Result<(), Verdict> {
    let mut looked = Instant::now();
    while !table.is_full() {
        if Instant::now() >= deadline {
            return Err(table.missing());
        }
        if let Some((hello, mut stream)) = arrivals.next() {
            match table.seat(&hello, &stream) {
                Ok(()) => {}
                Err(Refusal::World(verdict)) => {
                    tell(&mut stream, &Message::Verdict(verdict.clone()));
                    return Err(verdict);
                }
                Err(Refusal::Stranger(message)) => tell(&mut stream, &Message::OtherRun(message)),
            }
        }
        if looked.elapsed() > LOOK {
            table.look()?;
            looked = Instant::now();
        }
    }
    Ok(())
}

/// Sends the refusal to a rank that got no seat.
fn tell(stream: &mut TcpStream, message: &Message) {
    _ = stream.write_all(&message.encode());
}

/// Listens where the others look for this rank.
fn open(membership: &Membership, deadline: Instant) -> io::Result<TcpListener> {
    match &membership.rendezvous {
        Rendezvous::Alone => Err(io::ErrorKind::NotFound.into()),
        Rendezvous::Direct { address, port } => net::listen(address, *port),
        Rendezvous::TorchStore { address, port, key } => publish(address, *port, key, deadline),
    }
}

/// Listens at any port, and leaves its address in the store.
fn publish(address: &str, port: u16, key: &str, deadline: Instant) -> io::Result<TcpListener> {
    let mut store = Store::connect_patiently(address, port, deadline)?;
    let listener = net::listen_beside(address, store.local_ip()?)?;
    let own = SocketAddr::new(store.local_ip()?, listener.local_addr()?.port());
    store.set(key, own.to_string().as_bytes())?;
    Ok(listener)
}

fn no_listener(membership: &Membership, error: &io::Error) -> Verdict {
    let place = match &membership.rendezvous {
        Rendezvous::Direct { port, .. } => format!("cannot listen at port {port}"),
        Rendezvous::TorchStore { address, port, .. } => {
            format!("cannot leave its address in torchrun's store at {address}:{port}")
        }
        Rendezvous::Alone => "cannot listen".to_string(),
    };
    let message = format!("rank 0 ({}) {place}: {error}", net::host_name());
    Verdict::new(message, "set MASTER_ADDR to rank 0's host and MASTER_PORT to a port that is free there")
}
