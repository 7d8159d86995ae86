//! Tests error messages for mistakes in a model. The texts are snapshots that contain lines of this file.

mod book;
mod dtypes;
mod networks;
mod running;
mod shapes;
mod training;

use gradloom::ErrorKind;
use gradloom::prelude::*;

/// Returns the error message of a loss of `x: f32[8, 64]`, with line and column numbers replaced.
fn answer(f: impl FnOnce(&Linear, Tensor) -> Tensor) -> String {
    let error = Trainer::new(Linear::new(64, 32))
        .inputs([f32("x", [8, 64])])
        .loss(|layer, [x]| f(layer, x))
        .optimizer(Sgd::new(0.1))
        .compile(&Device::null())
        .unwrap_err();
    normalised(&error.to_string())
}

fn normalised(text: &str) -> String {
    let line = |line: &str| {
        let trimmed = line.trim_start();
        if let Some(place) = trimmed.strip_prefix("--> ") {
            let file = place.split(':').next().unwrap_or_default();
            return format!("--> {file}");
        }
        match line.split_once('|') {
            Some((gutter, rest)) if gutter.trim().parse::<u32>().is_ok() => format!("N |{rest}"),
            Some((gutter, rest)) if gutter.trim().is_empty() => format!("  |{rest}"),
            _ => match trimmed.strip_prefix("= ") {
                Some(rest) => format!("  = {rest}"),
                None => line.to_string(),
            },
        }
    };
    text.lines().map(|l| line(l).trim_end().to_string()).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_matrix_product_that_does_not_fit() {
    let text = answer(|layer, x| layer.forward(x).matmul(&layer.weight).mean());
    assert_eq!(
        text,
        "\
error: `matmul` of [8, 32] and [64, 32]: the inner extents 32 and 64 differ
--> crates/gradloom/tests/diagnostics/main.rs
  |
N |     let text = answer(|layer, x| layer.forward(x).matmul(&layer.weight).mean());
  |                                                   ^^^^^^
  |
  = help: the right operand would fit transposed: `.transpose(-2, -1)`
  = note: the parameter `weight` here is f32[64, 32]"
    );
}

#[test]
fn an_operator_on_shapes_that_do_not_broadcast() {
    let text = answer(|layer, x| (x + layer.forward(x)).mean());
    assert_eq!(
        text,
        "\
error: `+` of [8, 64] and [8, 32]: axis -1 has 64 elements on the left and 32 on the right
--> crates/gradloom/tests/diagnostics/main.rs
  |
N |     let text = answer(|layer, x| (x + layer.forward(x)).mean());
  |                                     ^
  |
  = help: shapes broadcast from the right: extents must be equal or 1"
    );
}

#[test]
fn an_operator_with_a_parameter_on_the_left() {
    let text = answer(|layer, x| (&layer.weight * x).mean());
    assert_eq!(
        text,
        "\
error: `*` of [64, 32] and [8, 64]: axis -1 has 32 elements on the left and 64 on the right
--> crates/gradloom/tests/diagnostics/main.rs
  |
N |     let text = answer(|layer, x| (&layer.weight * x).mean());
  |                                                 ^
  |
  = help: shapes broadcast from the right: extents must be equal or 1
  = note: the parameter `weight` here is f32[64, 32]"
    );
    let text = answer(|_, x| (x - -&Param::new([64], Init::Zeros)).mean());
    assert!(text.contains("(x - -&Param::new([64], Init::Zeros))"), "{text}");
    let text = answer(|layer, x| layer.forward(x).mean() + (&layer.weight / 0.0).mean());
    assert!(text.contains("`/` of f32[64, 32] and 0: a division by zero"), "{text}");
    let text = answer(|_, x| x.remainder(0).mean());
    assert!(text.contains("`remainder` of f32[8, 64] and 0: a division by zero"), "{text}");
}

#[test]
fn an_error_inside_a_layer_points_to_its_call() {
    let text = answer(|layer, x| layer.forward(x.transpose(0, 1)).mean());
    assert_eq!(
        text,
        "\
error: `matmul` of [64, 8] and [64, 32]: the inner extents 8 and 64 differ
--> crates/gradloom/tests/diagnostics/main.rs
  |
N |     let text = answer(|layer, x| layer.forward(x.transpose(0, 1)).mean());
  |                                        ^^^^^^^
  |
  = help: the right operand needs 8 rows: [.., 8, N]
  = note: the parameter `weight` here is f32[64, 32]"
    );
}

#[test]
fn the_first_of_several_errors_is_reported() {
    let text = answer(|_, x| x.reshape([8, 63]).matmul(x).sum_axes(7));
    assert!(
        text.starts_with("error: cannot reshape [8, 64] (512 elements) to [8, 63] (504 elements)"),
        "{text}"
    );
    assert!(text.contains("with axis 1 = 64 it would fit"), "{text}");
}

#[test]
fn dtypes_that_differ() {
    let text = answer(|layer, x| (layer.forward(x) * x.argmax(-1).unsqueeze(1)).mean());
    assert!(text.contains("`*` of f32[8, 32] and i32[8, 1]: the dtypes differ"), "{text}");
    assert!(text.contains("= help: convert one side with .cast(DType::F32)"), "{text}");
}

#[test]
fn a_loss_of_the_wrong_shape() {
    let text = answer(|layer, x| layer.forward(x));
    assert!(text.contains("the loss is f32[8, 32], not f32[]") && text.contains(".mean()"), "{text}");
}

#[test]
fn a_wrong_rank_is_reported_where_it_was_asked_for() {
    let text = answer(|layer, x| {
        let [_batch, _time, _width] = x.dims();
        layer.forward(x).mean()
    });
    assert!(text.contains("`dims` wants 3 axes, the tensor is [8, 64] (rank 2)"), "{text}");
    assert!(
        text.contains(
            "let [_batch, _time, _width] = x.dims();\n  |                                         ^^^^"
        ),
        "{text}"
    );
}

#[test]
fn shapes_beyond_any_memory_are_refused() {
    for text in [
        answer(|_, x| {
            let x = x.slice(0, 0..1).slice(1, 0..1);
            x.broadcast_to([274_177, 1]).matmul(x.broadcast_to([1, 67_280_421_310_721])).sum()
        }),
        answer(|_, x| x.pad(0, usize::MAX, 1, 0.0).sum()),
        answer(|_, x| x.slice(0, 0..=usize::MAX).sum()),
        answer(|_, _| full(DType::F32, [usize::MAX, 3], 0.0).sum()),
    ] {
        assert!(text.contains("memory") || text.contains("the axis has 8 elements"), "{text}");
    }
    let error = Trainer::new(Linear::new(1, 1))
        .inputs([f32("x", [1 << 40, 1 << 40])])
        .loss(|m, [x]| m.forward(x).sum())
        .optimizer(Sgd::new(0.1))
        .compile(&Device::null())
        .unwrap_err();
    assert!(error.to_string().contains("more elements than any memory can hold"), "{error}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_step_larger_than_the_memory_is_refused_before_it_is_allocated() {
    let error = Trainer::new(Linear::no_bias(1, 1))
        .inputs([f32("x", [1])])
        .loss(|m, [x]| {
            // A product needs its operand in memory.
            let many = x.broadcast_to([1 << 44]).exp().sin().reshape([1usize << 44, 1]);
            many.matmul(m.weight.tensor()).sum()
        })
        .optimizer(Sgd::new(0.1))
        .compile(&Device::cpu())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Plan, "{error}");
    let text = error.to_string();
    assert!(text.contains("f32[17592186044416] takes 70.4 TB") && text.contains("smaller"), "{text}");
}

#[test]
fn names_of_our_own_outputs_are_reserved() {
    for name in ["loss", "gradient_norm", "result.0"] {
        let text = answer(|layer, x| layer.forward(x).capture(name).mean());
        assert!(text.contains(&format!("the name `{name}` is gradloom's own")), "{text}");
    }
    #[derive(Module)]
    struct Clash {
        optim: Linear,
    }
    let error = Trainer::new(Clash { optim: Linear::new(1, 1) })
        .inputs([f32("x", [1, 1])])
        .loss(|m, [x]| m.optim.forward(x).sum())
        .optimizer(Sgd::new(0.1))
        .compile(&Device::null())
        .unwrap_err();
    assert!(error.to_string().contains("`optim.weight` is called like a state"), "{error}");
}

#[test]
fn numbers_that_are_not_finite_on_the_device_are_refused() {
    for lr in [1e39, f64::NAN, -1.0] {
        let error = Trainer::new(Linear::new(1, 1))
            .inputs([f32("x", [1, 1])])
            .loss(|m, [x]| m.forward(x).sum())
            .optimizer(AdamW::new(lr))
            .compile(&Device::null())
            .unwrap_err();
        assert!(error.to_string().contains("the optimizer's `lr` is"), "{error}");
    }
}

#[test]
fn floats_are_not_advised_to_become_integers() {
    let text = answer(|layer, x| (x.argmax(-1).unsqueeze(1) * layer.forward(x)).mean());
    assert!(text.contains("convert one side with .cast(DType::F32)"), "{text}");
}

#[test]
fn gradients_of_integers_are_refused() {
    let text = answer(|layer, x| {
        let class = x.argmax(-1);
        let loss = layer.forward(x).mean();
        let [gradient] = gradients(loss, [class]);
        loss + gradient.cast(DType::F32).mean()
    });
    assert!(text.contains("`gradients` with respect to a tensor of i32[8]"), "{text}");
}

#[test]
fn a_fraction_beside_integers() {
    let text = answer(|layer, x| (x.argmax(-1) * 0.5).cast(DType::F32).mean() + layer.forward(x).mean());
    assert!(text.contains("0.5 beside a tensor of i32: the fraction would be lost"), "{text}");
}

#[test]
fn parameters_without_a_gradient_are_named() {
    #[derive(Module)]
    struct Two {
        used: Linear,
        unused: Linear,
        stopped: Param,
    }
    let compile = |freeze: bool| {
        let model = Two {
            used: Linear::new(4, 1),
            unused: Linear::no_bias(2, 2),
            stopped: Param::new([1], Init::Ones),
        };
        if freeze {
            model.unused.weight.freeze();
            model.stopped.freeze();
        }
        Trainer::new(model)
            .inputs([f32("x", [3, 4])])
            .loss(|m, [x]| (m.used.forward(x) * m.stopped.tensor().detach()).mean())
            .optimizer(Adam::new(0.1))
            .compile(&Device::null())
    };
    let error = compile(false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MissingGradient);
    assert!(error.to_string().contains("`unused.weight`"), "{error}");
    compile(true).unwrap();

    let error = Trainer::new(Linear::no_bias(4, 4))
        .inputs([f32("x", [3, 4])])
        .loss(|m, [x]| m.forward(x).argmax(0).cast(DType::F32).sum())
        .optimizer(Adam::new(0.1))
        .compile(&Device::null())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MissingGradient);
    assert!(error.to_string().contains("`weight`"), "{error}");
}

#[test]
fn what_is_missing_is_named() {
    let error = Trainer::new(Linear::new(1, 1))
        .inputs([f32("x", [1])])
        .optimizer(Sgd::new(0.1))
        .compile(&Device::null());
    assert!(error.unwrap_err().to_string().contains("the trainer has no loss"));
    let error = Trainer::new(Linear::new(1, 1))
        .inputs([f32("x", [1])])
        .loss(|m, [x]| m.forward(x).sum())
        .compile(&Device::null());
    assert!(error.unwrap_err().to_string().contains("the trainer has no optimizer"));
    let error = Trainer::new(Linear::new(1, 1))
        .inputs([f32("x", [1])])
        .loss(|m, [x]| m.forward(x).sum())
        .optimizer(Adam::new(0.1).betas(0.9, 1.0))
        .compile(&Device::null());
    assert!(error.unwrap_err().to_string().contains("`beta2` is 1"));
}

#[test]
#[should_panic(expected = "no trace is open")]
fn a_tensor_operation_outside_of_a_trace_says_so() {
    let _ = iota(DType::I32, [3], 0);
}

/// Returns the error message of a loss of `x: f32[8, 64]` and a counter, f32 `[4, 2]`, that is a field of the
/// model.
fn state_answer(f: impl FnOnce(&State, Tensor) -> Tensor) -> String {
    let error = Trainer::new((Linear::new(64, 32), State::new([4, 2], DType::F32, 0.0)))
        .inputs([f32("x", [8, 64])])
        .loss(|(layer, state), [x]| layer.forward(x).mean() + f(state, x).mean())
        .optimizer(Sgd::new(0.1))
        .compile(&Device::null())
        .unwrap_err();
    normalised(&error.to_string())
}

#[test]
fn a_state_that_is_set_to_something_else() {
    let text = state_answer(|state, x| {
        state.set(x);
        x
    });
    assert_eq!(
        text,
        "\
error: the state is f32[4, 2], `set` gives it f32[8, 64]
--> crates/gradloom/tests/diagnostics/main.rs
  |
N |         state.set(x);
  |               ^^^
  |
  = help: a state keeps its dtype and shape; a part of it is set with `update_at`"
    );
    let text = state_answer(|state, x| {
        state.set(state.tensor().cast(DType::I32));
        x
    });
    assert!(
        text.contains("the state is f32[4, 2], `set` gives it i32[4, 2]") && text.contains(".cast("),
        "{text}"
    );
}

#[test]
fn a_window_that_does_not_fit_its_state() {
    let zero = || full(DType::I32, [0; 0], 0.0);
    let text = state_answer(|state, x| {
        state.update_at(&[zero(), zero()], x.slice(0, 0..1).slice(1, 0..3));
        x
    });
    assert_eq!(
        text,
        "\
error: the state is f32[4, 2], `update_at` gives it a window of f32[1, 3]
--> crates/gradloom/tests/diagnostics/main.rs
  |
N |         state.update_at(&[zero(), zero()], x.slice(0, 0..1).slice(1, 0..3));
  |               ^^^^^^^^^
  |
  = help: a window has the state's dtype and rank, and no extent larger than the state's"
    );
    let first_line = |f: &dyn Fn(&State)| {
        let text = state_answer(|state, x| {
            f(state);
            x
        });
        text.lines().next().unwrap_or_default().to_string()
    };
    assert_eq!(
        first_line(&|state| state.update_at(&[zero()], state.tensor())),
        "error: `update_at` of f32[4, 2] with 1 starts"
    );
    assert_eq!(
        first_line(&|state| state.update_at(&[zero(), zero().cast(DType::F32)], state.tensor())),
        "error: a start of `update_at` is f32[]"
    );
}

#[test]
fn a_state_that_is_updated_twice_or_in_a_block() {
    let first_lines = |f: &dyn Fn(&State, Tensor)| {
        let text = state_answer(|state, x| {
            f(state, x);
            x
        });
        text.lines().next().unwrap_or_default().to_string()
    };
    let zero = || full(DType::I32, [0; 0], 0.0);
    assert_eq!(
        first_lines(&|state, _| {
            state.set(state.tensor());
            state.set(state.tensor() * 2.0);
        }),
        "error: the state `1` is set twice"
    );
    let mixed = "error: the state `1` is set as a whole and also by windows";
    assert_eq!(
        first_lines(&|state, _| {
            state.set(state.tensor());
            state.update_at(&[zero(), zero()], state.tensor());
        }),
        mixed
    );
    assert_eq!(
        first_lines(&|state, _| {
            state.update_at(&[zero(), zero()], state.tensor());
            state.set(state.tensor());
        }),
        mixed
    );
    assert_eq!(
        first_lines(&|state, _| {
            let _ = checkpoint(|| {
                let twice = state.tensor() * 2.0;
                state.set(twice);
                twice
            });
        }),
        "error: a state is updated (`set`) inside `checkpoint` or `scan`"
    );
}

#[test]
fn states_without_a_name_or_with_a_wrong_one() {
    let stray = State::new([4], DType::F32, 0.0);
    let text = state_answer(|_, _| stray.tensor());
    assert_eq!(
        text,
        "\
error: a state of shape [4] is not part of the model
--> crates/gradloom/tests/diagnostics/main.rs
  |
N |     let text = state_answer(|_, _| stray.tensor());
  |                                          ^^^^^^
  |
  = help: make it a field of the model, so that `#[derive(Module)]` finds it, or name it with `.named(..)`"
    );
    let first_line = |f: &dyn Fn() -> Tensor| {
        state_answer(|state, _| state.tensor().sum() + f().cast(DType::F32).sum())
            .lines()
            .next()
            .unwrap_or_default()
            .to_string()
    };
    let named = |name: &str| State::new([4], DType::F32, 0.0).named(name);
    for taken in ["1", "0.weight"] {
        assert_eq!(
            first_line(&|| named(taken).tensor()),
            format!("error: another parameter or state of this program is called `{taken}`")
        );
    }
    assert_eq!(
        first_line(&|| named("a").tensor() + named("a").tensor()),
        "error: another parameter or state of this program is called `a`"
    );
    assert_eq!(
        first_line(&|| named("optim.m").tensor()),
        "error: the state `optim.m` is called like a state of the optimizer"
    );
    for (dtype, init) in [(DType::I32, 0.5), (DType::U32, -1.0), (DType::Bool, 2.0), (DType::I32, f64::NAN)] {
        assert_eq!(
            first_line(&|| State::new([4], dtype, init).named("a").tensor()),
            format!("error: the state `a` does not start as a number of its dtype, {dtype}")
        );
    }
    let clash = Session::new((named("0"), Linear::new(1, 1), named("0")), &Device::null(), 0).unwrap_err();
    assert_eq!(clash.message(), "two different parameters or states of the model are both called `0`");
    #[derive(Debug, Module)]
    struct Odd {
        optim: (State, State),
    }
    let odd = Odd { optim: (State::new([1], DType::F32, 0.0), State::new([1], DType::F32, 0.0)) };
    let error = Session::new(odd, &Device::null(), 0).unwrap_err();
    assert_eq!(error.message(), "the state `optim.0` is called like a state of the optimizer");
}

#[test]
fn a_ctc_loss_that_does_not_fit() {
    let answer = |labels: usize, blank: i32| {
        let inputs = [f32("x", [8, 2, 5]), i32("y", [2, labels]), i32("n", [2])];
        let session = Session::new((), &Device::null(), 1).unwrap();
        let loss = |x: Tensor, y: Tensor, n: Tensor| {
            let y = if labels == 1 { y.transpose(0, 1) } else { y };
            x.ctc_loss(y, n, n, CtcOptions::new().blank(blank))
        };
        session.infer(inputs, |(), [x, y, n]| loss(x, y, n)).err().map(|error| error.to_string())
    };
    assert_eq!(answer(3, 4), None);
    let text = answer(3, 5).unwrap();
    assert!(text.contains("`ctc_loss` with the blank 5 of [8, 2, 5]"), "{text}");
    assert!(text.contains("= help: it is a class, from 0 to 4"), "{text}");
    let text = answer(1, 0).unwrap();
    assert!(
        text.contains("`ctc_loss` of [8, 2, 5] with targets i32[1, 2], lengths i32[2] and i32[2]"),
        "{text}"
    );
    assert!(text.contains("targets [batch, labels]"), "{text}");
}
