//! Splitting of elementwise kernels, if their values exceed the size limit of a binding, into several
//! kernels.
//!
//! Other kernels select the piece at run time (`memory.rs`); those of optimizers would need too many
//! bindings for that.

use crate::limits::Limits;
use crate::schedule::group::{body_of, class, is_map, schedule};
use gradloom_core::kernel::{Access, Body, Kernel, Launch, Layout, Part, Schedule};
use gradloom_core::plan::ALIGNMENT;

/// Returns the launch as a group in which elementwise parts on large values are cut; `None` if there are no
/// such parts.
pub(super) fn in_pieces(launch: &Launch, limits: &Limits) -> Option<Launch> {
    let whole = [Part::whole(launch)];
    let parts = if let Kernel::Group(parts) = &launch.kernel { &parts[..] } else { &whole };
    // Leave space for the alignment of a binding's start, which may precede the elements.
    let most = limits.binding_bytes.saturating_sub(ALIGNMENT).max(ALIGNMENT) / ALIGNMENT * (ALIGNMENT / 4);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if !parts.iter().any(|part| is_large(launch, part, most)) {
        return None;
    }
    let mut cut = Launch { reads: Vec::new(), writes: Vec::new(), may_alias: Vec::new(), ..launch.clone() };
    let mut pieces = Vec::new();
    for part in parts {
        if !is_large(launch, part, most) {
            pieces.push(add(&mut cut, launch, part, part.kernel.clone(), Access::clone));
            continue;
        }
        let body = body_of(part);
        let count = body.rows * body.columns;
        for start in (0..count).step_by(most) {
            let columns = most.min(count - start);
            let kernel = Kernel::Loop(Body { rows: 1, columns, ..body.clone() });
            pieces.push(add(&mut cut, launch, part, kernel, |access| match access.layout.shape.elements() {
                all if all == count => {
                    let layout = Layout::new(access.layout.offset + start, [columns].into(), vec![1]);
                    Access { layout, ..access.clone() }
                }
                // All positions use the operand's only element, so it is not cut.
                _ => access.clone(),
            }));
        }
    }
    cut.kernel = Kernel::Group(pieces);
    if !matches!(cut.schedule, Schedule::Group(_)) {
        cut.schedule = Schedule::Group(schedule(limits));
    }
    Some(cut)
}

/// Returns `true` if a part is an elementwise loop over more than `most` contiguous elements.
fn is_large(launch: &Launch, part: &Part, most: usize) -> bool {
    let Kernel::Loop(body) = &part.kernel else { return false };
    body.rows * body.columns > most
        && is_map(body)
        && class(part, &launch.reads[part.reads.clone()], &launch.writes[part.writes.clone()]).is_some()
}

/// Adds the operands of a part, changed by `piece`, to a launch; returns the part of that launch.
fn add(
    cut: &mut Launch,
    launch: &Launch,
    part: &Part,
    kernel: Kernel,
    piece: impl Fn(&Access) -> Access,
) -> Part {
    let (read, write) = (cut.reads.len(), cut.writes.len());
    cut.reads.extend(launch.reads[part.reads.clone()].iter().map(&piece));
    cut.writes.extend(launch.writes[part.writes.clone()].iter().map(&piece));
    Part {
        kernel,
        reads: read..cut.reads.len(),
        writes: write..cut.writes.len(),
        schedule: part.schedule.clone(),
        workspace: part.workspace.clone(),
    }
}
