//! Errors that the checks of machine code detect.

use super::*;

/// Returns a routine of many instructions with short and long live ranges, masks and invariants.
fn tangled(random: &mut Random) -> Routine {
    let mut builder = Builder::new(VectorIsa::Avx512);
    let mut values = vec![builder.load(n(0), 4), builder.row(n(1), 4)];
    for i in 0..120 {
        let [a, b, c] = [0; 3].map(|_| values[values.len() - 1 - random.below(values.len().min(45))]);
        let number = builder.float(i as f32);
        values.push(match random.below(4) {
            0 => builder.add(a, number),
            1 => {
                let mask = builder.compare(CompareOp::Lt, LaneKind::Float, a, b);
                builder.select(mask, b, c)
            }
            2 => builder.mul(a, b),
            _ => builder.add(a, b),
        });
    }
    let last = values.pop().expect("there are many");
    let sum = values.into_iter().fold(last, |sum, value| builder.add(sum, value));
    builder.store(n(2), 4, sum);
    Routine { lines: builder.finish().used(), operands: vec![4; 3], ..Routine::default() }
}

/// Replaces one register of a step with another; returns `false` if the step has none.
fn confuse(step: &mut Step, registers: Registers, random: &mut Random) -> bool {
    let vectors = registers.vectors;
    let mut other = |register: &mut u8| {
        *register = ((usize::from(*register) + 1 + random.below(vectors - 2)) % vectors) as u8
    };
    match step {
        Step::Spill { register, .. } | Step::Reload { register, .. } => other(register),
        Step::Line { sources, target, .. } => {
            let mut places = sources.iter_mut().flatten();
            match (places.find(|place| matches!(place, Location::Vector(_))), target) {
                (Some(Location::Vector(register)), _) | (_, Some(register)) => other(register),
                _ => return false,
            }
        }
    }
    true
}

#[test]
fn a_value_in_a_wrong_register_is_found() {
    // With mask registers, and with masks in vector registers.
    for registers in [Registers { vectors: 30, masks: Some(5) }, Registers { vectors: 13, masks: None }] {
        let mut random = Random(3);
        let mut spilled = 0;
        for _ in 0..20 {
            let lines = tangled(&mut random).lines;
            let check = |allocation: &Allocation| check(&lines, allocation, registers);
            let mut allocation =
                allocate(&lines, std::iter::empty(), registers).expect("few masks live at once");
            check(&allocation).expect("it is right");
            spilled += allocation.spills;
            for at in 0..allocation.steps.len() {
                let right = allocation.steps[at];
                if confuse(&mut allocation.steps[at], registers, &mut random) {
                    assert!(check(&allocation).is_err(), "step {at}, {:?}", allocation.steps[at]);
                }
                allocation.steps[at] = right;
            }
            let last = allocation.steps.pop().expect("there are many");
            assert!(check(&allocation).is_err(), "a step is missing");
            allocation.steps.extend([last, last]);
            assert!(check(&allocation).is_err(), "a step too many");
        }
        assert!(spilled > 20, "{spilled} values went through memory");
    }
}

#[test]
fn an_instruction_outside_of_its_memory_is_found() {
    use iced_x86::{Code, Instruction, MemoryOperand, Register};
    let load = |base, index, scale, displacement| {
        let memory = MemoryOperand::new(base, index, scale, displacement, 4, false, Register::None);
        Instruction::with2(Code::EVEX_Vmovups_zmm_k1z_zmmm512, Register::ZMM2, memory).expect("a load")
    };
    let (frame, pool, column) = (Register::RDI, Register::RSI, Register::RCX);
    let is_right = |window, instruction: &Instruction| {
        // Operand 1 has 4-byte elements, and its row's address is in r10.
        let mut bounds = Bounds::new(512, 64, &[1, 4]);
        let address = MemoryOperand::with_base_displ(frame, Frame::operand(n(1)) as i64);
        bounds.check(&Instruction::with2(Code::Mov_r64_rm64, Register::R10, address).expect("a move"));
        bounds.window = window;
        bounds.check(instruction);
        bounds.broken.is_none()
    };
    let (none, two) = (Window::None, Window::Columns(32));
    for (right, window, instruction) in [
        (true, none, load(frame, Register::None, 1, 448)),
        (false, none, load(frame, Register::None, 1, 449)),
        (false, none, load(frame, Register::None, 1, -64)),
        (true, none, load(pool, Register::None, 1, 0)),
        (false, none, load(pool, Register::None, 1, 4)),
        (true, two, load(Register::R10, column, 4, 64)),
        (false, two, load(Register::R10, column, 4, 65)),
        (false, two, load(Register::R10, column, 1, 0)),
        (false, none, load(Register::R10, column, 4, 0)),
        (false, Window::Last, load(Register::R10, column, 4, 0)),
        (false, two, load(Register::R11, column, 4, 0)),
        (false, two, load(Register::R10, Register::None, 1, 0)),
    ] {
        assert_eq!(is_right(window, &instruction), right, "{instruction:?}");
    }
    let mut masked = load(Register::R10, column, 4, 0);
    masked.set_op_mask(Register::K1);
    assert!(is_right(Window::Last, &masked));

    // With AVX2, the mask is in ymm2 after it was loaded from the frame.
    let row = MemoryOperand::new(Register::R10, column, 4, 0, 1, false, Register::None);
    let masked = |mask| {
        Instruction::with3(Code::VEX_Vmaskmovps_ymm_ymm_m256, Register::YMM5, mask, row).expect("a load")
    };
    let mask = |at: usize| {
        let memory = MemoryOperand::with_base_displ(frame, at as i64);
        Instruction::with2(Code::VEX_Vmovaps_ymm_ymmm256, Register::YMM2, memory).expect("a load")
    };
    let low = Instruction::with2(Code::VEX_Vmovd_xmm_rm32, Register::XMM2, Register::EAX).expect("a move");
    for (right, before, instruction) in [
        (false, vec![], masked(Register::YMM2)),
        (true, vec![mask(Frame::LAST)], masked(Register::YMM2)),
        (false, vec![mask(Frame::LAST)], masked(Register::YMM3)),
        (false, vec![mask(Frame::NUMBERS)], masked(Register::YMM2)),
        (false, vec![mask(Frame::LAST), low], masked(Register::YMM2)),
    ] {
        let mut bounds = Bounds::new(512, 64, &[1, 4]);
        let address = MemoryOperand::with_base_displ(frame, Frame::operand(n(1)) as i64);
        bounds.check(&Instruction::with2(Code::Mov_r64_rm64, Register::R10, address).expect("a move"));
        bounds.window = Window::Last;
        before.iter().chain([&instruction]).for_each(|instruction| bounds.check(instruction));
        assert_eq!(bounds.broken.is_none(), right, "{before:?}");
    }
}

#[test]
fn an_index_without_a_bound_is_found() {
    use iced_x86::{Code, Instruction, MemoryOperand, Register};
    let (eax, frame) = (Register::EAX, Register::RDI);
    let masked = |mask: i32| Instruction::with2(Code::And_rm32_imm8, eax, mask).expect("an and");
    let clear = Instruction::with2(Code::Xor_r32_rm32, eax, eax).expect("a xor");
    let buffer = |at: i64| MemoryOperand::with_base_index_scale_displ_size(frame, Register::RAX, 4, at, 1);
    let store =
        |at| Instruction::with2(Code::VEX_Vmovaps_ymmm256_ymm, buffer(at), Register::YMM3).expect("a store");
    let element =
        |at| Instruction::with2(Code::VEX_Vbroadcastss_ymm_m32, Register::YMM3, buffer(at)).expect("a load");
    for (right, instructions) in [
        (true, [masked(63), store(256)]),
        (false, [masked(63), store(260)]),
        (true, [masked(15), store(448)]),
        (false, [masked(15), store(452)]),
        (false, [clear, store(128)]),
        (true, [clear, element(448)]),
        (false, [clear, element(452)]),
    ] {
        let mut bounds = Bounds::new(512, 64, &[4]);
        instructions.iter().for_each(|instruction| bounds.check(instruction));
        assert_eq!(bounds.broken.is_none(), right, "{instructions:?}");
    }
}

#[test]
fn a_byte_after_the_last_element_is_found() {
    use iced_x86::{Code, Instruction, MemoryOperand, Register};
    let end = Register::R8;
    let compare = |number: i32| Instruction::with2(Code::Cmp_rm64_imm8, end, number).expect("a comparison");
    let jump = |code| Instruction::with_branch(code, 0).expect("a jump");
    let (below_or_equal, below) = (jump(Code::Jbe_rel32_64), jump(Code::Jb_rel32_64));
    let load = |number: i64| {
        let byte = MemoryOperand::new(Register::R10, Register::RCX, 1, number, 1, false, Register::None);
        let (code, to) = (Code::VEX_Vpinsrb_xmm_xmm_r32m8_imm8, Register::XMM0);
        Instruction::with4(code, to, to, byte, 0).expect("a load")
    };
    let changed = Instruction::with2(Code::Mov_r64_rm64, end, Register::RDX).expect("a move");
    for (right, instructions) in [
        (true, vec![load(0)]),
        (false, vec![load(1)]),
        (true, vec![compare(1), below_or_equal, load(1)]),
        (false, vec![compare(1), below, load(1)]),
        (false, vec![compare(1), load(1)]),
        (false, vec![compare(1), below_or_equal, load(2)]),
        (false, vec![compare(1), below_or_equal, changed, load(1)]),
    ] {
        let mut bounds = Bounds::new(512, 64, &[1]);
        let address = MemoryOperand::with_base_displ(Register::RDI, Frame::operand(n(0)) as i64);
        bounds.check(&Instruction::with2(Code::Mov_r64_rm64, Register::R10, address).expect("a move"));
        bounds.window = Window::Last;
        instructions.iter().for_each(|instruction| bounds.check(instruction));
        assert_eq!(bounds.broken.is_none(), right, "{instructions:?}");
    }
}
