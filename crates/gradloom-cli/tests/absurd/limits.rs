//! Small limits of a process.

use super::case::Bench;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Minimum memory in bytes with which the system can start the program, for its code, the libraries and the
/// first stack. A debug build needs about 40 MiB.
const LEAST_MEMORY: u64 = 64 << 20;
/// Minimum stack in bytes with which the program reaches its first instruction: the arguments and the
/// environment are on it, too.
const LEAST_STACK: u64 = 64 << 10;
/// Number of files that the system opens to start the program, including the three standard streams.
const LEAST_FILES: u64 = 4;

/// A limit set by the system.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub(crate) name: &'static str,
    pub(crate) value: u64,
    /// User to run the process as. The limit on processes counts those of a user, and does not apply to root.
    pub(crate) user: Option<u32>,
}

/// Returns a user without processes, a different one each time: two cases of the same user would share a
/// limit.
fn other_user() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    20_000 + std::process::id() % 400 * 100 + NEXT.fetch_add(1, Ordering::Relaxed) % 100
}

/// Returns the limits to test each command with.
pub(crate) fn all(bench: &Bench) -> Vec<Limit> {
    let mib = |n: u64| n << 20;
    let memory = [LEAST_MEMORY, mib(80), mib(100), mib(130), mib(200), mib(400), mib(1000)];
    let files = [LEAST_FILES, 5, 6, 8, 12];
    let stack = [LEAST_STACK, 128 << 10, 256 << 10, mib(1)];
    let sizes = [0, 1, 1000, 20_000];
    let mut limits = Vec::new();
    let mut add =
        |name, values: &[u64]| limits.extend(values.iter().map(|&value| Limit { name, value, user: None }));
    add("memory", &memory);
    add("files", &files);
    add("stack", &stack);
    add("size", &sizes);
    limits.extend([1, 2, 3, 6].into_iter().filter_map(|n| processes(bench, n)));
    limits
}

/// Returns a limit on the number of processes and threads, including the command's first one; `None` if this
/// user cannot set it up.
pub(crate) fn processes(bench: &Bench, value: u64) -> Option<Limit> {
    // SAFETY: `geteuid` has no preconditions.
    let is_root = unsafe { libc::geteuid() } == 0;
    // The number of this user's other processes is unknown, so only a limit of 1 is certain to be too low.
    let user = is_root.then(other_user);
    let possible = user.map_or(value == 1, |user| bench.can_become(user));
    possible.then_some(Limit { name: "processes", value, user })
}

impl Limit {
    /// Sets the limit for a command before it starts.
    pub(crate) fn apply(&self, command: &mut Command) {
        let resource = match self.name {
            "memory" => libc::RLIMIT_AS,
            "files" => libc::RLIMIT_NOFILE,
            "stack" => libc::RLIMIT_STACK,
            "size" => libc::RLIMIT_FSIZE,
            _ => libc::RLIMIT_NPROC,
        };
        let limit = libc::rlimit { rlim_cur: self.value, rlim_max: self.value };
        let user = self.user;
        // SAFETY: only system calls are made between `fork` and `exec`.
        unsafe {
            command.pre_exec(move || {
                if libc::setrlimit(resource, &raw const limit) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
                match user {
                    Some(user) if libc::setgid(user) != 0 || libc::setuid(user) != 0 => {
                        Err(std::io::Error::last_os_error())
                    }
                    _ => Ok(()),
                }
            });
        }
    }
}
