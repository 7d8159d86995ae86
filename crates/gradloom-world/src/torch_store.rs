//! A client of PyTorch's `TCPStore`, in which torchrun's agent lets its ranks leave values.
//!
//! In: keys and values. Out: the values of others. The protocol is that of `TCPStore.cpp` and
//! `TCPStoreBackend.hpp` in `torch/csrc/distributed/c10d`, which both backends of the store speak: a byte for
//! the query, then its arguments; texts follow their length in 8 bytes. The numbers are in the byte order of
//! the store's host, which is taken to be little-endian. Invariant: no call lasts beyond the deadline.

use crate::net;
use std::io::{self, Write};
use std::net::{IpAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

const VALIDATE: u8 = 0;
const SET: u8 = 1;
const GET: u8 = 3;
const WAIT: u8 = 6;
/// Argument of `VALIDATE`, by which the store knows its clients.
const MAGIC: u32 = 0x3C85_F7CE;
/// Answer to `WAIT` when all keys are there.
const STOP_WAITING: u8 = 0;
/// Longest value that is read, in bytes.
const MAX_VALUE: u64 = 4096;
/// Time between attempts to connect.
const PAUSE: Duration = Duration::from_millis(200);

/// A connection to a store.
#[derive(Debug)]
pub(crate) struct Store {
    stream: TcpStream,
    deadline: Instant,
}

impl Store {
    /// Connects, and tries again until the deadline if there is no store yet.
    pub(crate) fn connect_patiently(address: &str, port: u16, deadline: Instant) -> io::Result<Self> {
        loop {
            let connected = net::resolve(address, port).and_then(|found| net::connect(&found, deadline));
            match connected {
                Ok(stream) => return Self::validated(stream, deadline),
                Err(error) if Instant::now() + PAUSE >= deadline => return Err(error),
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }

    fn validated(stream: TcpStream, deadline: Instant) -> io::Result<Self> {
        let mut store = Self { stream, deadline };
        let mut query = vec![VALIDATE];
        query.extend(MAGIC.to_le_bytes());
        store.stream.write_all(&query)?;
        Ok(store)
    }

    /// Sets a value, and returns when the store has it.
    pub(crate) fn set(&mut self, key: &str, value: &[u8]) -> io::Result<()> {
        let mut query = vec![SET];
        put(&mut query, key.as_bytes());
        put(&mut query, value);
        self.stream.write_all(&query)?;
        // `SET` has no answer.
        self.wait(key)
    }

    /// Waits until a key is there, and returns its value.
    pub(crate) fn wait_and_get(&mut self, key: &str) -> io::Result<Vec<u8>> {
        self.wait(key)?;
        let mut query = vec![GET];
        put(&mut query, key.as_bytes());
        self.stream.write_all(&query)?;
        let mut length = [0; 8];
        net::read_exact(&mut self.stream, &mut length, self.deadline)?;
        let length = u64::from_le_bytes(length);
        if length > MAX_VALUE {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the store's value is too long"));
        }
        let mut value = vec![0; length as usize];
        net::read_exact(&mut self.stream, &mut value, self.deadline)?;
        Ok(value)
    }

    fn wait(&mut self, key: &str) -> io::Result<()> {
        let mut query = vec![WAIT];
        query.extend(1_u64.to_le_bytes());
        put(&mut query, key.as_bytes());
        self.stream.write_all(&query)?;
        let mut answer = [0];
        net::read_exact(&mut self.stream, &mut answer, self.deadline)?;
        if answer[0] == STOP_WAITING { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    /// Returns the address under which the store sees this host.
    pub(crate) fn local_ip(&self) -> io::Result<IpAddr> {
        Ok(self.stream.local_addr()?.ip().to_canonical())
    }

    /// Returns the address of the store's host.
    pub(crate) fn peer_ip(&self) -> io::Result<IpAddr> {
        Ok(self.stream.peer_addr()?.ip().to_canonical())
    }
}

/// Appends bytes after their length.
fn put(query: &mut Vec<u8>, bytes: &[u8]) {
    query.extend((bytes.len() as u64).to_le_bytes());
    query.extend(bytes);
}
