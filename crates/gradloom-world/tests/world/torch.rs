//! Meetings by a store that speaks the protocol of PyTorch's `TCPStore`.

use super::support::{patient, run, same_message};
use gradloom_device::communicator::Communicator;
use gradloom_world::{Membership, Rendezvous, World, WorldOptions};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

#[derive(Default)]
struct Store {
    values: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
    changed: Condvar,
}

/// Starts a store and returns it with its port.
fn start() -> (Arc<Store>, u16) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("its number").port();
    let store = Arc::new(Store::default());
    let server = store.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let server = server.clone();
            thread::spawn(move || server.serve(stream));
        }
    });
    (store, port)
}

impl Store {
    /// Answers queries as `TCPStoreLibUvBackend.cpp` does, until the client is gone.
    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut hello = [0; 5];
        stream.read_exact(&mut hello)?;
        assert_eq!(hello, [0, 0xCE, 0xF7, 0x85, 0x3C]);
        loop {
            let mut query = [0];
            stream.read_exact(&mut query)?;
            match query[0] {
                1 => {
                    let (key, value) = (text(&mut stream)?, text(&mut stream)?);
                    self.values.lock().expect("values").insert(key, value);
                    self.changed.notify_all();
                }
                3 => {
                    let value = self.values.lock().expect("values")[&text(&mut stream)?].clone();
                    stream.write_all(&(value.len() as u64).to_le_bytes())?;
                    stream.write_all(&value)?;
                }
                6 => {
                    assert_eq!(number(&mut stream)?, 1);
                    let key = text(&mut stream)?;
                    let values = self.values.lock().expect("values");
                    drop(self.changed.wait_while(values, |values| !values.contains_key(&key)));
                    stream.write_all(&[0])?;
                }
                other => panic!("query {other}"),
            }
        }
    }
}

fn number(stream: &mut TcpStream) -> io::Result<u64> {
    let mut bytes = [0; 8];
    stream.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn text(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; number(stream)? as usize];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn members(port: u16, options: WorldOptions) -> Vec<Membership> {
    let rendezvous =
        Rendezvous::TorchStore { address: "localhost".to_string(), port, key: "gradloom/run/0".to_string() };
    let member = |rank| {
        let rendezvous = rendezvous.clone();
        Membership { rendezvous, options, ..Membership::direct(rank, 3, "", 0) }
    };
    (0..3).map(member).collect()
}

fn sum(member: Membership) -> f32 {
    let world = World::join(member).expect("a world");
    let mut part = [1.0];
    world.all_reduce(&mut [&mut part]).expect("a sum");
    part[0]
}

#[test]
fn ranks_meet_by_the_store() {
    let (_store, port) = start();
    assert_eq!(run(members(port, patient()), sum), [3.0; 3]);
}

#[test]
fn an_address_of_an_earlier_start_is_replaced() {
    let (store, port) = start();
    let closed = TcpListener::bind(("127.0.0.1", 0)).expect("a port").local_addr().expect("its address");
    store.values.lock().expect("values").insert(b"gradloom/run/0".to_vec(), closed.to_string().into_bytes());
    assert_eq!(run(members(port, patient()), sum), [3.0; 3]);
}

#[test]
fn a_store_that_is_not_there_is_named() {
    let closed = TcpListener::bind(("127.0.0.1", 0)).expect("a port").local_addr().expect("its address");
    let options = WorldOptions { join_timeout: Duration::from_millis(500), ..patient() };
    for result in run(members(closed.port(), options), World::join) {
        let message = same_message([result]);
        assert!(message.contains(&format!("torchrun's store at localhost:{}", closed.port())), "{message}");
    }
}
