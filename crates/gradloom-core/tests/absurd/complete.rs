//! Checks that every public function is in a table.

/// Returns the names of the public functions in a source file, except those of its tests.
fn functions(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]").next().expect("a part before the tests");
    let mut names = Vec::new();
    for (at, _) in source.match_indices("pub fn ") {
        let rest = &source[at + 7..];
        // Skip functions whose name is a parameter of a macro.
        if !rest.starts_with('$') {
            names.push(rest.split(['(', '<']).next().expect("a name").to_string());
        }
    }
    // Methods that macros declare, as in `exp => Exp;`, `sum sum_axes sum_keep => Sum;` or
    // `var var_axes var_keep(..);`.
    for line in source.lines().map(str::trim).filter(|line| line.ends_with(';')) {
        let declared = match line.split_once(" => ") {
            Some((names, op)) if op.trim_end_matches(';').chars().all(char::is_alphanumeric) => Some(names),
            _ => line.strip_suffix(';').and_then(|line| line.split_once('(')).map(|(names, _)| names),
        };
        let words: Vec<&str> = declared.unwrap_or_default().split(' ').collect();
        let is_method =
            |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        let declares = line.contains(" => ") || words.len() == 3;
        if declares && !words[0].is_empty() && words.iter().all(is_method) {
            names.extend(words.iter().map(|word| word.to_string()));
        }
    }
    names
}

#[test]
fn every_public_function_is_called() {
    let tables = [
        include_str!("tensors.rs"),
        include_str!("numbers.rs"),
        include_str!("many.rs"),
        include_str!("layers.rs"),
        include_str!("optimizers.rs"),
        include_str!("main.rs"),
    ]
    .concat();
    // Functions that need no table. Recordings, blocks that are opened and closed in two calls, and parameter
    // tables are for other languages and the runtime. Builders of updates are for authors of optimizers, who
    // use them on a verified graph. The other functions only read.
    let others = [
        // Declarations of inputs, which the other tests pass with the types that `types` returns.
        "f32",
        "i32",
        "f16",
        "bf16",
        "u8",
        "i64",
        "u32",
        "add_low_rank",
        "begin",
        "end",
        "open",
        "input",
        "at",
        "error",
        "finish",
        "of",
        "iter",
        "states",
        "is_training",
        "zero_infinity",
        "custom",
        "of_all",
        "field",
        "param",
        "state",
        "matches",
        "expect_any",
        "fans",
        "duplicate",
        "attend_to_new",
        "of_shape",
        "of_type",
        "tie",
        "freeze",
        "is_frozen",
        "set_decay",
        "decay",
        "transposed_in_torch",
        "is_transposed_in_torch",
        "adapter",
        "is_of_adapter",
        "id",
        "named",
        "in_place",
        "name",
        "is_in_place",
        "stored",
        "store_matrices",
        "targets",
        "a",
        "b",
        "scale",
        "rank",
        "shared",
        "scalar",
        "with_scalar",
        "state_of",
        "moved",
        "running_mean",
        "with_decay",
        "shrunk",
        "descend",
        "at_rate",
        "assign",
        "set_number",
        "scalar_name",
        "applies",
        "attach",
        "global_norm",
        "loss_scale",
        "average_over_ranks",
        "whole_gradient",
        "numbers",
        "is_empty",
    ];
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut found, mut missing) = (0, Vec::new());
    for part in ["trace", "nn", "nn/layers", "optim"] {
        for file in std::fs::read_dir(folder.join(part)).unwrap().map(|entry| entry.unwrap().path()) {
            if file.extension().is_none_or(|ending| ending != "rs") {
                continue;
            }
            for name in functions(&std::fs::read_to_string(&file).unwrap()) {
                found += 1;
                let is_called = [".", "::", " ", "(", "*"].iter().any(|before| {
                    ["(", "::<"].iter().any(|after| tables.contains(&format!("{before}{name}{after}")))
                });
                if !is_called && !others.contains(&&name[..]) {
                    missing.push(format!("{name} of {}", file.display()));
                }
            }
        }
    }
    crate::assert_in_tables(&missing);
    assert!(found > 350, "absurd: {found} functions were found");
}
