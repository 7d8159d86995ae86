//! A model through commands, as a page gives them.

use crate::arguments::Arguments;
use crate::commands::Commands;
use crate::sessions::Sessions;
use gradloom_core::error::ErrorKind;

const TABLE: &str = include_str!(concat!(env!("OUT_DIR"), "/ops.ts"));

/// The code of an op, as TypeScript reads it.
fn code(name: &str) -> u32 {
    let line = TABLE.lines().find(|line| line.trim_start().starts_with(&format!("{name}: {{ code: ")));
    let rest = line.unwrap_or_else(|| panic!("there is no op `{name}`")).split("code: ").nth(1).unwrap();
    rest.split(',').next().unwrap().parse().unwrap()
}

fn text(commands: &mut Commands, text: &str) -> f64 {
    commands.texts.push(text.to_string());
    (commands.texts.len() - 1) as f64
}

fn run(commands: &mut Commands, code: u32, numbers: &[f64]) -> usize {
    commands.run(code, numbers).unwrap_or_else(|error| panic!("command {code}: {error}"))
}

/// `mean((x w - y)^2)` over rows of three, and the number of its trace.
fn regression(commands: &mut Commands) -> usize {
    let [w, x, y] = ["w", "x", "y"].map(|name| text(commands, name));
    run(commands, 0, &[]);
    assert_eq!(run(commands, 1, &[w, -1.0, 0.0, 3.0, 0.02, 0.0, -1.0, 3.0, 1.0]), 0);
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
    let session = sessions.open(&commands, 7, 0).unwrap();
    let adam = [0.0, 0.9, 0.999, 1e-8, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.01];
    let trace = commands.traces[trace].clone().unwrap();
    let program = sessions.train(session, trace, &mut Arguments::new(&commands, 0, &adam)).unwrap();
    assert!(sessions.inspect(program, 0).unwrap().contains("param \"w\""));
    let kernels = sessions.inspect(program, 3).unwrap();
    assert!(kernels.contains("@compute"), "{kernels}");
    let counts = sessions.inspect(program, 4).unwrap();
    assert!(counts.contains("\"passes\":1,\"submits\":1"), "{counts}");
    let store = sessions.store(session).unwrap();
    assert!(store.contains("\"name\":\"w\",\"dtype\":\"f32\",\"shape\":[3,1],\"kind\":\"param\""), "{store}");
    // All or nothing, and no name that is not there.
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
    // The trace is spoilt; the next one is not.
    assert!(commands.run(8, &[x]).is_err());
    regression(&mut commands);
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
    ] {
        assert!(code(op) >= 32, "{op}");
    }
    assert!(!TABLE.contains("  capture:") && !TABLE.contains("  split:"));
}

#[test]
fn what_a_device_grants_may_be_more_than_a_module_counts() {
    let (commands, mut sessions) = (Commands::default(), Sessions::default());
    for bytes in [4_294_967_292.0, 4_294_967_296.0, 9_007_199_254_740_991.0, f64::INFINITY] {
        let granted = [1024.0, 49_152.0, 32.0, bytes, 65_535.0, bytes, 0.0, 0.0];
        sessions.limit(&mut Arguments::new(&commands, 0, &granted)).unwrap();
    }
}
