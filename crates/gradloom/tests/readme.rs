//! Tests that the README contains the examples unchanged.

#[test]
fn the_readme_shows_the_examples() {
    let readme = include_str!("../../../README.md");
    for example in [include_str!("../../../examples/mlp.rs"), include_str!("../../../examples/gpt.rs")] {
        let code: Vec<&str> =
            example.lines().skip_while(|line| line.starts_with("//!") || line.is_empty()).collect();
        assert!(readme.contains(code.join("\n").trim_end()), "copy into the README:\n{}", code.join("\n"));
    }
}
