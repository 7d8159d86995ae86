//! Worlds whose ranks are threads.

use gradloom_core::error::Result;
use gradloom_world::{Membership, World, WorldOptions};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::Duration;

/// Returns a port for a rank 0. The system gives ports below 32768 to no socket by itself, and each process
/// begins at another one.
pub(crate) fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let index = u32::from(NEXT.fetch_add(1, Ordering::Relaxed)) + std::process::id() * 16;
        let port = 20_000 + (index % 12_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Returns timeouts for worlds that should work.
pub(crate) fn patient() -> WorldOptions {
    WorldOptions { join_timeout: Duration::from_secs(60), ..WorldOptions::default() }
}

/// Returns the memberships of a world on this host.
pub(crate) fn memberships(size: usize, options: WorldOptions) -> Vec<Membership> {
    let port = port();
    let member = |rank| Membership { options, ..Membership::direct(rank, size, "127.0.0.1", port) };
    (0..size).map(member).collect()
}

/// Runs a function for each membership, each in a thread.
pub(crate) fn run<T: Send>(members: Vec<Membership>, rank: impl Fn(Membership) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let spawn = |member| scope.spawn(|| rank(member));
        let threads: Vec<_> = members.into_iter().map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().expect("a rank that does not panic")).collect()
    })
}

/// Runs a function on each rank of a world.
pub(crate) fn world<T: Send>(size: usize, rank: impl Fn(World) -> T + Sync) -> Vec<T> {
    run(memberships(size, patient()), |member| rank(World::join(member).expect("a world")))
}

/// Returns the one message that all errors have.
pub(crate) fn same_message<T: std::fmt::Debug>(results: impl IntoIterator<Item = Result<T>>) -> String {
    let mut messages: Vec<_> =
        results.into_iter().map(|result| result.expect_err("a failure").message().to_string()).collect();
    messages.dedup();
    assert_eq!(messages.len(), 1, "{messages:#?}");
    messages.remove(0)
}
