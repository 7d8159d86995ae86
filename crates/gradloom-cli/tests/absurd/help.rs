//! Commands and their parameters, parsed from the help texts.

use std::process::Command as Process;

#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) name: String,
    pub(crate) parameters: Vec<Parameter>,
}

/// An option with its dashes, or a positional argument with the name of its value.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) takes_value: bool,
    /// True if the value is optional and follows `=`.
    pub(crate) by_equals: bool,
    /// Possible values, if they are listed.
    pub(crate) choices: Vec<String>,
}

fn help(arguments: &[&str]) -> String {
    let output = Process::new(env!("CARGO_BIN_EXE_gradloom")).args(arguments).arg("-h").output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// Returns all commands except `help`.
pub(crate) fn commands() -> Vec<Command> {
    let text = help(&[]);
    let list = text.split("Commands:\n").nth(1).expect("a list of commands").lines();
    let names = list.map_while(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    names.map(|name| Command { name: name.to_string(), parameters: parameters(&help(&[name])) }).collect()
}

fn parameters(text: &str) -> Vec<Parameter> {
    let mut parameters: Vec<Parameter> = Vec::new();
    // A description has several lines, and ends with the possible values.
    let mut described = String::new();
    for line in text.lines() {
        let start = line.trim_start();
        let word = start.strip_prefix("-h, ").unwrap_or(start).split_whitespace().next().unwrap_or_default();
        let is_option = word.starts_with("--") && line.starts_with("  ") && !line.starts_with("          ");
        let is_positional = line.starts_with("  [") || line.starts_with("  <");
        if is_option || is_positional {
            described.clear();
            let name = word.split(['[', '=']).next().unwrap_or_default();
            let name = if is_positional { word.trim_matches(['<', '>', '[', ']', '.']) } else { name };
            if name != "--help" && name != "--version" {
                parameters.push(Parameter {
                    name: name.to_string(),
                    takes_value: is_positional
                        || start.split("  ").next().is_some_and(|usage| usage.contains('<')),
                    by_equals: word.contains("[="),
                    choices: Vec::new(),
                });
            }
        }
        described.push_str(line.trim());
        described.push(' ');
        if let (Some(last), Some((_, list))) =
            (parameters.last_mut(), described.split_once("[possible values:"))
            && let Some((list, _)) = list.split_once(']')
        {
            last.choices = list.split(',').map(|choice| choice.trim().to_string()).collect();
            described.clear();
        }
    }
    parameters
}
