//! A network between ranks that fails on demand.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Treatment of bytes by the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mode {
    Pass,
    /// Bytes arrive late.
    Delay,
    /// Bytes vanish, and the connection stays open.
    Swallow,
    /// The connection is closed.
    Cut,
    /// Half of the next bytes arrive, then the connection is closed.
    Truncate,
}

const MODES: [Mode; 5] = [Mode::Pass, Mode::Delay, Mode::Swallow, Mode::Cut, Mode::Truncate];
/// Offset of the port of the data connection in a rank's first message.
const PORT: usize = 20;

/// The network between one rank and the others: its control connection, and the data connection to it.
pub(crate) struct Network {
    /// Port for the rank, in place of rank 0's.
    pub(crate) port: u16,
    control: Switch,
    data: Switch,
}

#[derive(Clone, Default)]
struct Switch(Arc<AtomicU8>);

impl Switch {
    fn mode(&self) -> Mode {
        MODES[self.0.load(SeqCst) as usize]
    }
}

impl Network {
    /// Begins to pass connections on to rank 0.
    pub(crate) fn new(first: u16) -> Self {
        let (listener, port) = listen();
        let network = Self { port, control: Switch::default(), data: Switch::default() };
        let (control, data) = (network.control.clone(), network.data.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (control, data) = (control.clone(), data.clone());
                thread::spawn(move || pass_control(stream, first, &control, &data));
            }
        });
        network
    }

    pub(crate) fn set_control(&self, mode: Mode) {
        self.control.0.store(mode as u8, SeqCst);
    }

    pub(crate) fn set_data(&self, mode: Mode) {
        self.data.0.store(mode as u8, SeqCst);
    }
}

fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("its number").port();
    (listener, port)
}

/// Passes on a control connection, and puts the port of a proxy into its first message.
fn pass_control(mut rank: TcpStream, first: u16, control: &Switch, data: &Switch) {
    // Rank 0 may not listen yet; the rank tries again.
    let Ok(mut hub) = TcpStream::connect(("127.0.0.1", first)) else { return };
    let mut head = [0; PORT + 2];
    if rank.read_exact(&mut head).is_err() {
        return;
    }
    let target = u16::from_le_bytes([head[PORT], head[PORT + 1]]);
    let (listener, port) = listen();
    head[PORT..].copy_from_slice(&port.to_le_bytes());
    if hub.write_all(&head).is_err() {
        return;
    }
    let data = data.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let target = SocketAddr::from(([127, 0, 0, 1], target));
            pump(stream, TcpStream::connect(target).expect("a rank that accepts"), &data);
        }
    });
    pump(rank, hub, control);
}

/// Passes bytes both ways.
fn pump(one: TcpStream, other: TcpStream, switch: &Switch) {
    let ends = [&one, &other].map(|stream| stream.try_clone().expect("a socket"));
    let ends = Arc::new(Mutex::new(ends));
    for (from, to) in [(&one, &other), (&other, &one)] {
        let pair = [from, to].map(|stream| stream.try_clone().expect("a socket"));
        let (switch, ends) = (switch.clone(), ends.clone());
        thread::spawn(move || {
            one_way(pair, &switch);
            for end in ends.lock().expect("sockets").iter() {
                _ = end.shutdown(Shutdown::Both);
            }
        });
    }
}

fn one_way([mut from, mut to]: [TcpStream; 2], switch: &Switch) {
    _ = from.set_read_timeout(Some(Duration::from_millis(10)));
    let mut bytes = vec![0; 64 << 10];
    loop {
        let count = match from.read(&mut bytes) {
            // What vanishes includes the news that a connection is closed.
            Ok(0) if switch.mode() == Mode::Swallow => {
                thread::sleep(Duration::from_millis(10));
                continue;
            }
            Ok(0) => return,
            Ok(count) => count,
            Err(_) if switch.mode() == Mode::Cut => return,
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) =>
            {
                continue;
            }
            Err(_) => return,
        };
        let bytes = &bytes[..count];
        let written = match switch.mode() {
            Mode::Pass => to.write_all(bytes),
            Mode::Delay => {
                thread::sleep(Duration::from_millis(20));
                to.write_all(bytes)
            }
            Mode::Swallow => Ok(()),
            Mode::Cut => return,
            Mode::Truncate => {
                _ = to.write_all(&bytes[..count / 2]);
                return;
            }
        };
        if written.is_err() {
            return;
        }
    }
}
