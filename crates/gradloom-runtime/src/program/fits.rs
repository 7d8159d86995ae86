//! Checks that the host has enough memory for a program and for copies of its results.
//!
//! In: a plan, and the limit on memory in bytes. Out: nothing, or an error for a plan that does not fit,
//! before anything is allocated.

use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::kernel::Access;
use gradloom_core::plan::Plan;
use gradloom_core::plan::report::{exact_bytes, human_bytes};

/// Returns the size in bytes of a copy of an output. A view may have far more elements than its buffer.
pub(super) fn host_bytes(access: &Access) -> u64 {
    (access.layout.shape.elements() as u64).saturating_mul(access.dtype.bytes() as u64)
}

/// Returns the number of bytes needed to return an output to the caller: its elements and, if they are bytes,
/// a copy of them as f32. Elements of 4 bytes are converted to f32 in place.
fn handed_out_bytes(access: &Access) -> u64 {
    let copied = host_bytes(access);
    if access.dtype.bytes() == 1 { copied.saturating_mul(5) } else { copied }
}

/// Rejects a plan that cannot run within `limit` bytes of the host's memory.
pub(super) fn check(plan: &Plan, limit: Option<u64>) -> Result<()> {
    let Some(limit) = limit else { return Ok(()) };
    let results = plan.outputs.iter().map(|(_, access)| handed_out_bytes(access));
    let results = results.fold(0, u64::saturating_add);
    let needed = plan.totals.peak().saturating_add(results);
    if needed <= limit {
        return Ok(());
    }
    let [needed, limit] = [needed, limit].map(exact_bytes);
    let [planned, copied] = [plan.totals.peak(), results].map(human_bytes);
    let message = format!("running the program takes {needed} of memory, the limit is {limit}");
    let mut error = Error::new(ErrorKind::Plan, message)
        .note(format!("{planned} are the plan's, {copied} are copies of what the program gives out"));
    if let Some((name, access)) = plan.outputs.iter().max_by_key(|(_, access)| host_bytes(access)) {
        let (dtype, shape) = (access.dtype, &access.layout.shape);
        error = error.note(format!(
            "the largest is the output `{name}`, {dtype}{shape}, {}",
            human_bytes(host_bytes(access))
        ));
    }
    Err(error
        .help("make the batch or the context smaller, or give out less: a sum or a slice of what is large"))
}
