//! Networks that fail: the ranks on one side report one error.

use super::proxy::{Mode, Network};
use super::support::{memberships, patient, run, same_message};
use gradloom_core::error::Result;
use gradloom_device::communicator::Communicator;
use gradloom_world::{Rendezvous, World, WorldOptions};
use std::sync::Barrier;
use std::time::Duration;

/// Rank behind the network that fails.
const BEHIND: usize = 1;
const SIZE: usize = 3;

fn short() -> WorldOptions {
    WorldOptions { verdict_timeout: Duration::from_secs(2), ..patient() }
}

/// Trains in a world of three, whose rank 1 is behind a network that fails after some steps.
fn train(options: WorldOptions, fail: impl Fn(&Network) + Sync) -> Vec<Result<()>> {
    let mut members = memberships(SIZE, options);
    let Rendezvous::Direct { port, .. } = &mut members[BEHIND].rendezvous else { panic!("a port") };
    let network = Network::new(*port);
    *port = network.port;
    let barrier = Barrier::new(SIZE);
    run(members, |member| {
        let world = World::join(member)?;
        steps(&world, 3)?;
        if barrier.wait().is_leader() {
            fail(&network);
        }
        barrier.wait();
        steps(&world, 1000)
    })
}

fn steps(world: &World, count: usize) -> Result<()> {
    for _ in 0..count {
        let mut part = vec![1.0; 10_000];
        world.all_reduce(&mut [&mut part])?;
        assert!(part.iter().all(|sum| *sum == SIZE as f32));
    }
    Ok(())
}

#[test]
fn late_bytes_do_no_harm() {
    let mut members = memberships(SIZE, short());
    let Rendezvous::Direct { port, .. } = &mut members[BEHIND].rendezvous else { panic!("a port") };
    let network = Network::new(*port);
    *port = network.port;
    network.set_control(Mode::Delay);
    network.set_data(Mode::Delay);
    for result in run(members, |member| steps(&World::join(member)?, 5)) {
        result.expect("sums");
    }
}

#[test]
fn a_control_connection_that_is_cut_ends_its_rank() {
    for mode in [Mode::Cut, Mode::Truncate] {
        let mut results = train(short(), |network| network.set_control(mode));
        results.swap_remove(BEHIND).unwrap_err();
        let message = same_message(results);
        assert!(message.starts_with("rank 1 (") && message.ends_with(") ended"), "{message}");
    }
}

#[test]
fn a_control_connection_without_bytes_is_silent() {
    let options = WorldOptions { heartbeat_timeout: Duration::from_secs(1), ..short() };
    let mut results = train(options, |network| {
        network.set_control(Mode::Swallow);
        network.set_data(Mode::Swallow);
    });
    results.swap_remove(BEHIND).unwrap_err();
    let message = same_message(results);
    assert!(message.starts_with("rank 1 (") && message.ends_with(") has not answered for 1 s"), "{message}");
}

#[test]
fn a_data_connection_that_breaks_is_named_by_its_ends() {
    for mode in [Mode::Cut, Mode::Truncate] {
        let options = WorldOptions { verdict_timeout: Duration::from_millis(500), ..short() };
        let message = same_message(train(options, |network| network.set_data(mode)));
        let names = message.contains("rank 0 (") && message.contains("rank 1 (");
        assert!(names && message.starts_with("the data connection between"), "{message}");
    }
}

#[test]
fn a_data_connection_without_bytes_stalls() {
    let options = WorldOptions { stall_timeout: Duration::from_secs(2), ..short() };
    let message = same_message(train(options, |network| network.set_data(Mode::Swallow)));
    assert!(message.ends_with("but no data has moved for 2 s"), "{message}");
}
