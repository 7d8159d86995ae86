//! Tests of models built by commands, as a page sends them.

use crate::arguments::Arguments;
use crate::commands::Commands;
use crate::sessions::Sessions;
use gradloom_core::error::ErrorKind;
use gradloom_core::nn::Init;
use gradloom_core::optim::Schedule;

const TABLE: &str = include_str!(concat!(env!("OUT_DIR"), "/ops.ts"));

/// Returns the code of an op in the generated TypeScript.
fn code(name: &str) -> u32 {
    let list = TABLE.split("OPS = {").nth(1).unwrap().split("} as const").next().unwrap();
    let mut lines = list.lines().filter(|line| !line.is_empty());
    let place = lines.position(|line| line.trim_start().starts_with(&format!("{name}: [")));
    let first: u32 = TABLE.split("FIRST_CODE = ").nth(1).unwrap().lines().next().unwrap().parse().unwrap();
    first + place.unwrap_or_else(|| panic!("there is no op `{name}`")) as u32
}

const TRAINING: &str = include_str!(concat!(env!("OUT_DIR"), "/training.ts"));

/// Optimizer arguments without limits and averages: one micro-batch, nothing unused, no normalized gradients.
const PLAIN: [f64; 7] = [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0];

/// Returns the arguments of an optimizer with a constant rate and no limits, as TypeScript derives them from
/// the generated list.
fn optimizer(kind: &str, lr: f64, given: &[(&str, f64)]) -> Vec<f64> {
    let list = TRAINING.split("OPTIMIZERS = {").nth(1).unwrap().split("} as const").next().unwrap();
    let lines: Vec<&str> = list.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let code = lines.iter().position(|line| line.starts_with(&format!("{kind}: ["))).unwrap();
    let names: Vec<&str> = lines[code].split('\'').skip(1).step_by(2).collect();
    let setting =
        |name: &str| names.iter().position(|n| *n == name).unwrap_or_else(|| panic!("{name}: {names:?}"));
    let settings = given.iter().flat_map(|(name, value)| [setting(name) as f64, *value]);
    [&[code as f64], &PLAIN[..], &[0.0, lr]].concat().into_iter().chain(settings).collect()
}

fn text(commands: &mut Commands, text: &str) -> f64 {
    commands.texts.push(text.to_string());
    (commands.texts.len() - 1) as f64
}

fn run(commands: &mut Commands, code: u32, numbers: &[f64]) -> usize {
    commands.run(code, numbers).unwrap_or_else(|error| panic!("command {code}: {error}"))
}

/// Traces `mean((x w - y)^2)` over rows of three, and returns the trace's id.
fn regression(commands: &mut Commands) -> usize {
    let [w, x, y] = ["w", "x", "y"].map(|name| text(commands, name));
    run(commands, 0, &[]);
    assert_eq!(run(commands, 1, &[w, -1.0, 0.0, 3.0, 0.02, 0.0, -1.0, 0.0, 3.0, 1.0]), 0);
    run(commands, 3, &[1.0]);
    let x = run(commands, 4, &[x, 0.0, 5.0, 3.0]) as f64;
    let y = run(commands, 4, &[y, 0.0, 5.0, 1.0]) as f64;
    let w = run(commands, 5, &[0.0]) as f64;
    let product = run(commands, code("matmul"), &[x, 0.0, w]) as f64;
    let difference = run(commands, code("sub"), &[product, 0.0, y]) as f64;
    let square = run(commands, code("square"), &[difference]) as f64;
    let loss = run(commands, code("mean"), &[square]) as f64;
    run(commands, 8, &[loss])
}

#[test]
fn a_program_is_described_without_a_device() {
    let mut commands = Commands::default();
    let trace = regression(&mut commands);
    let mut sessions = Sessions::default();
    let session = sessions.open(&commands, 7, 0, 0).unwrap();
    let adam = optimizer("adam", 0.01, &[("beta1", 0.8), ("eps", 1e-6)]);
    let trace = commands.traces[trace].clone().unwrap();
    let program = sessions.train(session, trace, &mut Arguments::new(&commands, 0, &adam)).unwrap();
    assert!(sessions.inspect(program, 0).unwrap().contains("param \"w\""));
    let kernels = sessions.inspect(program, 3).unwrap();
    assert!(kernels.contains("@compute"), "{kernels}");
    let counts = sessions.inspect(program, 4).unwrap();
    assert!(counts.contains("\"passes\":1,\"submits\":1"), "{counts}");
    let store = sessions.store(session).unwrap();
    assert!(store.contains("\"name\":\"w\",\"dtype\":\"f32\",\"shape\":[3,1],\"kind\":\"param\""), "{store}");
    // An upload changes all or nothing, and refuses an unknown name.
    let wrong = sessions.upload(session, true, &[("v", &[0; 12])]).unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Store);
    assert_eq!(sessions.feed(program, 0, &[0; 8]).unwrap_err().kind(), ErrorKind::Feed);
    sessions.close(session);
    assert_eq!(sessions.step(program).unwrap_err().kind(), ErrorKind::Internal);
}

#[test]
fn a_mistake_is_told_at_the_line_of_the_script() {
    let mut commands = Commands::default();
    let [x, file] = ["x", "http://page/model.ts"].map(|name| text(&mut commands, name));
    run(&mut commands, 0, &[]);
    run(&mut commands, 3, &[0.0]);
    let x = run(&mut commands, 4, &[x, 0.0, 2.0, 3.0]) as f64;
    run(&mut commands, 6, &[file, 41.0, 9.0]);
    let error = commands.run(code("matmul"), &[x, 0.0, x]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Trace);
    assert_eq!(error.origin().unwrap().to_string(), "http://page/model.ts:41:9");
    // The error invalidates the trace, but not the next one.
    assert!(commands.run(8, &[x]).is_err());
    regression(&mut commands);
}

#[test]
fn targets_of_another_shape_are_refused() {
    for name in ["mse_loss", "l1_loss", "bce_with_logits", "hinge_loss", "poisson_nll_loss", "kl_div_loss"] {
        let mut commands = Commands::default();
        let [x, y, file] = ["x", "y", "http://page/model.ts"].map(|name| text(&mut commands, name));
        run(&mut commands, 0, &[]);
        run(&mut commands, 3, &[1.0]);
        let x = run(&mut commands, 4, &[x, 0.0, 32.0, 1.0]) as f64;
        let y = run(&mut commands, 4, &[y, 0.0, 32.0]) as f64;
        run(&mut commands, 6, &[file, 41.0, 9.0]);
        let table = TABLE.contains(&format!("{name}: ["));
        let camel: String = name
            .split('_')
            .enumerate()
            .map(|(i, word)| match i {
                0 => word.to_string(),
                _ => word[..1].to_uppercase() + &word[1..],
            })
            .collect();
        // Mark a tensor where a number is also allowed.
        let marked: &[f64] = if name == "kl_div_loss" { &[x, y] } else { &[x, 0.0, y] };
        let error = commands.run(code(if table { name } else { &camel }), marked).unwrap_err();
        assert_eq!(error.origin().unwrap().to_string(), "http://page/model.ts:41:9");
        assert!(error.to_string().contains("`.squeeze(1)` on the predictions"), "{name}: {error}");
    }
}

#[test]
fn loops_segments_states_and_gradients_are_commands() {
    let mut commands = Commands::default();
    let commands = &mut commands;
    let [w, sum, x] = ["w", "sum", "x"].map(|name| text(commands, name));
    run(commands, 0, &[]);
    run(commands, 1, &[w, -1.0, 0.0, 1.0, 0.0, 0.0, -1.0, 0.0, 2.0]);
    assert_eq!(run(commands, 11, &[sum, 0.0, 1.0, 2.0]), 0);
    let mut traced = |with_gradient: bool| {
        run(commands, 3, &[1.0]);
        let x = run(commands, 4, &[x, 0.0, 4.0, 2.0]) as f64;
        let before = run(commands, 12, &[0.0]) as f64;
        // The state is carried, and x is stacked. The body is a segment with the first use of a parameter.
        let inside = run(commands, 18, &[4.0, 1.0, before, 1.0, x]) as f64;
        run(commands, 16, &[]);
        let w = run(commands, 5, &[0.0]) as f64;
        let product = run(commands, code("mul"), &[inside + 1.0, 0.0, w]) as f64;
        let next = run(commands, code("add"), &[inside, 0.0, product]) as f64;
        let next = run(commands, 17, &[next]) as f64;
        let last = run(commands, 19, &[1.0, next, 1.0, next]) as f64;
        run(commands, 13, &[0.0, last]);
        let loss = run(commands, code("sum"), &[last]) as f64;
        let w = run(commands, 5, &[0.0]) as f64;
        let third = if with_gradient { run(commands, 15, &[loss, w]) as f64 } else { w };
        let trace = run(commands, 8, &[loss, last + 1.0, third]);
        commands.traces[trace].take().unwrap().traced
    };
    let plain = traced(false);
    let graph = plain.graph.to_string();
    assert!(graph.contains("= repeat") && graph.contains("= checkpoint"), "{graph}");
    assert!(graph.contains("state \"sum\"") && graph.contains("update"), "{graph}");
    assert_eq!(plain.graph.ty(plain.results[1]).to_string(), "f32[4, 2]");
    let json = crate::report::graph(&plain);
    assert!(json.contains("\"kind\":\"param\",\"name\":\"w\""), "{json}");
    let graded = traced(true);
    assert_eq!(graded.graph.ty(graded.results[2]).to_string(), "f32[2]");

    // These are an open block, a missing one, and a loop whose carried tensor changes its type.
    run(commands, 3, &[1.0]);
    let x = run(commands, 4, &[sum, 0.0, 4.0, 2.0]) as f64;
    assert!(commands.run(17, &[x]).is_err());
    run(commands, 16, &[]);
    assert!(commands.run(8, &[x]).is_err());
    run(commands, 3, &[1.0]);
    let x = run(commands, 4, &[sum, 0.0, 4.0, 2.0]) as f64;
    let error = commands.run(18, &[3.0, 0.0, 1.0, x]).unwrap_err();
    assert!(error.to_string().contains("`scan` of 3 steps"), "{error}");
    run(commands, 3, &[1.0]);
    let x = run(commands, 4, &[sum, 0.0, 4.0, 2.0]) as f64;
    run(commands, 18, &[4.0, 1.0, x, 0.0]);
    let narrow = run(commands, code("sum"), &[x]) as f64;
    let error = commands.run(19, &[1.0, narrow, 0.0]).unwrap_err();
    assert!(error.to_string().contains("carried tensor 0"), "{error}");
}

#[test]
fn what_is_no_command_is_an_error() {
    let mut commands = Commands::default();
    assert_eq!(commands.run(code("relu"), &[0.0]).unwrap_err().kind(), ErrorKind::Trace);
    run(&mut commands, 0, &[]);
    run(&mut commands, 3, &[0.0]);
    for (code, numbers) in [
        (9_999, &[][..]),
        (code("relu"), &[]),
        (code("relu"), &[3.0]),
        (code("relu"), &[-1.0]),
        (code("relu"), &[f64::NAN]),
        (code("uniform"), &[1e9, 2.0]),
        (5, &[0.0]),
        (4, &[7.0, 0.0]),
    ] {
        assert!(commands.run(code, numbers).is_err(), "{code} {numbers:?}");
    }
    let name = text(&mut commands, "codes");
    let error = commands.run(1, &[name, -1.0, 0.0, 1.0, 0.0, 0.0, -1.0, 1.0, 3.0]).unwrap_err();
    assert!(error.to_string().contains("a parameter of dtype i32"), "{error}");
}

#[test]
fn each_optimizer_with_each_setting() {
    let mut commands = Commands::default();
    let trace = regression(&mut commands);
    let mut sessions = Sessions::default();
    let mut states = |numbers: &[f64]| {
        let session = sessions.open(&commands, 7, 0, 0).unwrap();
        let trace = commands.traces[trace].clone().unwrap();
        sessions.train(session, trace, &mut Arguments::new(&commands, 0, numbers))?;
        sessions.store(session)
    };
    let moments =
        |store: &str| ["optim.m.w", "optim.v.w", "optim.momentum.w"].map(|name| store.contains(name));
    let adam = [("beta1", 0.8), ("beta2", 0.99), ("eps", 1e-6), ("weightDecay", 0.1)];
    for kind in ["adam", "adamw"] {
        assert_eq!(moments(&states(&optimizer(kind, 0.1, &adam)).unwrap()), [true, true, false]);
    }
    let sgd = [("momentum", 0.9), ("nesterov", 1.0), ("weightDecay", 0.1)];
    assert_eq!(moments(&states(&optimizer("sgd", 0.1, &sgd)).unwrap()), [false, false, true]);
    assert_eq!(moments(&states(&optimizer("sgd", 0.1, &[("nesterov", 0.0)])).unwrap()), [false; 3]);
    // A setting reaches the optimizer under its own name, which the error shows.
    for (kind, setting, name) in [
        ("adam", "beta1", "beta1"),
        ("adamw", "beta2", "beta2"),
        ("adam", "eps", "epsilon"),
        ("sgd", "momentum", "momentum"),
    ] {
        let error = states(&optimizer(kind, 0.1, &[(setting, -1.0)])).unwrap_err();
        assert!(error.to_string().contains(&format!("`{name}` is -1")), "{error}");
    }
    for (code, rest) in [(9.0, &[0.0, 0.1][..]), (0.0, &[99.0]), (0.0, &[0.0, 0.1, 99.0, 1.0])] {
        let wrong = [&[code], &PLAIN[..], rest].concat();
        assert_eq!(states(&wrong).unwrap_err().kind(), ErrorKind::Internal);
    }
    // All options of a program: limits and averages, two micro-batches, unused parameters, normalized
    // gradients of one parameter.
    let varied = [0.0, 1.0, 0.5, 0.0, 0.9, 2.0, 1.0, 1.0, 0.0, 0.0, 0.1];
    assert!(states(&varied).unwrap().contains("optim.average.w"));
    let unknown = [0.0, 1.0, 0.5, 0.0, 0.9, 2.0, 0.0, 1.0, 7.0, 0.0, 0.1];
    assert_eq!(states(&unknown).unwrap_err().kind(), ErrorKind::Internal);
}

#[test]
fn schedules_and_initial_values_by_the_codes_that_typescript_has() {
    let commands = Commands::default();
    let code = |list: &str, name: &str| -> f64 {
        let line = TRAINING.split(&format!("const {list} = ")).nth(1).unwrap().lines().next().unwrap();
        let after = line.split(&format!(" {name}: ")).nth(1).unwrap_or_else(|| panic!("{name}: {line}"));
        after.split([',', ' ']).next().unwrap().parse().unwrap()
    };
    let schedule = |numbers: &[f64]| crate::optimizer::schedule(&mut Arguments::new(&commands, 0, numbers));
    let of = |name: &str| code("SCHEDULES", name);
    let linear = Schedule::Linear { from: 0.5, to: 0.1, steps: 9 };
    for (numbers, wanted) in [
        (vec![of("constant"), 0.5], Schedule::Constant(0.5)),
        (vec![of("linear"), 0.5, 0.1, 9.0], linear.clone()),
        (vec![of("cosine"), 0.5, 0.1, 9.0], Schedule::Cosine { from: 0.5, to: 0.1, steps: 9 }),
        (vec![of("staircase"), 0.5, 3.0, 0.1], Schedule::Staircase { peak: 0.5, every: 3, gamma: 0.1 }),
        (
            vec![of("milestones"), 0.5, 2.0, 3.0, 4.0, 0.1],
            Schedule::Milestones { peak: 0.5, milestones: vec![3, 4], gamma: 0.1 },
        ),
        (
            vec![of("warmup"), 1.0, 5.0, of("delayed"), 2.0, of("linear"), 0.5, 0.1, 9.0],
            Schedule::Warmup {
                peak: 1.0,
                steps: 5,
                then: Box::new(Schedule::Delayed { start: 2, then: Box::new(linear) }),
            },
        ),
    ] {
        assert_eq!(schedule(&numbers).unwrap(), wanted);
    }
    assert!(schedule(&[of("linear"), 0.5]).is_err() && schedule(&[99.0]).is_err());
    let init = |name: &str| {
        let given = || Ok(vec![7.0f32].into());
        crate::optimizer::init(code("INITS", name) as usize, [2.0, 3.0], given).unwrap()
    };
    for (name, wanted) in [
        ("zeros", Init::Zeros),
        ("ones", Init::Ones),
        ("constant", Init::Constant(2.0)),
        ("normal", Init::Normal { std: 2.0 }),
        ("uniform", Init::Uniform { low: 2.0, high: 3.0 }),
        ("fanIn", Init::FanIn),
        ("values", Init::Values(vec![7.0].into())),
        ("kaiming", Init::Kaiming { gain: 2.0 }),
    ] {
        assert_eq!(init(name), wanted);
    }
}

#[test]
fn the_table_has_every_kind_of_op() {
    for op in [
        "relu",
        "minimum",
        "gt",
        "sumAxes",
        "sumKeep",
        "add",
        "neg",
        "crossEntropy",
        "attention",
        "concat",
        "iota",
        "softplus",
        "rmsNorm",
        "randn",
        "stack",
    ] {
        assert!(code(op) >= 32, "{op}");
    }
    assert!(
        TABLE.contains("leakyRelu(slope?: number)")
            && TABLE.contains("leakyRelu: [1, ['slope', 'number', 0.01]]")
    );
    assert!(!TABLE.contains("  capture:") && !TABLE.contains("  split:"));
}

#[test]
fn what_a_device_grants_may_be_more_than_a_module_counts() {
    let (commands, mut sessions) = (Commands::default(), Sessions::default());
    for bytes in [4_294_967_292.0, 4_294_967_296.0, 9_007_199_254_740_991.0, f64::INFINITY] {
        let granted = [1024.0, 49_152.0, 32.0, bytes, 65_535.0, bytes, 0.0, 0.0, 0.0];
        sessions.limit(&mut Arguments::new(&commands, 0, &granted)).unwrap();
    }
}
