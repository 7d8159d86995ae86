//! Tests of the guards' kernel over many steps, against a simple model of the failures.

use gradloom_codegen::simt::kernels::{View, Views, guards};
use gradloom_codegen::simt::verify;
use gradloom_codegen::step::{ACKNOWLEDGED, Failure, STATUS_WORDS, STEP_WORDS, Status, Verdict, Window};
use gradloom_core::ir::Id;
use gradloom_core::ir::{DType, ValueId};
use gradloom_core::kernel::{Access, Layout};
use gradloom_grid::Machine;
use gradloom_testing::Random;

/// Returns the elements of a guard, one of which is not finite if `is_finite` is false.
fn elements(random: &mut Random, layout: &Layout, is_finite: bool) -> Vec<u32> {
    let finite = [0.0, -0.0, 65504.0, -65504.0, 2.0_f32.powi(-14)];
    let others = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN];
    let mut bits: Vec<u32> =
        (0..layout.end()).map(|_| finite[random.below(finite.len())].to_bits()).collect();
    if !is_finite {
        let stride = layout.strides.last().copied().unwrap_or(0);
        let place = layout.offset + random.below(layout.shape.elements()) * stride;
        bits[place] = others[random.below(others.len())].to_bits();
    }
    bits
}

/// Guards of one dtype with these layouts, and the largest starts of the windows.
struct Case<'c> {
    dtype: DType,
    guards: &'c [Layout],
    rooms: &'c [usize],
}

/// Runs steps that fail at random, and checks the verdict and the records after each one.
fn check(case: &Case<'_>, seed: u64) {
    let mut random = Random::new(seed);
    let start = Access {
        buffer: ValueId::from_index(0),
        dtype: DType::I32,
        layout: Layout::contiguous(&[].into()),
        blocks: None,
    };
    let window = |(axis, &room): (usize, &usize)| Window { launch: 10 + axis, axis, room, start: &start };
    let windows: Vec<Window<'_>> = case.rooms.iter().enumerate().map(window).collect();
    let view = |dtype, layout| View { dtype, layout, has_vectors: false, is_early: false };
    let reads = case.guards.iter().map(|layout| view(case.dtype, layout));
    let views = Views {
        reads: reads.chain(windows.iter().map(|_| view(DType::I32, &start.layout))).collect(),
        writes: Vec::new(),
        gated: false,
        in_place: false,
    };
    let kernel = guards(&views, &windows);
    verify(&kernel).unwrap_or_else(|error| panic!("{error}\n{kernel}"));

    let mut status = vec![0; STATUS_WORDS];
    let mut failures: Vec<Failure> = Vec::new();
    let mut acknowledged = 0;
    for step in 0..40 {
        status[..STEP_WORDS].fill(0);
        let mut verdict = Verdict::Committed;
        let mut operands = Vec::new();
        for (number, layout) in case.guards.iter().enumerate() {
            let is_finite = layout.shape.elements() == 0 || random.below(4) != 0;
            if !is_finite && verdict == Verdict::Committed {
                verdict = Verdict::NotFinite(number);
            }
            operands.push(elements(&mut random, layout, is_finite));
        }
        // An earlier kernel of the step has trapped.
        let trapped = random.below(6) == 0;
        if trapped {
            status[1..5].copy_from_slice(&[4, 17, u32::MAX, 11]);
            verdict = Verdict::Trapped { launch: 3, position: 17, index: -1, bound: 11 };
        }
        let mut is_trapped = trapped;
        for Window { launch, axis, room, .. } in &windows {
            let (launch, room, bound) = (*launch, i32::try_from(*room).unwrap(), room + 1);
            let index = [0, room, room / 2, -1, room + 1, i32::MIN, i32::MAX][random.below(7)];
            if !(0..=room).contains(&index) && !is_trapped {
                is_trapped = true;
                verdict = Verdict::Trapped { launch, position: *axis, index, bound };
            }
            operands.push(vec![index.cast_unsigned()]);
        }
        let mut machine = Machine {
            operands,
            results: Vec::new(),
            workspace: Vec::new(),
            faults: Vec::new(),
            checked: Vec::new(),
            committed: true,
            status,
        };
        machine.run(&kernel).unwrap_or_else(|error| panic!("{error}"));
        status = machine.status;

        if verdict != Verdict::Committed {
            let number = u32::try_from(failures.len()).unwrap();
            failures.push(Failure { number, step, verdict });
        }
        let bytes: Vec<u8> = status.iter().flat_map(|word| word.to_le_bytes()).collect();
        let seen = Status::new(&bytes);
        assert_eq!(seen.verdict(), verdict, "step {step}");
        // The first four failures that the host has not acknowledged, and the last.
        let unknown = &failures[acknowledged as usize..];
        let mut recorded = unknown[..unknown.len().min(4)].to_vec();
        recorded.extend(unknown.last().filter(|_| unknown.len() > 4));
        assert_eq!(seen.failures_from(acknowledged), recorded, "step {step}");
        if random.below(8) == 0 {
            acknowledged = u32::try_from(failures.len()).unwrap();
            status[ACKNOWLEDGED] = acknowledged;
        }
    }
}

#[test]
fn verdicts_and_records_are_those_of_a_plain_account() {
    let scalar = Layout::contiguous(&[].into());
    let many = Layout::contiguous(&[300].into());
    let none = Layout::contiguous(&[0].into());
    // Guard of every third element of its buffer, starting at the second.
    let strided = Layout { offset: 1, strides: [3].into(), ..Layout::contiguous(&[70].into()) };
    let lists: [&[Layout]; 5] = [
        std::slice::from_ref(&scalar),
        &[scalar.clone(), scalar.clone(), scalar.clone()],
        &[many.clone(), scalar.clone(), strided.clone()],
        &[none, strided],
        &[],
    ];
    for (seed, (guards, rooms)) in (0..).zip(lists.iter().zip([&[][..], &[5, 0], &[], &[9], &[0, 3, 7]])) {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            check(&Case { dtype, guards, rooms }, seed);
        }
    }
}
