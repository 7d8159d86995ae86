//! The page's GPU, reached through functions that the module imports from the script.

use crate::gpu;
use crate::ids::Ids;
use gradloom_webgpu::{WebCopy, WebHost, WebKernel, WebRange};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A kernel as shown to users.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) label: String,
    pub(crate) source: String,
    pub(crate) workgroups: [u32; 3],
}

/// The script's device, and the module's state for it.
#[derive(Debug)]
pub(crate) struct Browser {
    /// True if a device exists; without one, programs can only be inspected.
    real: bool,
    state: Mutex<BrowserState>,
}

#[derive(Debug, Default)]
struct BrowserState {
    programs: Ids<Described>,
    /// Results that have arrived, by ticket.
    arrived: Ids<Vec<u8>>,
    last: u32,
    last_program: u32,
    trouble: Option<String>,
}

/// A program's kernels.
#[derive(Debug, Default)]
struct Described {
    kernels: Vec<Listed>,
    /// Number of kernels that each step runs.
    steps: usize,
    paused: bool,
}

impl Browser {
    pub(crate) fn new(real: bool) -> Self {
        Self { real, state: Mutex::default() }
    }

    /// Returns `true` if programs can run on the device.
    pub(crate) fn is_real(&self) -> bool {
        self.real
    }

    /// Returns the number of the program described last.
    pub(crate) fn last_program(&self) -> u32 {
        self.state().last_program
    }

    /// Returns a program's kernels in order.
    pub(crate) fn kernels(&self, program: u32) -> Vec<Listed> {
        self.state().programs.get(program as usize).map(|program| program.kernels.clone()).unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, BrowserState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the ticket of the last submission.
    pub(crate) fn last(&self) -> u32 {
        self.state().last
    }

    /// Stores the results of a submission.
    pub(crate) fn deliver(&self, ticket: u32, bytes: Vec<u8>) {
        self.state().arrived.insert(ticket as usize, bytes);
    }

    /// Records that the device is lost, with the reason.
    pub(crate) fn fail(&self, why: String) {
        self.state().trouble.get_or_insert(why);
    }
}

impl WebHost for Browser {
    fn buffer(&self, bytes: usize) -> u32 {
        if self.real { gpu::buffer(bytes) } else { 0 }
    }

    fn drop_buffer(&self, buffer: u32) {
        if self.real {
            gpu::drop_buffer(buffer);
        }
    }

    fn write(&self, buffer: u32, offset: usize, bytes: &[u8]) {
        if self.real {
            gpu::write(buffer, offset, bytes);
        }
    }

    fn program(&self, results: usize, cleared: WebRange) -> u32 {
        let mut state = self.state();
        let program = if self.real { gpu::program() } else { state.last_program + 1 };
        state.last_program = program;
        state.programs.insert(program as usize, Described::default());
        if self.real {
            gpu::staging(program, results);
            gpu::clear(program, cleared);
        }
        program
    }

    fn drop_program(&self, program: u32) {
        self.state().programs.remove(program as usize);
        if self.real {
            gpu::drop_program(program);
        }
    }

    fn kernel(&self, program: u32, kernel: &WebKernel<'_>) {
        let WebKernel { once, late, label, source, workgroups, .. } = *kernel;
        let mut state = self.state();
        let described = state.programs.get_mut(program as usize).expect("it was made first");
        if late && !described.paused {
            described.paused = true;
            if self.real {
                gpu::pause(program, described.steps);
            }
        }
        described.steps += usize::from(!once);
        described.kernels.push(Listed { label: label.into(), source: source.into(), workgroups });
        if self.real {
            gpu::dispatch(program, kernel);
        }
    }

    fn copy(&self, program: u32, copy: &WebCopy) {
        if self.real {
            gpu::copy(program, copy);
        }
    }

    fn submit(&self, program: u32) -> u32 {
        let ticket = if self.real { gpu::submit(program) } else { 0 };
        self.state().last = ticket;
        ticket
    }

    fn results(&self, ticket: u32) -> Option<Vec<u8>> {
        self.state().arrived.remove(ticket as usize)
    }

    fn drop_results(&self, ticket: u32) {
        self.state().arrived.remove(ticket as usize);
        if self.real {
            gpu::drop_ticket(ticket);
        }
    }

    fn trouble(&self) -> Option<String> {
        self.state().trouble.clone()
    }
}
