//! Absurd values, special files and small limits. In all cases the command ends within ten seconds, with exit
//! code 0, 1 or 2, and a failure prints one error message.
//!
//! Commands and options are parsed from the help texts, so that new options are tested too.
//! `GRADLOOM_ABSURD=N` also tests N random combinations of options and values.
#![cfg(target_os = "linux")]

mod case;
mod files;
mod help;
mod limits;

use case::{Bench, Case};
use gradloom_testing::Random;
use help::{Command, Parameter};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Returns options and values with which a command does little; an option under test is omitted.
fn little(command: &str) -> &'static [(&'static str, &'static str)] {
    match command {
        "train" => &[
            ("--layers", "1"),
            ("--heads", "1"),
            ("--width", "8"),
            ("--context", "8"),
            ("--batch", "1"),
            ("--steps", "1"),
            ("--threads", "1"),
            ("--data", "DIR/text.txt"),
        ],
        "sample" => &[("RUN", "DIR/run"), ("--tokens", "1"), ("--threads", "1")],
        "eval" => &[("PATH", "DIR/run"), ("--data", "DIR/text.txt"), ("--threads", "1")],
        "prepare" => &[("TEXT", "DIR/text.txt"), ("--tokenizer", "bytes"), ("--out", "tokens")],
        "tokenize" => &[("TOKENIZER", "bytes"), ("FILE", "DIR/text.txt")],
        "inspect" => &[("PRESET|RUN", "DIR/run")],
        "info" => &[("PATH", "DIR/run")],
        "import" => &[("PATH", "DIR/run"), ("OUT", "imported")],
        "export" => &[("PATH", "DIR/run"), ("--out", "exported")],
        "bench" | "profile" => &[("--config", "mlp-sin"), ("--steps", "2"), ("--threads", "1")],
        _ => &[],
    }
}

/// Returns a command with little work, and one parameter with the given value.
fn with(bench: &Bench, command: &Command, parameter: &Parameter, value: Option<OsString>) -> Case {
    // Add no options for a run, which has its own settings, some of which must not be changed.
    let others = if parameter.name == "--resume" { &[] } else { little(&command.name) };
    let mut case = Case::new(&command.name);
    for (name, value) in others.iter().filter(|(name, _)| *name != parameter.name) {
        case.give(name, bench.place(value));
    }
    match value {
        Some(value) if parameter.by_equals => {
            case.argument([parameter.name.clone().into(), "=".into(), value])
        }
        Some(value) => case.give(&parameter.name, value),
        None => case.argument([parameter.name.clone().into()]),
    }
    case
}

fn values() -> Vec<OsString> {
    let mut values: Vec<OsString> = [
        "0",
        "-1",
        "1",
        "2147483648",
        "4294967296",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "1e308",
        "1e-320",
        "NaN",
        "inf",
        "-inf",
        "",
        "0.5",
        "\n",
        "1T",
        "99999999T",
        "[*?",
    ]
    .map(OsString::from)
    .to_vec();
    // This is almost the longest argument that Linux accepts.
    values.push("x".repeat(120_000).into());
    values.push("*/".repeat(50_000).into());
    values.push(OsString::from_vec(b"\xff\xfe\x80".to_vec()));
    values
}

/// Returns `true` for large numbers of steps, all of which the command has to run: they take long, and reveal
/// no more than a few steps.
fn is_long(command: &str, parameter: &str, value: &OsString) -> bool {
    let many = value.to_str().and_then(|text| text.parse::<f64>().ok()).is_some_and(|n| n > 1000.0);
    many && matches!((command, parameter), ("bench" | "profile", "--steps"))
}

/// Adds options that end a command with a great amount of work.
fn bounded(mut case: Case, parameter: &str) -> Case {
    match (case.command.as_str(), parameter) {
        // Let the first step make the weights overflow.
        ("train", "--steps") => {
            case.give("--lr", "1e38".into());
            case.give("--warmup", "0".into());
        }
        ("sample", "--tokens") => case.full_output = true,
        _ => {}
    }
    case
}

#[test]
fn the_help_names_all_commands_and_options() {
    let commands = help::commands();
    let names: Vec<&str> = commands.iter().map(|command| command.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "train",
            "sample",
            "eval",
            "prepare",
            "tokenize",
            "inspect",
            "info",
            "import",
            "export",
            "devices",
            "bench",
            "profile",
            "completions"
        ]
    );
    let train: Vec<&str> = commands[0].parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    for option in ["--data", "--heads", "--tune", "--memory-budget", "--config", "--resume"] {
        assert!(train.contains(&option), "{option}");
    }
    assert!(train.len() >= 22, "{train:?}");
    assert!(commands[1].parameters.iter().any(|parameter| parameter.name == "RUN"));
}

#[test]
fn absurd_values() {
    let bench = Bench::new();
    let mut cases = Vec::new();
    for command in help::commands() {
        for parameter in &command.parameters {
            if !parameter.takes_value || parameter.by_equals {
                cases.push(with(&bench, &command, parameter, None));
            }
            let values = values().into_iter().filter(|_| parameter.takes_value);
            let values = values.filter(|value| !is_long(&command.name, &parameter.name, value));
            for value in values.chain(parameter.choices.iter().map(OsString::from)) {
                cases.push(bounded(with(&bench, &command, parameter, Some(value)), &parameter.name));
            }
        }
        for value in values() {
            let mut case = Case::new(&command.name);
            case.argument([value]);
            cases.push(case);
        }
    }
    bench.run_all(cases);
}

/// Tests the same values in a configuration file, bare and in quotes.
#[test]
fn absurd_keys() {
    let bench = Bench::new();
    let commands = help::commands();
    let train = &commands[0];
    let mut cases = Vec::new();
    for parameter in train.parameters.iter().filter(|p| !["--config", "--resume"].contains(&p.name.as_str()))
    {
        for value in values().iter().filter_map(|value| value.to_str()) {
            for value in [value.to_string(), format!("{value:?}")] {
                let file = bench.path(&format!("config-{}.toml", cases.len()));
                let key = parameter.name.trim_start_matches('-');
                std::fs::write(&file, format!("{key} = {value}\n")).unwrap();
                let mut case = Case::new("train");
                let others = little("train").iter().filter(|(name, _)| *name != parameter.name);
                others.for_each(|(name, value)| case.give(name, bench.place(value)));
                case.give("--config", file.into());
                cases.push(bounded(case, &parameter.name));
            }
        }
    }
    bench.run_all(cases);
}

#[test]
fn special_files_as_values() {
    let bench = Bench::new();
    let special = files::make(&bench.path("special"));
    let mut cases = Vec::new();
    for command in help::commands() {
        for parameter in command.parameters.iter().filter(|parameter| parameter.takes_value) {
            for file in &special {
                cases.push(with(&bench, &command, parameter, Some(file.into())));
            }
        }
    }
    bench.run_all(cases);
}

#[test]
fn special_files_in_a_run() {
    let bench = Bench::new();
    let special = files::make(&bench.path("special"));
    let written = std::fs::read_dir(bench.path("run")).unwrap();
    let mut names: Vec<OsString> = written.map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.len() >= 7, "{names:?}");
    names.extend(names.clone().into_iter().map(|mut name| {
        name.push(".partial");
        name
    }));
    let mut cases = Vec::new();
    for name in names {
        for file in &special {
            let lines = ["train --resume run --steps 3", "sample run --tokens 1", "inspect run"];
            // All except the first read one file each.
            let read = ["", "model.safetensors", "state.safetensors"];
            for line in lines
                .into_iter()
                .zip(read)
                .filter(|(_, read)| read.is_empty() || name == *read)
                .map(|(l, _)| l)
            {
                let mut words = line.split(' ');
                let mut case = Case::new(words.next().unwrap());
                words.for_each(|word| case.argument([word.into()]));
                case.replaced = Some((name.clone(), file.clone()));
                cases.push(case);
            }
        }
    }
    bench.run_all(cases);
}

#[test]
fn special_files_in_the_cache() {
    let bench = Bench::new();
    let cases = files::make(&bench.path("special")).into_iter().map(|file| {
        let mut case = Case::new("profile");
        little("profile").iter().for_each(|(name, value)| case.give(name, value.into()));
        case.cached = Some(file);
        case
    });
    bench.run_all(cases.collect());
}

#[test]
fn small_limits() {
    let bench = Bench::new();
    let mut cases = Vec::new();
    for command in help::commands() {
        for limit in limits::all(&bench) {
            let mut case = Case::new(&command.name);
            little(&command.name).iter().for_each(|(name, value)| case.give(name, bench.place(value)));
            case.limit = Some(limit);
            cases.push(case);
        }
    }
    bench.run_all(cases);
}

#[test]
fn outputs_that_are_full() {
    let bench = Bench::new();
    let mut cases = Vec::new();
    for command in help::commands() {
        for (output, error) in [(true, false), (false, true), (true, true)] {
            let mut case = Case::new(&command.name);
            little(&command.name).iter().for_each(|(name, value)| case.give(name, bench.place(value)));
            (case.full_output, case.full_error) = (output, error);
            cases.push(case.clone());
            case.argument(["--no-such-option".into()]);
            cases.push(case);
        }
    }
    bench.run_all(cases);
}

/// Tests that a run whose threads cannot be started leaves nothing behind, and that the message names the
/// reason.
#[test]
fn a_run_that_gets_no_threads_leaves_nothing() {
    let bench = Bench::new();
    for (processes, threads, expected) in [
        (1, "64", "error: Ctrl-C cannot be listened for"),
        (4, "64", "error: --threads 64: the system lets"),
        (2, "1", "error: states cannot be saved, which takes a thread"),
    ] {
        let Some(limit) = limits::processes(&bench, processes) else {
            println!("skipped: this user may not become another one, whose processes are limited");
            return;
        };
        let mut case = Case::new("train");
        little("train").iter().for_each(|(name, value)| {
            case.give(name, if *name == "--threads" { threads.into() } else { bench.place(value) });
        });
        case.limit = Some(limit);
        let ended = bench.run(&case);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.starts_with(expected), "{ended:?}");
        assert!(ended.stderr.contains("(ulimit -u)"), "{ended:?}");
        assert_eq!(ended.left, [""; 0], "something was left behind");
    }
}

#[test]
fn random_combinations() {
    let Some(count) = std::env::var("GRADLOOM_ABSURD").ok().and_then(|count| count.parse::<u64>().ok())
    else {
        println!("skipped: set GRADLOOM_ABSURD to a number of combinations");
        return;
    };
    let bench = Bench::new();
    let special = files::make(&bench.path("special"));
    let commands = help::commands();
    let mut random = Random::new(1);
    let mut draw = move |n: usize| random.below(n);
    let (values, limits) = (values(), limits::all(&bench));
    let mut cases = Vec::new();
    for _ in 0..count {
        let command = &commands[draw(commands.len())];
        if command.parameters.is_empty() {
            continue;
        }
        let mut case = Case::new(&command.name);
        let chosen: Vec<&Parameter> =
            (0..1 + draw(4)).map(|_| &command.parameters[draw(command.parameters.len())]).collect();
        if !chosen.iter().any(|parameter| parameter.name == "--resume") {
            let others =
                little(&command.name).iter().filter(|(name, _)| chosen.iter().all(|p| p.name != *name));
            others.for_each(|(name, value)| case.give(name, bench.place(value)));
        }
        let mut seen = Vec::new();
        for parameter in chosen {
            if seen.contains(&&parameter.name) {
                continue;
            }
            seen.push(&parameter.name);
            let value = match draw(4) {
                0 => special[draw(special.len())].clone().into(),
                1 if !parameter.choices.is_empty() => {
                    parameter.choices[draw(parameter.choices.len())].clone().into()
                }
                _ => values[draw(values.len())].clone(),
            };
            if is_long(&command.name, &parameter.name, &value) {
                continue;
            }
            match parameter.takes_value {
                false => case.argument([parameter.name.clone().into()]),
                true if parameter.by_equals => {
                    case.argument([parameter.name.clone().into(), "=".into(), value])
                }
                true => case.give(&parameter.name, value),
            }
            let long = ["--steps", "--tokens"].contains(&parameter.name.as_str());
            if long && !case.has("--lr") && !case.has("--warmup") {
                case = bounded(case, &parameter.name);
            }
        }
        if draw(3) == 0 {
            // Use a small stack only if the arguments on it leave room to start the program.
            let limit = limits[draw(limits.len())].clone();
            case.limit = Some(limit).filter(|limit| limit.name != "stack" || case.bytes() < 10_000);
        }
        cases.push(case);
    }
    bench.run_all(cases);
}
