//! Kernel that decides on the device whether a step may commit.
//!
//! In: the plan's guards, and the starts of the windows that its commit replaces. Out: a kernel of one
//! workgroup, which runs between the two phases. It stores a [`Verdict`](crate::step::Verdict) in the step's
//! status, and a record of the step if it failed.

use super::super::ir::{Kernel, Role};
use super::{Builder, Value, Views, WORKGROUP};
use crate::narrow::narrow;
use crate::step::Window;
use crate::step::status::{
    ACKNOWLEDGED, BOUND, FAILURES, FIRST_GUARD, FIRST_RECORDS, INDEX, LAUNCH, POSITION, RECORD_WORDS,
    RECORDED_WORDS, RECORDS, STEPS, TRAPPED, VERDICT,
};
use gradloom_core::ir::DType;

/// Value in place of a guard's verdict if all guards are finite.
const FINITE: u32 = u32::MAX;

/// Returns the kernel that checks guards and windows. Its operands are the guards, followed by the starts of
/// the windows.
pub fn guards(views: &Views<'_>, windows: &[Window<'_>]) -> Kernel {
    let count = views.reads.len() - windows.len();
    let elements = |guard: usize| views.reads[guard].layout.shape.elements();
    let largest = (0..count).map(elements).max().unwrap_or(1);
    let workgroup = largest.next_power_of_two().min(WORKGROUP as usize);
    let workgroup = narrow(workgroup);
    let k = Builder::new("guards", workgroup, 1);
    // Verdict of the first guard that is not finite, first among the invocation's elements, and then, in
    // shared memory, among those of the workgroup.
    let first = k.var(k.u32(FINITE));
    for guard in 0..count {
        k.count(k.local(), k.u32(narrow(elements(guard))), k.u32(workgroup), |element| {
            let exponent = views.load(&k, guard, element).bitcast(DType::U32) & 0x7f80_0000;
            let number = k.u32(FIRST_GUARD + narrow(guard));
            k.when(exponent.equals(k.u32(0x7f80_0000)), || first.set(first.get().min(number)));
        });
    }
    let firsts = k.shared(DType::U32, workgroup);
    k.set_element(firsts, k.local(), first.get());
    k.barrier();
    k.halve(workgroup / 2, |half| {
        k.when(k.local().less(half), || {
            let [own, other] = [k.local(), k.local() + half].map(|i| k.element(firsts, i));
            k.set_element(firsts, k.local(), own.min(other));
        });
        k.barrier();
    });
    k.when(k.local().equals(k.u32(0)), || {
        let status = Status { k: &k, buffer: k.buffer(Role::Status, DType::U32) };
        for (number, window) in windows.iter().enumerate() {
            check(&status, window, views.load(&k, count + number, k.u32(0)));
        }
        let first = k.element(firsts, k.u32(0));
        let verdict = first.equals(k.u32(FINITE)).select(k.u32(0), first);
        let trapped = status.get(LAUNCH).equals(k.u32(0));
        status.set(VERDICT, trapped.select(verdict, k.u32(TRAPPED)));
        record(&status);
    });
    k.finish()
}

/// Access to the words of the step's status.
struct Status<'k> {
    k: &'k Builder,
    buffer: u32,
}

impl<'k> Status<'k> {
    fn get(&self, word: usize) -> Value<'k> {
        self.at(self.k.u32(narrow(word)))
    }

    fn at(&self, word: Value<'k>) -> Value<'k> {
        self.k.load(self.buffer, word)
    }

    fn set(&self, word: usize, value: Value<'k>) {
        self.k.store(self.buffer, self.k.u32(narrow(word)), value);
    }

    /// Increments a word, and returns its previous value.
    fn increment(&self, word: usize) -> Value<'k> {
        let before = self.get(word);
        self.set(word, before + 1);
        before
    }
}

/// Records a trap if the start of a window is out of range, unless the step has already trapped.
fn check<'k>(status: &Status<'k>, window: &Window<'_>, start: Value<'k>) {
    let k = status.k;
    let bound = k.i32(narrow(window.room + 1).cast_signed());
    let outside = start.less(k.i32(0)) | !start.less(bound);
    k.when(outside & status.get(LAUNCH).equals(k.u32(0)), || {
        status.set(LAUNCH, k.u32(narrow(window.launch + 1)));
        status.set(POSITION, k.u32(narrow(window.axis)));
        status.set(INDEX, start.bitcast(DType::U32));
        status.set(BOUND, bound.bitcast(DType::U32));
    });
}

/// Counts a step with a verdict. If it failed, stores a record of it as the last failure, and also among the
/// first failures that the host has not acknowledged, unless four of them already have a record.
fn record(status: &Status<'_>) {
    let k = status.k;
    let step = status.increment(STEPS);
    k.when(!status.get(VERDICT).equals(k.u32(0)), || {
        let failure = status.increment(FAILURES);
        let is_first = (failure - status.get(ACKNOWLEDGED)).below(narrow(FIRST_RECORDS));
        let slot = failure % narrow(FIRST_RECORDS) * narrow(RECORD_WORDS) + narrow(RECORDS);
        let last = k.u32(narrow(RECORDS + FIRST_RECORDS * RECORD_WORDS));
        k.count(is_first.select(k.u32(0), k.u32(1)), k.u32(2), k.u32(1), |copy| {
            let record = copy.equals(k.u32(0)).select(slot, last);
            k.store(status.buffer, record, failure + 1);
            k.store(status.buffer, record + 1, step);
            k.count(k.u32(0), k.u32(narrow(RECORDED_WORDS)), k.u32(1), |word| {
                k.store(status.buffer, record + 2 + word, status.at(word));
            });
        });
    });
}
