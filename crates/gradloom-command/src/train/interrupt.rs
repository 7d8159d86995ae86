//! Handling of Ctrl-C. Before there is anything to save, Ctrl-C ends the process. Afterwards, the first one
//! requests a stop after the current step, and the second one ends the process.

use crate::failure::{Failure, Result};
use crate::output::tell;
use crate::world;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

/// True once there is something to save.
static SAVES: AtomicBool = AtomicBool::new(false);
static ASKED: AtomicBool = AtomicBool::new(false);

/// Installs the handler of interrupts and requests to terminate. This starts a thread, so it must precede
/// everything that needs threads or leaves files.
pub(super) fn listen() -> Result<()> {
    ctrlc::set_handler(stop).map_err(|error| {
        Failure::failed(format!("Ctrl-C cannot be listened for, which takes a thread: {error}"))
            .help("end other programs, or raise the limit of processes (ulimit -u) or of memory (ulimit -v)")
    })
}

/// Handles an interrupt.
pub(crate) fn stop() {
    let speaks = world::is_first();
    if !SAVES.load(Ordering::Relaxed) {
        if speaks {
            tell!("\nstopped before the first step");
        }
        process::exit(1);
    }
    let again = ASKED.swap(true, Ordering::Relaxed);
    match (again, speaks) {
        (true, true) => tell!("\nstopped at once; the last saved state is intact"),
        (false, true) => tell!("\nfinishing the step and saving; Ctrl-C again stops at once"),
        (_, false) => {}
    }
    if again {
        process::exit(1);
    }
}

/// Changes the first interrupt from now on to request a stop after the current step, instead of ending the
/// process.
pub(super) fn save_first() {
    SAVES.store(true, Ordering::Relaxed);
}

/// Returns `true` if a stop was requested.
pub(super) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
