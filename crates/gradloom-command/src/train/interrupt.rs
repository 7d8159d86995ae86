//! Ctrl-C: before there is anything to save it ends the process; then the first one asks the run to stop
//! after its step, and the second one ends the process.

use crate::failure::{Failure, Result};
use crate::output::tell;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

/// True once there is something to save.
static SAVES: AtomicBool = AtomicBool::new(false);
static ASKED: AtomicBool = AtomicBool::new(false);

/// Takes over interrupts and requests to terminate. This needs a thread, so it comes before everything that
/// takes threads or leaves files.
pub(super) fn listen() -> Result<()> {
    let stop = || {
        if !SAVES.load(Ordering::Relaxed) {
            tell!("\nstopped before the first step");
            process::exit(1);
        }
        if ASKED.swap(true, Ordering::Relaxed) {
            tell!("\nstopped at once; the last saved state is intact");
            process::exit(1);
        }
        tell!("\nfinishing the step and saving; Ctrl-C again stops at once");
    };
    ctrlc::set_handler(stop).map_err(|error| {
        Failure::failed(format!("Ctrl-C cannot be listened for, which takes a thread: {error}"))
            .help("end other programs, or raise the limit of processes (ulimit -u) or of memory (ulimit -v)")
    })
}

/// Makes the first interrupt request a stop after the step from now on, instead of ending the process.
pub(super) fn save_first() {
    SAVES.store(true, Ordering::Relaxed);
}

/// Returns whether the run is to stop.
pub(super) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
