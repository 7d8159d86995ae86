//! Meetings that succeed in spite of others, and meetings that fail.

use super::support::{memberships, patient, port, run, same_message};
use gradloom_device::communicator::Communicator;
use gradloom_world::{Membership, World, WorldOptions};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

fn impatient() -> WorldOptions {
    WorldOptions { join_timeout: Duration::from_millis(800), ..patient() }
}

/// Connects to rank 0, once it listens.
fn knock(port: u16) -> TcpStream {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => return stream,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(5));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Returns the first message of a rank, without texts.
fn hello(version: u32, rank: u32, size: u32, texts: &[u8]) -> Vec<u8> {
    let mut bytes = b"gradloom".to_vec();
    [version, rank, size].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    bytes.extend([0, 0]);
    bytes.extend((texts.len() as u32).to_le_bytes());
    bytes.extend(texts);
    bytes
}

/// Returns the readable part of what rank 0 answers.
fn answer(mut stream: TcpStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    let mut bytes = Vec::new();
    _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn member(rank: usize, size: usize, port: u16) -> Membership {
    Membership { options: patient(), ..Membership::direct(rank, size, "127.0.0.1", port) }
}

#[test]
fn strangers_do_no_harm() {
    let port = port();
    thread::scope(|scope| {
        let first = scope.spawn(|| World::join(member(0, 2, port)).expect("a world"));
        let mut open = Vec::new();
        let huge = [&hello(1, 1, 2, &[])[..22], &u32::MAX.to_le_bytes(), &[b'x'; 9000]].concat();
        let lying = hello(1, 1, 2, &[255; 40]);
        for bytes in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", &[0; 100], b"gradloo", &huge, &lying] {
            let mut stream = knock(port);
            _ = stream.write_all(bytes);
            open.push(stream);
        }
        drop(knock(port));
        let other_run = Membership { token: "other".to_string(), options: impatient(), ..member(1, 2, port) };
        let error = World::join(other_run).unwrap_err();
        assert!(error.message().contains("is of run `other`, rank 0 ("), "{error}");
        let second = World::join(member(1, 2, port)).expect("a world");
        let first = first.join().expect("a rank");
        let sum = |world: World| {
            let mut part = [1.0];
            world.all_reduce(&mut [&mut part]).map(|()| part)
        };
        let sums = [scope.spawn(move || sum(first)), scope.spawn(move || sum(second))];
        for sum in sums {
            assert_eq!(sum.join().expect("a rank").expect("a sum"), [2.0]);
        }
    });
}

#[test]
fn missing_ranks_are_named() {
    let mut members = memberships(5, impatient());
    members.remove(3);
    members.remove(1);
    members[1].options = patient();
    let message = same_message(run(members, World::join));
    assert!(message.starts_with("ranks 1, 3 of 5 have not joined rank 0 ("), "{message}");
    assert!(message.ends_with(") within 0.8 s"), "{message}");
}

#[test]
fn a_missing_first_rank_is_named() {
    let members = memberships(3, impatient()).split_off(1);
    for (index, result) in run(members, World::join).into_iter().enumerate() {
        let error = result.unwrap_err();
        let begin = format!("rank {} (", index + 1);
        assert!(error.message().starts_with(&begin), "{error}");
        assert!(error.message().contains(") has not reached rank 0 at 127.0.0.1:"), "{error}");
    }
}

#[test]
fn another_size_is_told_on_both_sides() {
    let port = port();
    let message = same_message(run(vec![member(0, 2, port), member(1, 3, port)], World::join));
    assert!(
        message.starts_with("rank 1 (") && message.contains(") is of a world of 3 ranks, rank 0 ("),
        "{message}"
    );
}

#[test]
fn a_rank_that_is_there_twice_is_told_to_all() {
    let port = port();
    let members = vec![member(0, 3, port), member(1, 3, port), member(1, 3, port)];
    let message = same_message(run(members, World::join));
    assert!(message.starts_with("there are two of rank 1: on "), "{message}");
}

#[test]
fn another_version_is_told_on_both_sides() {
    let port = port();
    thread::scope(|scope| {
        let first = scope.spawn(|| World::join(member(0, 3, port)));
        let mut stream = knock(port);
        stream.write_all(&hello(9, 1, 3, b"texts of another layout")).expect("a rank 0");
        let answer = answer(stream);
        let message = same_message([first.join().expect("a rank")]);
        assert!(message.contains("speaks version 9 of the protocol between ranks, rank 0 ("), "{message}");
        assert!(answer.contains(&message), "{answer}");
    });
}

#[test]
fn a_rank_that_ends_while_others_come_is_named() {
    let port = port();
    thread::scope(|scope| {
        let first = scope.spawn(|| World::join(member(0, 4, port)));
        let third = scope.spawn(|| World::join(member(3, 4, port)));
        let mut stream = knock(port);
        let texts = [&1_u32.to_le_bytes()[..], b"h", &0_u32.to_le_bytes()].concat();
        stream.write_all(&hello(1, 2, 4, &texts)).expect("a rank 0");
        let mut welcome = [0; 13];
        stream.read_exact(&mut welcome).expect("a welcome");
        drop(stream);
        let message = same_message([first, third].map(|thread| thread.join().expect("a rank")));
        assert_eq!(message, "rank 2 (h) ended");
    });
}

#[test]
fn a_rank_that_cannot_be_reached_is_named() {
    let port = port();
    thread::scope(|scope| {
        let options = WorldOptions { verdict_timeout: Duration::from_millis(200), ..patient() };
        let first = scope.spawn(move || World::join(Membership { options, ..member(0, 2, port) }));
        let mut stream = knock(port);
        let texts = [&1_u32.to_le_bytes()[..], b"h", &0_u32.to_le_bytes()].concat();
        // Nobody listens at port 0.
        stream.write_all(&hello(1, 1, 2, &texts)).expect("a rank 0");
        let message = same_message([first.join().expect("a rank")]);
        assert!(message.contains(") cannot connect to rank 1 (h) at 127.0.0.1:0: "), "{message}");
        assert!(answer(stream).contains(&message));
    });
}

#[test]
fn timeouts_may_be_endless() {
    let endless = WorldOptions {
        join_timeout: Duration::MAX,
        heartbeat_timeout: Duration::MAX,
        stall_timeout: Duration::MAX,
        verdict_timeout: Duration::MAX,
    };
    for result in run(memberships(2, endless), |member| World::join(member)?.broadcast(0, &mut vec![1])) {
        result.expect("a copy");
    }
}

#[test]
fn a_port_in_use_is_named() {
    let port = port();
    let _holder = TcpListener::bind(("127.0.0.1", port)).expect("the port");
    let error = World::join(member(0, 2, port)).unwrap_err();
    assert!(error.message().contains(&format!(") cannot listen at port {port}: ")), "{error}");
}

#[test]
fn a_service_that_is_no_rank_is_told() {
    let port = port();
    let holder = TcpListener::bind(("127.0.0.1", port)).expect("the port");
    thread::spawn(move || {
        for mut stream in holder.incoming().flatten() {
            _ = stream.write_all(b"220 mail.example ESMTP service ready\r\n");
        }
    });
    let error = World::join(Membership { options: impatient(), ..member(1, 2, port) }).unwrap_err();
    assert!(error.message().starts_with("rank 1 ("), "{error}");
}

/// Kubernetes' training operator gives rank 0 the name `localhost`, and the others one that reaches it.
#[test]
#[cfg(target_os = "linux")]
fn a_first_rank_at_localhost_is_reached_from_elsewhere() {
    let port = port();
    let first = Membership { options: patient(), ..Membership::direct(0, 2, "localhost", port) };
    let second = Membership { options: patient(), ..Membership::direct(1, 2, "127.0.0.2", port) };
    for result in run(vec![first, second], |member| World::join(member)?.broadcast(0, &mut vec![1])) {
        result.expect("a copy");
    }
}

#[test]
fn a_name_with_several_addresses_is_tried_through() {
    let port = port();
    let local = |rank| Membership { options: patient(), ..Membership::direct(rank, 2, "localhost", port) };
    for world in run(vec![local(0), local(1)], World::join) {
        assert_eq!(world.expect("a world").size(), 2);
    }
}
