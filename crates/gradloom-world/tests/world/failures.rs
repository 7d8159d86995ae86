//! Processes that fail in all ways: the others report one error that names the rank.

use super::child::{Rank, start};
use super::support::{memberships, patient, run, same_message};
use gradloom_device::communicator::Communicator;
use gradloom_world::World;

/// Timeouts that are too long to be reached.
const PATIENT: &[(&str, &str)] = &[];

/// Returns the one message of all ranks but one.
fn message(ranks: &[Rank], culprit: usize) -> String {
    let survivors = ranks.iter().enumerate().filter(|(rank, _)| *rank != culprit);
    let mut messages: Vec<_> = survivors.map(|(_, rank)| rank.wait_for("error ")).collect();
    messages.dedup();
    assert_eq!(messages.len(), 1, "{messages:#?}");
    messages.remove(0)
}

fn assert_named(message: &str, culprit: usize, what: &str) {
    let name = format!("rank {culprit} (");
    assert!(message.starts_with(&name) && message.contains(what), "{message}");
}

#[test]
fn a_killed_rank_ended() {
    for culprit in [0, 1, 3] {
        let mut ranks = start(4, culprit, "killed", PATIENT);
        ranks[culprit].train();
        ranks[culprit].kill();
        let message = message(&ranks, culprit);
        assert_named(&message, culprit, ")");
        assert!(message.ends_with(") ended"), "{message}");
    }
}

#[test]
fn a_rank_that_exits_ended() {
    for culprit in [0, 2] {
        let ranks = start(3, culprit, "exit", PATIENT);
        assert_named(&message(&ranks, culprit), culprit, ") ended");
    }
}

#[test]
fn a_rank_that_leaves_is_missed() {
    for culprit in [0, 2] {
        let ranks = start(3, culprit, "leave", PATIENT);
        assert_named(&message(&ranks, culprit), culprit, ") ended while the others wait in collective 5");
        ranks[culprit].wait_for("left");
    }
}

#[test]
fn a_rank_that_panics_gave_up() {
    for culprit in [0, 1] {
        let ranks = start(3, culprit, "panic", PATIENT);
        assert_named(&message(&ranks, culprit), culprit, ") gave up: it panicked");
    }
}

#[test]
fn a_rank_that_aborts_says_why() {
    for culprit in [0, 2] {
        let ranks = start(3, culprit, "abort", PATIENT);
        assert_named(&message(&ranks, culprit), culprit, ") gave up: no space left");
        assert_named(&ranks[culprit].wait_for("error "), culprit, ") gave up: no space left");
    }
}

#[test]
fn a_rank_that_does_not_come_is_at_another_step() {
    for culprit in [0, 1] {
        let ranks = start(3, culprit, "sleep", &[("GRADLOOM_WORLD_STALL_SECONDS", "1.5")]);
        let expected = ") is at step 4 and has not entered collective 5; the others wait at step 4 for 1.5 s";
        assert_named(&message(&ranks, culprit), culprit, expected);
    }
}

#[test]
fn another_collective_is_told_by_both_names() {
    let ranks = start(3, 1, "other", PATIENT);
    // Each rank hears the same, the one that calls another collective too.
    let message = message(&ranks, 3);
    let own = "all_reduce of 100000 elements in 1 part as collective 5";
    let other = "broadcast from rank 1 as collective 5";
    assert!(message.contains(own) && message.contains(other) && message.contains("rank 1 ("), "{message}");
}

#[test]
#[cfg(unix)]
fn a_stopped_rank_has_not_answered() {
    for culprit in [0, 2] {
        let ranks = start(3, culprit, "train", &[("GRADLOOM_WORLD_HEARTBEAT_SECONDS", "2")]);
        ranks[culprit].train();
        ranks[culprit].signal("-STOP");
        assert_named(&message(&ranks, culprit), culprit, ") has not answered for 2 s");
        ranks[culprit].signal("-CONT");
        ranks[culprit].wait_for("error ");
    }
}

#[test]
fn parts_of_other_lengths_are_told() {
    let members = memberships(3, patient());
    let message = same_message(run(members, |member| {
        let world = World::join(member)?;
        let (mut two, mut three) = ([0.0; 2], [0.0; 3]);
        if world.rank() == 2 {
            return world.all_reduce(&mut [&mut three, &mut two]);
        }
        world.all_reduce(&mut [&mut two, &mut three])
    }));
    assert!(message.contains("all_reduce of 5 elements in 2 parts as collective 1, but rank "), "{message}");
    assert!(message.ends_with(", with parts of other lengths"), "{message}");
}
