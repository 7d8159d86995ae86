//! Tests of queries on plans: roles, live bytes over time, names, producers and consumers of launches.

use super::{buffer, graph, plan_of, planned};
use gradloom_core::ir::{Id, ValueId};
use gradloom_core::plan::{self, Buffer, Plan, Region, Role};

/// Products, which are not fused, with a repeated operand, a value that two launches read, and one without
/// elements.
const PRODUCTS: &str = "%0: f32[16, 16] = input \"x\"\n%1: f32[16, 16] = param \"w\"\n%2: f32[16, 16] = param \"fixed\"\n\
    %3: f32[16, 16] = dot %0, %0 {lhs_contract=[1], rhs_contract=[0]}\n\
    %4: f32[16, 16] = dot %3, %1 {lhs_contract=[1], rhs_contract=[0]}\n\
    %5: f32[16, 16] = dot %4, %3 {lhs_contract=[1], rhs_contract=[0]}\n\
    %6: f32[16, 16] = dot %5, %2 {lhs_contract=[1], rhs_contract=[0]}\n\
    %7: f32[0, 16] = input \"none\"\n%8: f32[0, 16] = dot %7, %2 {lhs_contract=[1], rhs_contract=[0]}\n\
    output \"y\" %6\noutput \"none\" %8\nupdate %1 <- %5";

#[test]
fn parameters_that_no_update_targets_are_frozen() {
    let plan = planned(PRODUCTS);
    assert_eq!(
        [0, 1, 2, 7].map(|n| buffer(&plan, n).role),
        [Role::Input, Role::Parameter, Role::Frozen, Role::Input]
    );
    assert_eq!(buffer(&plan, 2).region, Region::Store);
    let forward = planned("%0: f32[2] = param \"w\"\n%1: f32[2] = state \"s\" {init=0.0}\noutput \"w\" %0");
    assert_eq!([0, 1].map(|n| buffer(&forward, n).role), [Role::Frozen, Role::State]);
}

#[test]
fn a_plan_that_writes_what_is_frozen_is_refused() {
    let mut plan = planned("%0: f32[2] = param \"w\"\n%1: f32[2] = input \"x\"\nupdate %0 <- %1");
    plan::verify(&plan).unwrap();
    plan.buffers[plan.buffer_of[&ValueId::from_index(0)]].role = Role::Frozen;
    let error = plan::verify(&plan).unwrap_err();
    assert!(error.to_string().contains("writes the Frozen %0"), "{error}");
}

/// Returns the buffers of the step's region that are live at a moment, which include both an operand whose
/// lifetime ends there and the result that overwrites it.
fn live_at(plan: &Plan, moment: usize) -> impl Iterator<Item = &Buffer> {
    plan.buffers.iter().filter(move |b| b.region == Region::Step && (b.first..=b.last).contains(&moment))
}

/// Counts the bytes of the step's region that are live at a moment, byte by byte.
fn taken(plan: &Plan, moment: usize) -> u64 {
    let mut bytes = vec![false; plan.totals.step as usize];
    for buffer in live_at(plan, moment) {
        bytes[buffer.offset as usize..][..buffer.bytes as usize].fill(true);
    }
    bytes.into_iter().filter(|&taken| taken).count() as u64
}

#[test]
fn the_timeline_counts_each_byte_once() {
    let in_place = "%0: f32[64] = input \"x\"\n%1: i32[3] = input \"i\"\n%2: f32[3] = input \"u\"\n\
        %3: f32[64] = scatter_add %0, %1, %2 {batch=0}\n%4: f32[64] = scatter_add %3, %1, %2 {batch=0}\n\
        %5: f32[3] = gather %4, %1 {batch=0}\noutput \"y\" %5";
    for text in [PRODUCTS, in_place, "%0: f32[3] = input \"x\"\noutput \"x\" %0", "%0: f32[0] = input \"x\""]
    {
        let plan = planned(text);
        let timeline = plan.timeline();
        assert_eq!(timeline.moments(), plan.launches.len() + 1);
        let expected: Vec<u64> = (0..timeline.moments()).map(|moment| taken(&plan, moment)).collect();
        let bytes: Vec<u64> = (0..timeline.moments()).map(|moment| timeline.bytes(moment)).collect();
        assert_eq!(bytes, expected, "{text}");
        for (moment, &bytes) in bytes.iter().enumerate() {
            let roles = Role::ALL.map(|role| timeline.bytes_of(role, moment));
            assert_eq!(roles.iter().sum::<u64>(), bytes);
            let held: u64 = timeline.at(moment).map(|i| plan.buffers[i].bytes).sum();
            assert_eq!(held, bytes, "{text}");
        }
        let peak = timeline.peak();
        assert!(bytes.iter().all(|&n| n <= bytes[peak]) && bytes[..peak].iter().all(|&n| n < bytes[peak]));
    }
    let plan = planned(in_place);
    let alive = |launch| live_at(&plan, launch).filter(|b| b.bytes == 256).count();
    assert_eq!((alive(0), plan.timeline().bytes(0)), (2, 256 + 12 + 12), "{:?}", plan.buffers);
    assert_eq!(plan.timeline().bytes(plan.launches.len()), 12, "what the caller reads is left");
}

#[test]
fn launches_know_their_neighbours() {
    let graph = graph(PRODUCTS);
    let plan = plan_of(&graph);
    let view = plan.view(&graph);
    let producer = |value: usize| {
        let value = ValueId::from_index(value);
        view.launches().position(|l| l.outputs().iter().any(|b| b.value == value)).unwrap()
    };
    let [first, second, third, fourth] = [3, 4, 5, 6].map(producer);
    assert!(view.launches().enumerate().all(|(i, launch)| launch.index() == i));
    assert_eq!(view.launch(first).name(), "dot f32[16, 16]");
    assert_eq!((view.launch(first).launch().reads.len(), view.launch(first).inputs().len()), (2, 1));
    assert!(view.launch(first).producers().is_empty());
    assert_eq!(view.launch(first).consumers(), [second, third]);
    assert_eq!(view.launch(third).producers(), [first, second]);
    assert!(view.launch(third).consumers().contains(&fourth));
    let copy = view.launches().last().unwrap();
    assert_eq!((copy.name().as_str(), copy.producers()), ("copy f32[16, 16]", &[third][..]));
    assert_eq!(copy.outputs()[0].value, ValueId::from_index(1));
    assert_eq!(view.launches().map(|l| l.cost().flops).sum::<u64>(), 4 * 2 * 16 * 16 * 16);
    assert_eq!(view.value_name(ValueId::from_index(3)), "%3");
    assert_eq!(
        (view.label(buffer(&plan, 2)).as_str(), view.label(buffer(&plan, 3)).as_str()),
        ("fixed", "dot")
    );
    assert!(view.launches().all(|l| l.origin().is_none() && l.op().kind.name() == "dot"));
}
