//! Whole runs: their results, their reproducibility, and recovery from any interruption.

#![allow(clippy::disallowed_methods, reason = "tests read what they write")]

mod common;
use common::{Workspace, wait_until};
use safetensors::SafeTensors;
use std::process::{Child, Command, Stdio};

const TRAIN: &str = "train --config small.toml --data text.txt";
/// Results of a run that depend only on its settings.
const RESULTS: [&str; 6] =
    ["config.json", "metrics.csv", "loss.svg", "model.safetensors", "state.safetensors", "sample.txt"];

#[track_caller]
fn assert_same_results(workspace: &Workspace, a: &str, b: &str) {
    for name in RESULTS {
        let same = workspace.read(&format!("{a}/{name}")) == workspace.read(&format!("{b}/{name}"));
        assert!(same, "{name} differs between {a} and {b}");
    }
}

#[test]
fn a_run_leaves_what_it_says() {
    let workspace = Workspace::new();
    let finished = workspace.succeed(TRAIN);
    for name in RESULTS {
        assert!(!workspace.read(&format!("runs/tiny-1/{name}")).is_empty(), "{name} is empty");
    }
    assert!(finished.stdout.contains("run     runs/tiny-1\n"), "{}", finished.stdout);
    assert!(finished.stdout.contains("step 40/40"), "{}", finished.stdout);
    assert_eq!(finished.stderr, "");

    let metrics = workspace.text("runs/tiny-1/metrics.csv");
    let rows: Vec<Vec<&str>> = metrics.lines().skip(1).map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 41);
    let held_out = |row: usize| rows[row][2].parse::<f64>().unwrap();
    assert!((held_out(0) - 256f64.ln()).abs() < 0.1, "an untrained model guesses: {}", held_out(0));
    assert!(held_out(40) < 0.8 * held_out(0), "the held-out loss fell to {} only", held_out(40));
    assert_eq!(rows.iter().filter(|row| !row[2].is_empty()).count(), 5);

    let model = workspace.read("runs/tiny-1/model.safetensors");
    let model = SafeTensors::deserialize(&model).unwrap();
    assert_eq!(model.tensor("h.0.attn.c_attn.weight").unwrap().shape(), [16, 48]);
    assert_eq!(model.len(), 16, "parameters only");
    let state = workspace.read("runs/tiny-1/state.safetensors");
    assert_eq!(
        SafeTensors::deserialize(&state).unwrap().len(),
        3 * 16 + 1,
        "two moments each, and the step counter"
    );

    workspace.succeed(&format!("{TRAIN} --steps 2"));
    assert!(workspace.path("runs/tiny-2/model.safetensors").exists(), "the next run gets the next folder");
}

/// Tests that by default, the evaluated steps depend only on the number of steps, and the saved ones also on
/// the time.
#[test]
fn by_default_a_run_measures_and_saves_a_small_part_of_the_time() {
    let workspace = Workspace::new();
    let sizes = "--layers 1 --heads 2 --width 16 --context 16 --batch 2 --threads 1 --data text.txt";
    let began = std::time::Instant::now();
    let finished = workspace.succeed(&format!("train {sizes} --steps 170 --out run"));
    let events = workspace.text("run/events.jsonl");
    let at = |name: &str| -> Vec<u64> {
        let events = events.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        events.filter(|event| event["event"] == name).map(|event| event["step"].as_u64().unwrap()).collect()
    };
    assert_eq!(at("evaluated"), [0, 80, 160, 170]);
    let saved = at("saved");
    assert!(saved.last() == Some(&170) && saved.len() as u64 <= 1 + began.elapsed().as_secs() / 10);
    let config = workspace.text("run/config.json");
    assert!(config.contains("\"eval-every\": 80") && config.contains("\"save-every\": null"), "{config}");
    let spent = finished.stdout.lines().find(|line| line.contains(" s until the first step was made"));
    let spent = spent.expect("what the time went to");
    for part in ["for steps, ", "for evaluation, ", "for saving, ", "for the sample"] {
        assert!(spent.contains(part), "{spent}");
    }
}

#[test]
fn a_seed_decides_everything_and_threads_nothing() {
    let workspace = Workspace::new();
    for (name, flags) in [("a", ""), ("b", ""), ("c", "--seed 1"), ("d", "--threads 2")] {
        workspace.succeed(&format!("{TRAIN} --out {name} {flags}"));
    }
    assert_same_results(&workspace, "a", "b");
    assert_ne!(workspace.text("a/metrics.csv"), workspace.text("c/metrics.csv"));
    assert_eq!(workspace.text("a/metrics.csv"), workspace.text("d/metrics.csv"));
    let (a, d) = (workspace.read("a/state.safetensors"), workspace.read("d/state.safetensors"));
    let (a, d) = (SafeTensors::deserialize(&a).unwrap(), SafeTensors::deserialize(&d).unwrap());
    for (name, tensor) in a.iter() {
        assert_eq!(tensor.data(), d.tensor(name).unwrap().data(), "{name} depends on the threads");
    }
}

/// Tests that a run's own configuration repeats the run, and is one of the results of the repetition.
#[test]
fn a_configuration_of_a_run_repeats_it() {
    let workspace = Workspace::new();
    workspace.succeed(&format!("{TRAIN} --out a --memory-budget 2G --seed 3"));
    assert_eq!(workspace.succeed("train --config a/config.json --out b").stderr, "");
    assert_same_results(&workspace, "a", "b");
    workspace.succeed("train --config a/config.json --out c --seed 4");
    assert_ne!(workspace.text("a/metrics.csv"), workspace.text("c/metrics.csv"), "flags win over it");
    workspace.put("text.txt", "other words than before\n".repeat(100).as_bytes());
    let changed = workspace.succeed("train --config a/config.json --out d").stderr;
    assert!(
        changed.starts_with("note: the data is not that of the run that --config repeats: 1 file of ")
            && changed.ends_with(" then, 1 file of 2,400 bytes now\n"),
        "{changed}"
    );
    // The keys of the configuration are the flags, and the run's record.
    let json: serde_json::Value = serde_json::from_str(&workspace.text("a/config.json")).unwrap();
    let help = workspace.succeed("train --help").stdout;
    for key in json.as_object().unwrap().keys().filter(|key| *key != "run") {
        assert!(help.contains(&format!("--{key}")), "there is no flag --{key}");
    }
}

#[test]
fn a_memory_budget_changes_no_number() {
    let workspace = Workspace::new();
    let refused = workspace.run(&format!("{TRAIN} --out run --memory-budget 1k"));
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    let words: Vec<&str> = refused.stderr.split(' ').collect();
    assert!(
        refused.stderr.contains("the budget is 1000 bytes (1.0 kB)\n  help: raise --memory-budget"),
        "{}",
        refused.stderr
    );
    let least = words[words.iter().position(|word| *word == "needs").expect("what is needed") + 1];
    workspace.succeed(&format!("{TRAIN} --out kept"));
    workspace.succeed(&format!("{TRAIN} --out again --memory-budget {least}"));
    assert_eq!(workspace.text("kept/metrics.csv"), workspace.text("again/metrics.csv"));
    let states = ["kept", "again"].map(|run| workspace.read(&format!("{run}/state.safetensors")));
    let [kept, again] = states.each_ref().map(|state| SafeTensors::deserialize(state).unwrap());
    for (name, tensor) in kept.iter() {
        assert_eq!(tensor.data(), again.tensor(name).unwrap().data(), "{name} depends on the budget");
    }
    assert!(workspace.text("again/config.json").contains(&format!("\"memory-budget\": {least}")));
    // 0 removes the limit.
    workspace.succeed("train --resume again --steps 42 --memory-budget 0");
    assert!(workspace.text("again/config.json").contains("\"memory-budget\": null"));
}

/// Tests that sums of columns do not depend on what else their kernels compute, which is more if values are
/// computed again.
#[test]
fn a_memory_budget_with_dropout_changes_no_number() {
    let workspace = Workspace::new();
    let model = "--layers 2 --heads 2 --width 32 --context 64 --batch 8 --steps 4 --dropout 0.2 --seed 5";
    let state = |name: &str, flags: &str| {
        workspace.succeed(&format!("train --device cpu {model} --out {name} {flags}"));
        workspace.read(&format!("{name}/state.safetensors"))
    };
    let kept = state("kept", "--threads 2");
    let kept = SafeTensors::deserialize(&kept).unwrap();
    for (name, flags) in
        [("a", "--memory-budget 2.4M --threads 1"), ("b", "--memory-budget 2.9M --threads 2")]
    {
        let again = state(name, flags);
        let again = SafeTensors::deserialize(&again).unwrap();
        for (tensor, value) in kept.iter() {
            assert_eq!(value.data(), again.tensor(tensor).unwrap().data(), "{tensor} depends on {flags}");
        }
    }
}

#[test]
fn prompts_come_from_files_and_pipes_and_texts_as_json() {
    use std::io::Write;
    use std::process::Stdio;
    let workspace = Workspace::new();
    workspace.succeed(&format!("{TRAIN} --out run --steps 1"));
    let plain = workspace.succeed("sample run --prompt gradloom --tokens 20").stdout;
    workspace.put("prompt.txt", b"gradloom");
    assert_eq!(workspace.succeed("sample run --prompt-file prompt.txt --tokens 20").stdout, plain);
    let mut piped = workspace
        .command("sample run --prompt - --tokens 20")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    piped.stdin.take().unwrap().write_all(b"gradloom").unwrap();
    assert_eq!(String::from_utf8(piped.wait_with_output().unwrap().stdout).unwrap(), plain);
    let json = workspace.succeed("sample run --prompt gradloom --tokens 20 --json").stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["prompt"], &json["tokens"]), (&"gradloom".into(), &20.into()));
    assert_eq!(format!("gradloom{}\n", json["text"].as_str().unwrap()), plain);
    let missing = workspace.run("sample run --prompt-file none.txt");
    assert!(
        missing.stderr.starts_with("error: --prompt-file none.txt: cannot be read: "),
        "{}",
        missing.stderr
    );
}

/// Tests that each text is the same as with its prompt and seed alone.
#[test]
fn many_texts_come_in_the_order_of_their_prompts() {
    let workspace = Workspace::new();
    workspace.succeed(&format!("{TRAIN} --out run --steps 1"));
    let alone = |line: &str| -> serde_json::Value {
        serde_json::from_str(&workspace.succeed(&format!("sample run --tokens 12 --json {line}")).stdout)
            .unwrap()
    };
    workspace.put("prompts.txt", b"one\n\nt wo\none\n");
    let many =
        workspace.succeed("sample run --tokens 12 --prompts prompts.txt --count 2 --seed 5 --batch 3 --json");
    let many: Vec<serde_json::Value> =
        many.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(many.len(), 6);
    for (i, text) in many.iter().enumerate() {
        let (prompt, seed) = (["one", "t wo", "one"][i / 2], 5 + i as u64 % 2);
        assert_eq!((&text["prompt"], &text["seed"]), (&prompt.into(), &seed.into()));
        workspace.put("prompt.txt", prompt.as_bytes());
        assert_eq!(text["text"], alone(&format!("--prompt-file prompt.txt --seed {seed}"))["text"], "{i}");
    }
    let whole = alone("--prompt one --temperature 0")["text"].as_str().unwrap().to_string();
    let stop: String = whole.chars().skip(3).take(2).collect();
    if let Some(length) = whole.find(&stop) {
        workspace.put("prompts.txt", b"one");
        let flags = ["--prompts", "prompts.txt", "--stop", &stop, "--temperature", "0", "--logprobs", "2"];
        let mut stopped = workspace.command("sample run --tokens 12 --json");
        let stopped = stopped.args(flags).output().unwrap();
        let stopped: serde_json::Value = serde_json::from_slice(&stopped.stdout).unwrap();
        assert_eq!((&stopped["text"], &stopped["finish"]), (&whole[..length].into(), &"stop".into()));
        let tokens = stopped["logprobs"].as_array().unwrap();
        assert!(
            tokens.iter().all(|token| token["logprob"] == token["top"][0][1]),
            "greedy takes the likeliest"
        );
    }
}

#[test]
fn searches_and_drafts_write_from_the_command() {
    let workspace = Workspace::new();
    workspace.succeed(&format!("{TRAIN} --out run --steps 2"));
    workspace.succeed(&format!("{TRAIN} --out draft --steps 1 --seed 9"));
    let text = |line: &str| -> serde_json::Value {
        let line = format!("sample run --prompt 12 --tokens 9 --json {line}");
        serde_json::from_str(workspace.succeed(&line).stdout.lines().next().unwrap()).unwrap()
    };
    let greedy = text("--temperature 0");
    assert_eq!(text("--beams 1")["text"], greedy["text"]);
    let drafted = text("--temperature 0 --draft draft --drafted 3");
    assert_eq!(drafted["text"], greedy["text"]);
    assert!(drafted["drafted"].as_u64().unwrap() >= drafted["accepted"].as_u64().unwrap());
    let search = workspace.succeed("sample run --prompt 12 --tokens 9 --beams 3 --json").stdout;
    let scores: Vec<f64> = search
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["score"].as_f64().unwrap())
        .collect();
    assert!(scores.len() == 3 && scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    for (line, message) in [
        ("--bias 5", "--bias \"5\": this is no token and number"),
        ("--bias 9999:1", "--bias 9999: a bias for token 9999, and the model has"),
        ("--min-p 2", "--min-p 2: min-p 2 is not from 0 to 1"),
        ("--prompts none.txt", "--prompts none.txt: cannot be read"),
        ("--draft none", "--draft none: no such file or folder"),
    ] {
        let failed = workspace.run(&format!("sample run {line}"));
        assert!(failed.stderr.starts_with(&format!("error: {message}")), "{}", failed.stderr);
        assert_eq!(failed.code, Some(2), "{}", failed.stderr);
    }
}

/// Tests that for any number of texts and any search, a prompt is cut to the end that leaves room for the
/// text.
#[test]
fn a_prompt_beyond_the_context_is_cut_alike() {
    let workspace = Workspace::new();
    workspace.succeed(&format!("{TRAIN} --out run --steps 3"));
    workspace.put("long.txt", b"5 times 3 is 15 and 7 times 2 is 14");
    workspace.put("end.txt", b"times 2 is 14");
    // The model does not read the last generated token, so 16 tokens of context suffice.
    for (tokens, kept) in [(4, 13), (1, 16), (100, 8)] {
        let text = |flags: &str| {
            let line = format!("sample run --tokens {tokens} --json {flags}");
            let finished = workspace.succeed(&line);
            let json: serde_json::Value =
                serde_json::from_str(finished.stdout.lines().next().unwrap()).unwrap();
            (json["text"].as_str().unwrap().to_string(), finished.stderr)
        };
        let note = "note: the prompt has 35 tokens, and the model's context 16: it reads the last ";
        let one = text("--prompt-file long.txt --temperature 0");
        assert_eq!(one.1, format!("{note}{kept}\n"));
        if tokens == 4 {
            assert_eq!(text("--prompt-file end.txt --temperature 0"), (one.0.clone(), String::new()));
        }
        for flags in
            ["--prompts long.txt --temperature 0", "--prompt-file long.txt --temperature 0 --count 2"]
        {
            assert_eq!(text(flags), one, "{flags}");
        }
        for flags in
            ["--prompt-file long.txt --beams 1", "--prompt-file long.txt --temperature 0 --draft run"]
        {
            let other = text(flags);
            // Texts with these flags end at the context.
            assert!(
                one.0.starts_with(&other.0) && other.0.len() >= 4.min(tokens),
                "{flags}: {one:?} {other:?}"
            );
            let (notes, ended) = other.1.split_at(one.1.len());
            assert_eq!(notes, one.1, "{flags}");
            let told =
                ended.starts_with("note: a text ends at the model's context of 16, after 9 of 100 tokens");
            assert_eq!((told, ended.is_empty()), (tokens == 100, tokens < 100), "{flags}: {ended}");
        }
    }
}

#[test]
fn samples_stream_and_repeat() {
    let workspace = Workspace::new();
    workspace.succeed(&format!("{TRAIN} --out run"));
    let sample =
        |flags: &str| workspace.succeed(&format!("sample run --prompt 12 --tokens 40 {flags}")).stdout;
    let text = sample("");
    assert!(text.starts_with("12") && text.len() > 20, "{text:?}");
    assert_eq!(text, sample(""));
    assert_ne!(text, sample("--seed 1"));
    let greedy = sample("--temperature 0");
    assert_eq!(greedy, sample("--temperature 0 --seed 5"));
    assert_eq!(greedy, sample("--top-k 1"));
    assert_eq!(greedy, sample("--top-p 0.000001"));
    // The text is longer than the context of 16.
    assert!(workspace.succeed("sample run/model.safetensors --tokens 100").stdout.len() > 60);
}

fn spawn(workspace: &Workspace, line: &str) -> Child {
    workspace.command(line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command starts")
}

/// Kills a run repeatedly, at arbitrary moments, until it ends by itself.
#[test]
fn killed_and_resumed_is_as_if_nothing_happened() {
    let workspace = Workspace::new();
    workspace.succeed(&format!("{TRAIN} --out whole --steps 120"));
    let mut child = spawn(&workspace, &format!("{TRAIN} --out killed --steps 120"));
    wait_until("the first state", || workspace.path("killed/state.safetensors").exists());
    for round in 0..4usize {
        let rows = workspace.rows("killed");
        let wanted = rows.max(1) + [3, 9, 0, 16][round];
        wait_until("more steps", || {
            workspace.rows("killed") >= wanted || child.try_wait().unwrap().is_some()
        });
        child.kill().unwrap();
        child.wait().unwrap();
        child = spawn(&workspace, "train --resume killed");
        // Wait until resuming has cut the metrics back; the run then holds its lock.
        std::thread::sleep(std::time::Duration::from_millis(100 + 37 * round as u64));
    }
    assert!(child.wait().unwrap().success());
    assert_same_results(&workspace, "whole", "killed");
}

#[cfg(unix)]
#[test]
fn ctrl_c_saves_and_says_how_to_go_on() {
    let workspace = Workspace::new();
    workspace.succeed(&format!("{TRAIN} --out whole --steps 150"));
    let command = workspace.command(&format!("{TRAIN} --out run --steps 150")).stdout(Stdio::piped()).spawn();
    let child = command.unwrap();
    wait_until("a few steps", || workspace.rows("run") > 4);
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.ends_with(" of 150, and saved. Go on with\n  gradloom train --resume run\n"), "{stdout}");
    let steps = workspace.rows("run") - 1;
    let events = workspace.text("run/events.jsonl");
    let last = events.lines().last().unwrap();
    assert!(last.contains("\"ended\"") && last.contains("\"reason\":\"interrupted\""), "{last}");
    let resumed = workspace.succeed("train --resume run");
    assert!(resumed.stdout.contains(&format!("run     run, from step {steps}\n")), "{}", resumed.stdout);
    assert_same_results(&workspace, "whole", "run");
}

#[test]
fn a_finished_run_can_go_further() {
    let workspace = Workspace::new();
    workspace.succeed(&format!("{TRAIN} --out run --steps 10"));
    let before = workspace.read("run/state.safetensors");
    workspace.succeed("train --resume run");
    assert_eq!(workspace.read("run/state.safetensors"), before, "nothing is left to do");
    workspace.succeed("train --resume run --steps 15 --lr 0.001");
    assert_eq!(workspace.rows("run"), 16);
    let finished = workspace.run("train --resume run --steps 12");
    assert_eq!(finished.code, Some(2));
    let expected = "error: --steps 12: the run in run has 15 steps already\n  \
                    help: --steps counts from the beginning of the run: give a larger number";
    assert_eq!(finished.stderr.trim_end(), expected);
}

#[test]
fn changed_data_is_noticed() {
    let workspace = Workspace::new();
    workspace.succeed(&format!("{TRAIN} --out run --steps 10"));
    workspace.put("text.txt", "other words than before\n".repeat(100).as_bytes());
    let finished = workspace.run("train --resume run --steps 12");
    assert_eq!(finished.code, Some(2));
    let was = workspace.text("run/config.json");
    let was: serde_json::Value = serde_json::from_str(&was).unwrap();
    let was = was["run"]["data-bytes"].as_u64().unwrap();
    let changed = format!(
        "the data of the run in run has changed: 1 file of {},{:03} bytes then, 1 file of 2,400 bytes now",
        was / 1000,
        was % 1000
    );
    let expected = format!(
        "error: {changed}\n  \
         help: restore the files, or name them with --data to go on with what they are now\n"
    );
    assert_eq!(finished.stderr, expected);
    let resumed = workspace.succeed("train --resume run --steps 12 --data text.txt");
    assert_eq!(resumed.stderr, format!("note: {changed}; it goes on with what --data names\n"));
    // The same text at another path is no change; other words of the same length are.
    workspace.put("copy.txt", &workspace.read("text.txt"));
    assert_eq!(workspace.succeed("train --resume run --steps 13 --data copy.txt").stderr, "");
    workspace.put("copy.txt", "other worms than before\n".repeat(100).as_bytes());
    let finished = workspace.run("train --resume run --steps 14");
    assert!(
        finished.stderr.contains("1 file of 2,400 bytes, with other contents than then\n"),
        "{}",
        finished.stderr
    );
    workspace.put("copy.txt", &workspace.read("text.txt"));
    workspace.succeed("train --resume run --steps 13 --data text.txt");

    std::fs::remove_file(workspace.path("text.txt")).unwrap();
    let finished = workspace.run("train --resume run --steps 14");
    assert_eq!(finished.code, Some(2));
    let expected = "error: the data of the run in run: DIR/text.txt: no such file or folder\n  \
                    help: restore it, or name the data with --data to go on with what there is now";
    assert_eq!(finished.stderr.trim_end(), expected);
}

/// Asserts that a run's model and state contain no infinity or NaN.
#[track_caller]
fn assert_finite(workspace: &Workspace, run: &str) {
    for file in ["model.safetensors", "state.safetensors"] {
        let bytes = workspace.read(&format!("{run}/{file}"));
        for (name, tensor) in SafeTensors::deserialize(&bytes).unwrap().iter() {
            let elements = tensor.data().chunks_exact(4);
            let mut values = elements.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            assert!(values.all(f32::is_finite), "{name} of {file}");
        }
    }
}

/// Returns the command that a message suggests, without the program's name.
fn advised(stderr: &str) -> &str {
    let line = stderr.lines().find(|line| line.contains("gradloom train --resume")).expect("advice");
    line.split_once("gradloom ").expect("a command").1
}

/// Tests that weights are not saved if they produce no finite loss: those after step 11, as step 12 shows.
#[test]
fn a_run_that_diverges_goes_on_from_its_last_good_state() {
    let workspace = Workspace::new();
    workspace.succeed(&format!("{TRAIN} --out run --steps 10"));
    workspace.succeed(&format!("{TRAIN} --out same --steps 10"));
    let model = workspace.read("run/model.safetensors");
    let finished = workspace.run("train --resume run --steps 20 --lr 1e17 --save-every 1");
    assert_eq!(finished.code, Some(1));
    let expected = "error: step 12: the loss is not finite; training stopped\n  \
                    help: the last good state, that of step 10, is saved; go on from it more slowly: \
                    gradloom train --resume run --lr 0.002";
    assert_eq!(finished.stderr.trim_end(), expected);
    assert_finite(&workspace, "run");
    assert!(workspace.read("run/model.safetensors") == model, "the model of step 10 was replaced");
    // The message names the op.
    let named = workspace.run("train --resume run --steps 20 --lr 1e17 --save-every 1 --debug-nan");
    let first = named.stderr.lines().next().unwrap_or_default();
    assert!(first.starts_with("error: `") && first.ends_with(" from finite numbers"), "{}", named.stderr);
    assert!(named.stderr.contains("language_model.rs:"), "{}", named.stderr);
    assert!(named.stderr.trim_end().ends_with(expected), "{}", named.stderr);

    assert_eq!(
        workspace.succeed("sample run --tokens 20").stdout,
        workspace.succeed("sample same --tokens 20").stdout
    );
    let finished = workspace.succeed(advised(&finished.stderr));
    assert!(finished.stdout.contains("run     run, from step 10\n"), "{}", finished.stdout);
    assert_eq!(workspace.rows("run"), 21);
    assert_finite(&workspace, "run");
    assert!(!workspace.text("run/metrics.csv").contains("NaN"));
}

/// Tests that the held-out loss exposes a bad last step, which no other step follows.
#[test]
fn a_last_step_that_ruins_the_weights_is_noticed() {
    let workspace = Workspace::new();
    for (run, flags) in [("a", "--lr 1e17 --warmup 0 --steps 1"), ("b", "--lr 1e18 --warmup 0 --clip 0")] {
        let finished = workspace.run(&format!("{TRAIN} --out {run} {flags}"));
        assert_eq!(finished.code, Some(1), "{}", finished.stdout);
        let step = if run == "a" { "1: the held-out" } else { "2: the" };
        assert!(
            finished
                .stderr
                .starts_with(&format!("error: step {step} loss is not finite; training stopped\n")),
            "{}",
            finished.stderr
        );
        assert!(
            finished.stderr.contains("the last good state, that of step 0, is saved"),
            "{}",
            finished.stderr
        );
        assert_finite(&workspace, run);
        assert!(!workspace.succeed(&format!("sample {run} --tokens 5")).stdout.is_empty());
        workspace.succeed(advised(&finished.stderr));
        assert_finite(&workspace, run);
    }
}

#[test]
fn new_settings_outlive_a_crash() {
    let workspace = Workspace::new();
    workspace.succeed(&format!("{TRAIN} --out run --steps 10"));
    let mut child = spawn(&workspace, "train --resume run --steps 100000 --batch 3 --save-every 100000");
    wait_until("a few steps", || workspace.rows("run") > 14);
    child.kill().unwrap();
    child.wait().unwrap();
    let resumed = workspace.succeed("train --resume run --steps 12");
    assert!(resumed.stdout.contains("run     run, from step 10\n"), "{}", resumed.stdout);
    assert!(resumed.stdout.contains("step    3 × 16 tokens"), "{}", resumed.stdout);
}

#[test]
fn metrics_that_are_lost_are_not_made_up() {
    let workspace = Workspace::new();
    workspace.succeed(&format!("{TRAIN} --out run --steps 10"));
    std::fs::remove_file(workspace.path("run/metrics.csv")).unwrap();
    let resumed = workspace.succeed("train --resume run --steps 12");
    assert_eq!(resumed.stderr, "warning: run/metrics.csv: the rows up to step 10 are missing\n");
    let rows = workspace.text("run/metrics.csv");
    let steps: Vec<&str> = rows.lines().skip(1).map(|row| row.split(',').next().unwrap()).collect();
    assert_eq!(steps, ["11", "12"]);

    workspace.put("run/metrics.csv", b"my notes\n");
    let resumed = workspace.succeed("train --resume run --steps 14");
    let expected =
        "warning: run/metrics.csv: line 1 is damaged; it is now metrics.damaged.csv, and 0 of its rows go on";
    assert_eq!(resumed.stderr.trim_end(), expected);
    assert_eq!(workspace.text("run/metrics.damaged.csv"), "my notes\n");
    assert_eq!(workspace.rows("run"), 2);
}
