//! Connections to rank 0.
//!
//! In: a listener. Out: those connections that begin with a hello. Invariants: a connection that says nothing
//! keeps nobody waiting, and is closed in the end; their number is bounded.

use super::PATIENCE;
use crate::net;
use crate::wire::Hello;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// Time between looks at the listener.
const POLL: Duration = Duration::from_millis(10);
/// Connections that may be open without a hello, beyond the number of ranks.
const STRANGERS: usize = 256;

/// The connections that have arrived.
#[derive(Debug)]
pub(super) struct Arrivals {
    listener: TcpListener,
    sender: Sender<(Hello, TcpStream)>,
    receiver: Receiver<(Hello, TcpStream)>,
    /// Shared by the threads that wait for a hello, to count them.
    open: Arc<()>,
    limit: usize,
}

impl Arrivals {
    pub(super) fn new(listener: TcpListener, size: usize) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let (sender, receiver) = mpsc::channel();
        Ok(Self { listener, sender, receiver, open: Arc::default(), limit: STRANGERS + size })
    }

    /// Returns the next connection with a hello, or none after a short while.
    pub(super) fn next(&self) -> Option<(Hello, TcpStream)> {
        while let Some(stream) = net::accept(&self.listener) {
            if Arc::strong_count(&self.open) <= self.limit {
                greet(stream, self.sender.clone(), self.open.clone());
            }
        }
        self.receiver.recv_timeout(POLL).ok()
    }
}

/// Reads a hello in a thread of its own.
fn greet(mut stream: TcpStream, arrivals: Sender<(Hello, TcpStream)>, open: Arc<()>) {
    let read = move || {
        _ = stream.set_write_timeout(Some(PATIENCE));
        if let Ok(hello) = Hello::read(&mut stream, Instant::now() + PATIENCE) {
            _ = arrivals.send((hello, stream));
        }
        drop(open);
    };
    _ = thread::Builder::new().name("world hello".to_string()).spawn(read);
}
