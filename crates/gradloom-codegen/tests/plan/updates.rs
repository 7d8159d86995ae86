//! Tests of updates, which take effect together, and in place if possible.

use crate::{buffer, planned, refused, steps};
use gradloom_core::error::ErrorKind;
use gradloom_core::ir::ValueId;
use gradloom_core::kernel::{Kernel, Phase};
use gradloom_core::plan::ALIGNMENT;
use gradloom_core::plan::{Region, Role};

#[test]
fn a_swap_keeps_both_values_before_it_writes_either() {
    let plan = planned(
        "%0: f32[3] = state \"a\" {init=0.0}\n%1: f32[3] = state \"b\" {init=1.0}\n\
         update %0 <- %1\nupdate %1 <- %0",
    );
    assert_eq!(steps(&plan), ["compute copy", "compute copy", "commit copy", "commit copy"]);
}

#[test]
fn a_rotation_of_three_takes_a_copy_each() {
    let plan = planned(
        "%0: f32[3] = state \"a\" {init=0.0}\n%1: f32[3] = state \"b\" {init=1.0}\n%2: f32[3] = state \"c\" {init=2.0}\n\
         update %0 <- %1\nupdate %1 <- %2\nupdate %2 <- %0",
    );
    assert_eq!(plan.launches.iter().filter(|l| l.phase == Phase::Compute).count(), 3);
    assert_eq!(plan.launches.iter().filter(|l| l.phase == Phase::Commit).count(), 3);
}

#[test]
fn an_update_to_itself_does_nothing() {
    let plan = planned(
        "%0: f32[2, 3] = state \"a\" {init=0.0}\n%1: f32[6] = reshape %0\n%2: f32[2, 3] = reshape %1\n\
         update %0 <- %2 {alias}",
    );
    assert_eq!(steps(&plan), [""; 0]);
}

#[test]
fn a_permutation_of_itself_goes_through_a_copy() {
    let plan = planned(
        "%0: f32[2, 2] = state \"a\" {init=0.0}\n%1: f32[2, 2] = permute %0 {perm=[1, 0]}\nupdate %0 <- %1",
    );
    assert_eq!(steps(&plan), ["compute copy", "commit copy"]);
}

#[test]
fn views_constants_and_inputs_are_copied_in_the_commit() {
    let plan = planned(
        "%0: f32[2, 3] = state \"a\" {init=0.0}\n%1: f32[2, 3] = state \"b\" {init=0.0}\n\
         %2: i32[2, 3] = state \"c\" {init=0}\n%3: f32[3, 2] = input \"x\"\n%4: f32[2, 3] = permute %3 {perm=[1, 0]}\n\
         %5: f32[2, 3] = constant 2.0\n%6: i32[2, 3] = iota {axis=1}\n\
         update %0 <- %4\nupdate %1 <- %5\nupdate %2 <- %6",
    );
    assert_eq!(steps(&plan), ["commit copy"; 3]);
    assert_eq!(buffer(&plan, 3).last, 0, "the input lives until it is copied");
}

#[test]
fn one_value_for_two_states_is_computed_in_one_and_copied_to_the_other() {
    let plan = planned(
        "%0: f32[3] = state \"a\" {init=0.0}\n%1: f32[3] = state \"b\" {init=0.0}\n%2: f32[3] = exp %0\n\
         update %0 <- %2\nupdate %1 <- %2",
    );
    assert_eq!(steps(&plan), ["commit exp", "commit copy"]);
    assert_eq!((buffer(&plan, 2).role, buffer(&plan, 2).offset), (Role::Next, buffer(&plan, 0).offset));
}

/// Adam without its bias corrections: the step needs no copy of the store.
#[test]
fn an_optimizer_works_in_place() {
    let plan = planned(
        "%0: f32[8, 4] = param \"w\"\n%1: f32[8, 4] = state \"m\" {init=0.0}\n%2: f32[8, 4] = state \"v\" {init=0.0}\n\
         %3: f32[8, 4] = input \"gradient\"\n%4: f32[8, 4] = constant 0.9\n\
         %5: f32[8, 4] = mul %1, %4\n%6: f32[8, 4] = add %5, %3\n\
         %7: f32[8, 4] = mul %3, %3\n%8: f32[8, 4] = mul %2, %4\n%9: f32[8, 4] = add %8, %7\n\
         %10: f32[8, 4] = rsqrt %9\n%11: f32[8, 4] = mul %6, %10\n%12: f32[8, 4] = sub %0, %11\n\
         update %0 <- %12 {alias}\nupdate %1 <- %6 {alias}\nupdate %2 <- %9 {alias}",
    );
    assert!(plan.launches.iter().all(|l| l.phase == Phase::Commit && l.kernel != Kernel::Copy));
    for (target, next) in [(0, 12), (1, 6), (2, 9)] {
        let (target, next) = (buffer(&plan, target), buffer(&plan, next));
        assert_eq!((next.region, next.offset, next.role), (Region::Store, target.offset, Role::Next));
    }
    // One buffer for the gradient and later its square, and one for the scaled moment and later the step.
    assert_eq!(plan.totals.step, 2 * ALIGNMENT);
    assert_eq!(plan.totals.store, 3 * ALIGNMENT);
}

#[test]
fn reads_of_the_old_value_come_before_the_next_one_is_written() {
    let plan = planned(
        "%0: f32[3] = state \"a\" {init=0.0}\n%1: f32[3] = state \"b\" {init=0.0}\n%2: f32[3] = exp %0\n\
         %3: f32[3] = sin %1\n%4: f32[3] = mul %0, %3\nupdate %0 <- %2 {alias}\nupdate %1 <- %4 {alias}",
    );
    assert_eq!(steps(&plan), ["commit sin", "commit mul", "commit exp"]);
}

#[test]
fn two_states_that_need_each_other_cannot_both_be_in_place() {
    let plan = planned(
        "%0: f32[3] = state \"a\" {init=0.0}\n%1: f32[3] = state \"b\" {init=0.0}\n\
         %2: f32[3] = add %0, %1\n%3: f32[3] = sub %0, %1\nupdate %0 <- %2\nupdate %1 <- %3",
    );
    assert_eq!(steps(&plan), ["commit sub", "commit add", "commit copy"]);
}

#[test]
fn a_state_that_is_needed_together_with_its_next_value_is_copied_in_the_end() {
    // %2 could be computed in place, but %3 still needs the old %0, so %2 is copied at the end.
    let plan = planned(
        "%0: f32[3] = state \"a\" {init=0.0}\n%1: f32[3] = state \"b\" {init=0.0}\n\
         %2: f32[3] = exp %0\n%3: f32[3] = add %2, %0\nupdate %0 <- %2\nupdate %1 <- %3",
    );
    assert_eq!(steps(&plan), ["commit exp", "commit add", "commit copy"]);
    assert_eq!(buffer(&plan, 2).region, Region::Step);
    assert_eq!(buffer(&plan, 3).region, Region::Store);
}

#[test]
fn an_operand_with_another_layout_is_not_overwritten() {
    let text = |operand| {
        format!(
            "%0: f32[2, 2] = state \"a\" {{init=0.0}}\n%1: f32[2, 2] = permute %0 {{perm=[1, 0]}}\n\
             %2: f32[2, 2] = add %0, {operand}\nupdate %0 <- %2"
        )
    };
    assert_eq!(steps(&planned(&text("%1"))), ["commit add", "commit copy"]);
    assert_eq!(steps(&planned(&text("%0"))), ["commit add"]);
}

#[test]
fn a_state_of_another_shape_is_updated_in_place_through_views() {
    let plan = planned(
        "%0: f32[4] = state \"a\" {init=0.0}\n%1: f32[2, 1, 2] = reshape %0\n%2: f32[2, 1, 2] = exp %1\n\
         %3: f32[4] = reshape %2\nupdate %0 <- %3 {alias}",
    );
    assert_eq!(steps(&plan), ["commit exp"]);
}

#[test]
fn outputs_and_guards_keep_what_was_before_the_commit() {
    let plan = planned(
        "%0: f32[] = param \"w\"\n%1: f32[] = exp %0\noutput \"old\" %0\noutput \"new\" %1\nguard \"w\" %0\nupdate %0 <- %1",
    );
    // The next value is an output, so it is computed before the commit. The output of the parameter is a
    // copy; the guard needs no copy.
    assert_eq!(steps(&plan), ["compute exp", "compute copy", "commit copy"]);
    assert_eq!(plan.guards[0].1.buffer, ValueId(0));
    for (name, access) in &plan.outputs {
        assert_eq!(plan.buffer(access.buffer).unwrap().region, Region::Step, "{name}");
    }
}

#[test]
fn what_can_trap_and_what_it_needs_run_before_the_commit() {
    let plan = planned(
        "%0: f32[4, 2] = param \"w\"\n%1: i32[3] = input \"i\"\n%2: f32[4, 2] = exp %0\n%3: f32[3, 2] = gather %2, %1 {batch=0}\n\
         %4: f32[2] = sum %3 {axes=[0]}\n%5: f32[1, 2] = reshape %4\n%6: f32[4, 2] = broadcast %5\n\
         %7: f32[4, 2] = sub %0, %6\nupdate %0 <- %7\n\
         %8: i32[3] = state \"n\" {init=1}\n%9: i32[3] = div %1, %8\nupdate %8 <- %9",
    );
    assert_eq!(
        steps(&plan),
        ["compute exp", "compute gather", "compute div", "commit sum", "commit sub", "commit copy"]
    );
}

#[test]
fn every_op_that_can_trap_stays_out_of_the_commit() {
    let text = [
        "%2: f32[2, 2] = dynamic_slice %0, %1, %1",
        "%2: f32[2, 2] = dynamic_update_slice %0, %0, %1, %1",
        "%3: i32[1] = reshape %1\n%4: f32[1, 2] = slice %0 {start=[0, 0], limit=[1, 2], step=[1, 1]}\n\
         %2: f32[2, 2] = scatter_add %0, %3, %4 {batch=0}",
        "%3: f32[1, 1, 2, 2] = reshape %0\n\
         %4: f32[1, 1, 2, 2], %5: f32[1, 1, 2] = attention %3, %3, %3, %1 {scale=1.0, key_length}\n%2: f32[2, 2] = reshape %4",
    ];
    for op in text {
        let plan = planned(&format!(
            "%0: f32[2, 2] = state \"a\" {{init=0.0}}\n%1: i32[] = input \"i\"\n{op}\nupdate %0 <- %2"
        ));
        assert_eq!(steps(&plan).last().map(String::as_str), Some("commit copy"), "{op}");
        assert_eq!(plan.launches.iter().filter(|l| l.phase == Phase::Commit).count(), 1, "{op}");
    }
}

#[test]
fn regions_are_written_in_their_order_at_the_very_end() {
    let plan = planned(
        "%0: f32[4, 2] = state \"cache\" {init=0.0}\n%1: i32[] = state \"position\" {init=0}\n%2: i32[] = constant 0\n\
         %3: i32[] = constant 1\n%4: f32[1, 2] = input \"row\"\n%5: f32[2] = sum %0 {axes=[0]}\n%6: f32[1, 2] = reshape %5\n\
         %7: i32[] = add %1, %3\n\
         update %0[%1, %2] <- %4 {alias}\nupdate %0[%7, %2] <- %6 {alias}\nupdate %1 <- %7",
    );
    // The first start is the old position, because the commit must not read a state that it overwrites. The
    // next position is the second start, so it is computed before the commit.
    assert_eq!(
        steps(&plan),
        [
            "compute add",
            "compute copy",
            "commit sum",
            "commit write_region",
            "commit write_region",
            "commit copy"
        ]
    );
    let starts: Vec<_> = plan.launches[3..5].iter().map(|l| l.reads[1].buffer).collect();
    assert_ne!(starts[0], ValueId(1), "a copy from before the commit");
    assert_eq!(starts[1], ValueId(7));
    assert!(plan.launches[3..5].iter().all(|l| l.writes[0].buffer == ValueId(0)));
}

#[test]
fn a_region_may_move_part_of_its_own_target() {
    let plan = planned(
        "%0: f32[4] = state \"ring\" {init=0.0}\n%1: i32[] = constant 0\n\
         %2: f32[3] = slice %0 {start=[1], limit=[4], step=[1]}\nupdate %0[%1] <- %2",
    );
    assert_eq!(steps(&plan), ["compute copy", "commit write_region"]);
}

#[test]
fn an_update_that_must_be_in_place_but_cannot_be_is_refused() {
    let why = [
        ("needed by an output", "output \"y\" %1\n"),
        ("needed by a guard", "guard \"y\" %1\n"),
        ("still read", "%2: f32[3] = add %1, %0\n%3: f32[3] = state \"b\" {init=0.0}\nupdate %3 <- %2\n"),
    ];
    for (why, line) in why {
        let error = refused(&format!(
            "@0 = \"model.rs\":3:5\n%0: f32[3] = state \"a\" {{init=0.0}}\n%1: f32[3] = exp %0 @0\n{line}update %0 <- %1 {{alias}}"
        ));
        assert_eq!(error.kind(), ErrorKind::Plan, "{why}");
        assert_eq!(error.message(), "the update of `a` must be in place, but cannot be", "{why}");
        assert!(error.to_string().contains("model.rs:3:5"), "{error}");
    }
    let error =
        refused("%0: f32[3] = state \"a\" {init=0.0}\n%1: f32[3] = input \"x\"\nupdate %0 <- %1 {alias}");
    assert_eq!(error.kind(), ErrorKind::Plan);
}

#[test]
fn states_without_elements_are_updated_like_others() {
    let plan = planned(
        "%0: f32[0, 3] = state \"a\" {init=0.0}\n%1: f32[0, 3] = exp %0\n%2: f32[0, 3] = state \"b\" {init=0.0}\n\
         update %0 <- %1\nupdate %2 <- %0\noutput \"y\" %0",
    );
    assert_eq!((plan.totals.store, plan.totals.step), (0, 0));
}

/// If a window must be updated in place, no other part of the step may copy the state.
#[test]
fn nothing_copies_a_state_whose_windows_must_be_in_place() {
    let cache = "%0: f32[4, 2] = state \"cache\" {init=0.0}\n%1: i32[] = input \"at\"\n%2: i32[] = constant 0\n\
                 %3: f32[1, 2] = input \"row\"\n";
    let in_place = "update %0[%1, %2] <- %3 {alias}\n";
    let plan = planned(&format!("{cache}{in_place}%4: f32[2] = sum %0 {{axes=[0]}}\noutput \"sum\" %4"));
    assert!(steps(&plan).contains(&"commit write_region".to_string()), "{:?}", steps(&plan));
    for copying in [
        "output \"old\" %0",
        "%4: f32[2, 4] = permute %0 {perm=[1, 0]}\noutput \"old\" %4",
        "%4: f32[4, 2] = dynamic_update_slice %0, %3, %1, %2\noutput \"new\" %4",
        "%4: f32[4, 2] = state \"other\" {init=0.0}\nupdate %4 <- %0",
    ] {
        let error = refused(&format!("{cache}{in_place}{copying}"));
        assert_eq!(error.kind(), ErrorKind::Plan);
        assert_eq!(error.message(), "the update of `cache` must be in place, but the step copies it");
        let allowed = in_place.replace(" {alias}", "");
        assert!(steps(&planned(&format!("{cache}{allowed}{copying}"))).len() > 1, "{copying}");
    }
}

#[test]
fn a_next_value_of_other_bytes_or_another_order_is_copied() {
    // The next value is the first half of a launch's result, and then all of it with permuted axes.
    let part = planned(
        "%0: f32[3] = state \"a\" {init=0.0}\n%1: f32[6] = input \"x\"\n%2: f32[6] = exp %1\n\
         %3: f32[3] = slice %2 {start=[0], limit=[3], step=[1]}\nupdate %0 <- %3",
    );
    assert_eq!(steps(&part), ["commit exp", "commit copy"]);
    let turned = planned(
        "%0: f32[3, 2] = state \"a\" {init=0.0}\n%1: f32[2, 3] = input \"x\"\n%2: f32[2, 3] = exp %1\n\
         %3: f32[3, 2] = permute %2 {perm=[1, 0]}\nupdate %0 <- %3",
    );
    assert_eq!(steps(&turned), ["commit exp", "commit copy"]);
}
