//! Outputs, guards and updates of a whole step.

use crate::{INF, NAN, assert_same, run, trap};
use gradloom_core::reference::Evaluation;

fn next(evaluation: &Evaluation, name: &str) -> Vec<f64> {
    evaluation.next(name).unwrap().to_f64()
}

#[test]
fn reads_see_the_start_of_the_step() {
    let lines = "%0: f32[2] = param \"a\"\n%1: f32[2] = state \"b\" {init=7.0}\n%2: f32[2] = add %0, %1\n\
                 output \"sum\" %2\noutput \"a\" %0\nupdate %0 <- %1\nupdate %1 <- %0";
    let evaluation = run(lines, &[("a", &[1.0, 2.0])]).unwrap();
    assert_same(next(&evaluation, "a"), &[7.0, 7.0]);
    assert_same(next(&evaluation, "b"), &[1.0, 2.0]);
    assert_same(evaluation.output("sum").unwrap().to_f64(), &[8.0, 9.0]);
    assert_same(evaluation.output("a").unwrap().to_f64(), &[1.0, 2.0]);
    assert!(evaluation.committed());
    assert!(evaluation.output("b").is_none() && evaluation.next("sum").is_none());
}

const CACHE: &str = "%0: f32[3, 2] = state \"cache\" {init=0.0}\n%1: i32[] = input \"row\"\n\
                     %2: i32[] = constant 0\n\
                     %3: f32[1, 2] = constant [1.0, 2.0]\n%4: i32[] = constant 2\n\
                     %5: f32[1, 1] = constant 9.0\n\
                     update %0[%1, %2] <- %3\nupdate %0[%4, %2] <- %5\n";

#[test]
fn regions_are_written_in_order() {
    let at = |row: f64| next(&run(CACHE, &[("row", &[row])]).unwrap(), "cache");
    assert_same(at(0.0), &[1.0, 2.0, 0.0, 0.0, 9.0, 0.0]);
    assert_same(at(2.0), &[0.0, 0.0, 0.0, 0.0, 9.0, 2.0]);
    let scalar =
        "%0: i32[] = state \"n\" {init=3}\n%1: i32[] = constant 1\n%2: i32[] = add %0, %1\nupdate %0[] <- %2";
    assert_same(next(&run(scalar, &[]).unwrap(), "n"), &[4.0]);
}

#[test]
fn a_region_out_of_range_traps() {
    for row in [3.0, -1.0] {
        assert_eq!(
            trap(CACHE, &[("row", &[row])]),
            format!(
                "the update of \"cache\": index {row} on axis 0 is out of range: a window of 1 in an extent \
                 of 3 starts at 0..=2"
            )
        );
    }
}

#[test]
fn a_guard_that_is_not_finite_keeps_everything_as_it_was() {
    let lines = "%0: f32[2] = param \"w\"\n%1: f32[2] = input \"g\"\n%2: f32[] = constant 1.0\n\
                 %3: f32[2] = add %0, %1\n\
                 output \"y\" %3\nguard \"one\" %2\nguard \"gradient\" %1\nupdate %0 <- %3";
    let step = |g: &[f64]| run(lines, &[("w", &[1.0, 2.0]), ("g", g)]).unwrap();
    let fine = step(&[1.0, -3.0]);
    assert_same(next(&fine, "w"), &[2.0, -1.0]);
    assert_same(fine.guard("gradient").unwrap().to_f64(), &[1.0, -3.0]);
    for bad in [NAN, INF, -INF] {
        let stopped = step(&[1.0, bad]);
        assert_eq!(stopped.not_finite.as_deref(), Some("gradient"));
        assert!(!stopped.committed());
        assert_same(next(&stopped, "w"), &[1.0, 2.0]);
        assert_same(stopped.output("y").unwrap().to_f64(), &[2.0, 2.0 + bad]);
        assert_same(stopped.guard("one").unwrap().to_f64(), &[1.0]);
    }
}

#[test]
fn guards_are_judged_in_float64() {
    // The number 1e39 overflows f32, but not the f64 of the reference, which defines the meaning of the
    // program.
    let step = run("%0: f32[] = constant 1e39\nguard \"loss\" %0", &[]).unwrap();
    assert!(step.committed());
}
