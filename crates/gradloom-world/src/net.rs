//! Sockets with deadlines.
//!
//! In: names, addresses and a deadline. Out: connected or listening sockets that send without delay.
//! Invariant: no function blocks beyond its deadline, except for the system's resolver of names.

use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Longest attempt to connect to one address, as a name may have several.
const ATTEMPT: Duration = Duration::from_secs(5);

/// Returns the time until `deadline`, or an error if it has passed.
pub(crate) fn remaining(deadline: Instant) -> io::Result<Duration> {
    match deadline.checked_duration_since(Instant::now()) {
        Some(left) if !left.is_zero() => Ok(left),
        _ => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Returns all addresses of a host.
pub(crate) fn resolve(address: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let bare = address.trim_start_matches('[').trim_end_matches(']');
    Ok((bare, port).to_socket_addrs()?.collect())
}

/// Connects to the first of `addresses` that accepts.
pub(crate) fn connect(addresses: &[SocketAddr], deadline: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match connect_to(*address, remaining(deadline)?.min(ATTEMPT)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn connect_to(address: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, timeout)?;
    // A socket that got the port it was to connect to as its own is connected to itself.
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Returns `true` if all ranks are on one host. The name `localhost` does not tell: Kubernetes' training
/// operator gives it to rank 0 as its own.
fn is_local(address: &str) -> bool {
    address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Listens for connections to `address`: there alone if it is local, else on all interfaces, as the host may
/// know its own name by another address than the others do.
pub(crate) fn listen(address: &str, port: u16) -> io::Result<TcpListener> {
    if is_local(address) {
        return TcpListener::bind((address, port));
    }
    let has_v4 = cfg!(windows) && resolve(address, port)?.iter().any(SocketAddr::is_ipv4);
    listen_everywhere(has_v4, port)
}

/// Listens at any port, on the interface with address `own` if the meeting point `address` is local, else on
/// all interfaces.
pub(crate) fn listen_beside(address: &str, own: IpAddr) -> io::Result<TcpListener> {
    if is_local(address) {
        TcpListener::bind((own, 0))
    } else {
        listen_everywhere(own.to_canonical().is_ipv4(), 0)
    }
}

fn listen_everywhere(has_v4: bool, port: u16) -> io::Result<TcpListener> {
    let (v6, v4) = (IpAddr::from(Ipv6Addr::UNSPECIFIED), IpAddr::from(Ipv4Addr::UNSPECIFIED));
    // A socket for IPv6 also takes IPv4 everywhere but on Windows.
    let first = if cfg!(windows) && has_v4 { v4 } else { v6 };
    TcpListener::bind((first, port)).or_else(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Err(error),
        _ => TcpListener::bind((v4, port)),
    })
}

/// Accepts a waiting connection, if there is one. The listener must not block.
pub(crate) fn accept(listener: &TcpListener) -> Option<TcpStream> {
    let (stream, _) = listener.accept().ok()?;
    // Some systems let the new socket inherit the listener's mode.
    stream.set_nonblocking(false).ok()?;
    stream.set_nodelay(true).ok()?;
    Some(stream)
}

/// Fills `buffer` before the deadline.
pub(crate) fn read_exact(stream: &mut TcpStream, buffer: &mut [u8], deadline: Instant) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        stream.set_read_timeout(Some(remaining(deadline)?.max(Duration::from_millis(1))))?;
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if is_timeout(&error) || error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns `true` if a read ended because its timeout passed.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Returns `true` if the other side has closed an idle connection.
pub(crate) fn has_ended(stream: &TcpStream) -> bool {
    let mut byte = [0];
    if stream.set_nonblocking(true).is_err() {
        return true;
    }
    let peeked = stream.peek(&mut byte);
    let ended = match peeked {
        Ok(count) => count == 0,
        Err(error) => !is_timeout(&error) && error.kind() != io::ErrorKind::Interrupted,
    };
    stream.set_nonblocking(false).is_err() || ended
}

/// Returns the name of this host.
pub(crate) fn host_name() -> String {
    let variable = |name| std::env::var(name).ok();
    let file = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let command = || {
        let output = std::process::Command::new("hostname").output().ok()?;
        String::from_utf8(output.stdout).ok()
    };
    let name = file().or_else(|| variable("COMPUTERNAME")).or_else(command).unwrap_or_default();
    let name: String = name.trim().chars().filter(|c| !c.is_control()).take(200).collect();
    if name.is_empty() { "unknown host".to_string() } else { name }
}
