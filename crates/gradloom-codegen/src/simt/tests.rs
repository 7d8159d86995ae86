//! Tests of the kernels that the builder returns, and of the verifier's errors.

use super::ir::{Block, Expr, Fault, Kernel, Role, Stmt};
use super::{Builder, Factor, spelling, verify};
use gradloom_core::ir::{BinaryOp, DType, UnaryOp};

/// Returns the kernel of `y[i] = scale * x[i]` for i below 100, which also writes to shared memory.
fn scaled() -> Kernel {
    let k = Builder::new("scaled", 64, 2);
    let (x, y) = (k.buffer(Role::Operand(0), DType::F32), k.buffer(Role::Result(0), DType::F32));
    let shared = k.shared(DType::F32, 64);
    let i = k.group() * 64 + k.local();
    k.when(i.below(100), || {
        let scaled = k.load(x, i) * k.f32(2.5);
        k.set_element(shared, k.local(), scaled);
        k.store(y, i * 1 + 0, scaled);
    });
    k.barrier();
    k.finish()
}

#[test]
fn only_what_is_used_twice_or_reads_memory_has_a_name() {
    let text = "kernel \"scaled\" 2 x 64 {
    buffer b0: f32 = operand 0
    buffer b1: f32 = result 0
    shared a0: f32[64]
    let v4: u32 = add(mul(group, 64), local)
    if lt(v4, 100) {
        let v7: f32 = b0[v4]
        let v9: f32 = mul(v7, 2.5)
        a0[local] = v9
        b1[v4] = v9
    }
    barrier
}
";
    let kernel = scaled();
    assert_eq!(kernel.to_string(), text);
    assert_eq!(verify(&kernel), Ok(()));
}

#[test]
fn what_a_loop_uses_is_computed_before_it() {
    let k = Builder::new("loop", 64, 1);
    let y = k.buffer(Role::Result(0), DType::U32);
    let twice = k.local() * 2;
    k.count(k.u32(0), k.u32(4), k.u32(1), |i| k.store(y, i + twice, i));
    let kernel = k.finish();
    assert!(kernel.to_string().contains("let v2: u32 = mul(local, 2)\n    for"), "{kernel}");
    assert_eq!(verify(&kernel), Ok(()));
}

#[test]
fn a_variable_is_read_where_it_is_asked_for() {
    let k = Builder::new("swap", 1, 1);
    let y = k.buffer(Role::Result(0), DType::U32);
    let x = k.var(k.u32(1));
    let before = x.get();
    x.set(k.u32(2));
    k.store(y, k.u32(0), before);
    let text = k.finish().to_string();
    let [read, assigned] = ["= x0", "x0 = 2"].map(|part| text.find(part).unwrap());
    assert!(read < assigned, "{text}");
}

/// Returns the verifier's error for a kernel after a change.
fn refused(change: impl FnOnce(&mut Kernel)) -> String {
    let mut kernel = scaled();
    change(&mut kernel);
    verify(&kernel).expect_err("the kernel is wrong")
}

/// Returns the statements of the conditional block.
fn inner(kernel: &mut Kernel) -> &mut Vec<Stmt> {
    let at = kernel.body.0.iter().position(|statement| matches!(statement, Stmt::If(..))).unwrap();
    match &mut kernel.body.0[at] {
        Stmt::If(_, Block(statements)) => statements,
        _ => unreachable!(),
    }
}

#[test]
fn mistakes_are_found() {
    let missing = refused(|kernel| {
        inner(kernel).remove(0);
    });
    assert!(missing.contains("is not evaluated here"), "{missing}");
    let twice = refused(|kernel| {
        let first = inner(kernel)[0].clone();
        inner(kernel).insert(0, first);
    });
    assert!(twice.contains("evaluated twice"), "{twice}");
    let divergent = refused(|kernel| inner(kernel).push(Stmt::Barrier));
    assert!(divergent.contains("not all invocations"), "{divergent}");
    let operand = refused(|kernel| kernel.buffers[1].role = Role::Operand(1));
    assert!(operand.contains("an operand is written"), "{operand}");
    let dtype = refused(|kernel| kernel.buffers[1].ty = DType::I32.into());
    assert!(dtype.contains("is no i32"), "{dtype}");
    let mixed = refused(|kernel| {
        let product = kernel
            .exprs
            .iter_mut()
            .find(|(expr, ty)| matches!(expr, Expr::Binary(BinaryOp::Mul, ..)) && *ty == DType::F32.into());
        let (Expr::Binary(_, _, right), _) = product.unwrap() else { unreachable!() };
        *right = super::ExprId(0);
    });
    assert!(mixed.contains("operands that it cannot take"), "{mixed}");
    let late = refused(|kernel| {
        let statement = inner(kernel).remove(0);
        inner(kernel).push(statement);
    });
    assert!(late.contains("is not evaluated here"), "{late}");
}

#[test]
fn a_barrier_may_stand_where_a_uniform_condition_leads() {
    let kernel = |divergent: bool| {
        let k = Builder::new("barrier", 64, 1);
        let x = k.var(k.u32(0));
        k.count(k.u32(0), k.u32(3), k.u32(1), |i| {
            k.when(x.get().below(2), || k.barrier());
            x.set(if divergent { i + k.local() } else { i });
        });
        k.finish()
    };
    assert_eq!(verify(&kernel(false)), Ok(()));
    // The condition diverges only from the second iteration on.
    assert!(verify(&kernel(true)).is_err());
}

#[test]
fn what_leaves_its_block_is_refused() {
    let k = Builder::new("scope", 64, 1);
    let (x, y) = (k.buffer(Role::Operand(0), DType::F32), k.buffer(Role::Result(0), DType::F32));
    let mut inside = None;
    k.when(k.local().below(2), || inside = Some(k.load(x, k.local())));
    k.store(y, k.u32(0), inside.unwrap());
    assert!(verify(&k.finish()).unwrap_err().contains("is not evaluated here"));
    let k = Builder::new("fault", 64, 1);
    let kernel = {
        let index = k.u32(3);
        k.check_divisor(index, k.u32(0));
        k.finish()
    };
    assert!(matches!(kernel.body.0[..], [Stmt::Report(Fault::Divisor(_), _)]));
}

/// Operands are expressions. If a spelling repeated them, the text would double at each level of nesting.
#[test]
fn spellings_have_each_operand_once() {
    for dtype in DType::ALL {
        let unary = UnaryOp::ALL.iter().filter(|op| op.accepts(dtype)).map(|&op| spelling::unary(op, dtype));
        let binary =
            BinaryOp::ALL.iter().filter(|op| op.accepts(dtype)).map(|&op| spelling::binary(op, dtype));
        for spelling in unary.chain(binary) {
            for text in [spelling.wgsl, spelling.cuda] {
                assert!(text.matches("{a}").count() == 1 && text.matches("{b}").count() <= 1, "{text}");
            }
        }
    }
}

#[test]
fn products_of_warpgroups_are_checked() {
    /// Adds a product to a variable in a loop; `held` is evaluated in the loop or before it.
    fn product(columns: u32, workgroup: u32, in_loop: bool) -> Result<(), String> {
        let k = Builder::new("product", workgroup, 1);
        k.uses_subgroups(32);
        let matrix = k.shared_matrix(DType::F16, [64, columns], 1);
        let (sum, other) = (k.var(k.matrix_zero()), k.var(k.matrix_zero()));
        let before = other.get().to_left(DType::F16);
        k.count(k.u32(0), k.u32(3), k.u32(1), |_| {
            let held = if in_loop { other.get().to_left(DType::F16) } else { before };
            k.start_product((&[sum], true), Factor::Held(&[held; 4]), (matrix, k.u32(0), false));
            k.await_products(0, &[&[sum]]);
        });
        verify(&k.finish())
    }
    assert_eq!(product(16, 128, true), Ok(()));
    assert!(product(16, 128, false).unwrap_err().contains("was computed outside of the loop"));
    assert!(product(32, 128, true).unwrap_err().contains("64 terms and 16 columns"));
    assert!(product(16, 96, true).unwrap_err().contains("does not consist of warpgroups"));
}
