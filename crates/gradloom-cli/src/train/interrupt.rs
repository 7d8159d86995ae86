//! Ctrl-C: the first one asks the run to stop after its step, the second one stops the process.

use crate::failure::{Failure, Result};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(false);

/// From now on an interrupt (or a request to terminate) only asks.
pub(super) fn listen() -> Result<()> {
    ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::Relaxed) {
            eprintln!("\nstopped at once; the last saved state is intact");
            process::exit(1);
        }
        eprintln!("\nfinishing the step and saving; Ctrl-C again stops at once");
    })
    .map_err(|error| Failure::failed(format!("cannot listen for Ctrl-C: {error}")))
}

/// Whether somebody wants the run to stop.
pub(super) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}
