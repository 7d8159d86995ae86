//! Words in which the device reports the outcome of steps.
//!
//! In: the words that the device wrote. Out: the [`Verdict`] of the last step, and the failed steps before
//! it, until the host acknowledges them.
//!
//! The first [`STEP_WORDS`] belong to one step, and are zero when it starts: 0 is the verdict; 1 the number,
//! from 1, of the launch that trapped or whose window is out of range; 2 the position of the index or zero
//! divisor among its operand's elements, or the axis of the window; 3 the index, as i32, or 0 for a divisor;
//! 4 the exclusive upper bound of the index, or 0 for a divisor. The other words persist across steps, and
//! only the guards write them, except for [`ACKNOWLEDGED`]: the number of steps, the number of failures, and
//! records of the first failures that the host has not acknowledged and of the last one.

use gradloom_core::collections::sort_by_key;

/// Number of status words that belong to one step.
pub const STEP_WORDS: usize = 8;
/// Total number of status words.
pub const STATUS_WORDS: usize = RECORDS + (FIRST_RECORDS + 1) * RECORD_WORDS;
/// Index of the word in which the host stores the number of failures that it has acknowledged. Their records
/// may be overwritten.
pub const ACKNOWLEDGED: usize = 10;

/// Index of the word with the verdict.
pub(crate) const VERDICT: usize = 0;
/// Index of the word with the number, from 1, of the launch that trapped or whose window is out of range.
pub(crate) const LAUNCH: usize = 1;
/// Index of the word with the position of the invalid index or divisor among its operand's elements, or with
/// the axis of a window that is out of range.
pub(crate) const POSITION: usize = 2;
/// Index of the word with the index that was out of range.
pub(crate) const INDEX: usize = 3;
/// Index of the word with the exclusive upper bound of the index.
pub(crate) const BOUND: usize = 4;
/// Number of a step's words that are copied to its record.
pub(crate) const RECORDED_WORDS: usize = 5;

/// Index of the word with the number of steps.
pub(crate) const STEPS: usize = 8;
/// Index of the word with the number of failed steps.
pub(crate) const FAILURES: usize = 9;
/// Index of the first word of the first record. A record begins with the failure's number, from 1; its step's
/// number, from 0; and the words 0 to 4 of that step. Its last word is unused.
pub(crate) const RECORDS: usize = 12;
pub(crate) const RECORD_WORDS: usize = 8;
/// Number of failures after the acknowledged ones that are sure to have a record: failure `n`, counted from
/// 0, uses record `n % FIRST_RECORDS`. The record after those contains the last failure.
pub(crate) const FIRST_RECORDS: usize = 4;

/// Verdict of a step that trapped.
pub(crate) const TRAPPED: u32 = 1;
/// Verdict of a step whose guard 0 is not finite; the verdicts of the other guards follow.
pub(crate) const FIRST_GUARD: u32 = 2;

/// Outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All updates took effect.
    Committed,
    /// An index was out of range, or an integer divisor was zero.
    Trapped {
        /// Index of the launch.
        launch: usize,
        /// Position of the index or divisor among its operand's elements, or the axis of a window.
        position: usize,
        /// Index that was out of range; 0 for a divisor.
        index: i32,
        /// Exclusive upper bound of the index; 0 for a divisor.
        bound: usize,
    },
    /// The guard with this index is not finite.
    NotFinite(usize),
}

impl Verdict {
    fn new(step: &[u32]) -> Self {
        match step[0] {
            0 => Verdict::Committed,
            TRAPPED => Self::trap(step).expect("what trapped is said"),
            guard => Verdict::NotFinite((guard - FIRST_GUARD) as usize),
        }
    }

    fn trap(step: &[u32]) -> Option<Self> {
        Some(Verdict::Trapped {
            launch: (step[1] as usize).checked_sub(1)?,
            position: step[2] as usize,
            index: step[3].cast_signed(),
            bound: step[4] as usize,
        })
    }
}

/// Step that failed, and therefore had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Number of failures before this one.
    pub number: u32,
    /// Number of steps before the failed one.
    pub step: u32,
    /// Outcome of the step.
    pub verdict: Verdict,
}

/// Status words after a step.
#[derive(Clone, Copy, Debug)]
pub struct Status([u32; STATUS_WORDS]);

impl Status {
    /// Reads the words from little-endian bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self(std::array::from_fn(|i| u32::from_le_bytes([0, 1, 2, 3].map(|b| bytes[4 * i + b]))))
    }

    /// Returns the outcome of the step.
    pub fn verdict(&self) -> Verdict {
        Verdict::new(&self.0)
    }

    /// Returns the trap that was recorded, if any, even before the step has a verdict.
    pub fn trap(&self) -> Option<Verdict> {
        Verdict::trap(&self.0)
    }

    /// Returns the recorded failures from number `first` on, in order. They include the last failure, and the
    /// first four after those that the host had acknowledged.
    pub fn failures_from(&self, first: u32) -> Vec<Failure> {
        let records = self.0[RECORDS..].chunks_exact(RECORD_WORDS);
        let failure = |record: &[u32]| {
            let number = record[0].checked_sub(1)?;
            (number >= first).then(|| Failure {
                number,
                step: record[1],
                verdict: Verdict::new(&record[2..]),
            })
        };
        let mut failures: Vec<Failure> = records.filter_map(failure).collect();
        sort_by_key(&mut failures, |failure| failure.number);
        // Remove the duplicate of the last failure, which may have two records.
        failures.dedup();
        failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_in_order_and_from_a_number_on() {
        let mut words = [0u32; STATUS_WORDS];
        words[FAILURES] = 9;
        // The host has acknowledged four failures. The fifth and the sixth have a record each, as does the
        // last failure, the ninth; the records of the third and the fourth are older.
        let ring = [(5, 20), (6, 21), (3, 8), (4, 9), (9, 40)];
        for (slot, (number, step)) in ring.into_iter().enumerate() {
            let record = &mut words[RECORDS + slot * RECORD_WORDS..][..RECORD_WORDS];
            record[..3].copy_from_slice(&[number, step, FIRST_GUARD + 1]);
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let status = Status::new(&bytes);
        assert_eq!((status.verdict(), status.trap()), (Verdict::Committed, None));
        let failure = |number, step| Failure { number, step, verdict: Verdict::NotFinite(1) };
        assert_eq!(status.failures_from(4), [failure(4, 20), failure(5, 21), failure(8, 40)]);
        assert_eq!(status.failures_from(8), [failure(8, 40)]);
        assert_eq!(status.failures_from(9), []);
    }

    #[test]
    fn the_last_failure_is_one_also_when_it_is_among_the_first() {
        let mut words = [0u32; STATUS_WORDS];
        words[FAILURES] = 1;
        for slot in [0, FIRST_RECORDS] {
            let record = &mut words[RECORDS + slot * RECORD_WORDS..][..RECORD_WORDS];
            record[..7].copy_from_slice(&[1, 6, TRAPPED, 3, 17, u32::MAX, 11]);
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let verdict = Verdict::Trapped { launch: 2, position: 17, index: -1, bound: 11 };
        assert_eq!(Status::new(&bytes).failures_from(0), [Failure { number: 0, step: 6, verdict }]);
    }
}
