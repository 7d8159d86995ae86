//! Checks that the guide (`docs/guide`) is complete: pages are listed and tested, code blocks name their
//! language, and links have a target. The code itself runs as doctests (`src/guide.rs`) and in the npm
//! package's tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Languages of code blocks. A block without a language would be Rust for rustdoc, and text for a reader.
const LANGUAGES: [&str; 7] = ["rust", "ts", "sh", "toml", "text", "python", "go"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the Markdown files in a folder and its subfolders.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Returns the pages of the guide with their names.
fn guide() -> Vec<(String, String)> {
    let source = root().join("docs/guide/src");
    let name = |path: &Path| path.strip_prefix(&source).unwrap().to_str().unwrap().replace('\\', "/");
    pages(&source).iter().map(|path| (name(path), read(path))).collect()
}

/// Returns the lines outside of code blocks, and the opening lines of code blocks.
fn prose_and_fences(text: &str) -> (Vec<&str>, Vec<&str>) {
    let (mut prose, mut fences, mut inside) = (Vec::new(), Vec::new(), false);
    for line in text.lines() {
        if line.starts_with("```") {
            if !inside {
                fences.push(line);
            }
            inside = !inside;
        } else if !inside {
            prose.push(line);
        }
    }
    (prose, fences)
}

/// Returns the link targets in lines of prose.
fn links(prose: &[&str]) -> Vec<String> {
    let text = prose.join("\n");
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_string()).collect()
}

/// Returns the anchor that GitHub and mdBook generate for a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn every_page_is_listed_and_tested() {
    let pages = guide();
    let (_, summary) = pages.iter().find(|(name, _)| name == "SUMMARY.md").expect("a summary");
    let listed: BTreeSet<String> = links(&summary.lines().collect::<Vec<_>>()).into_iter().collect();
    let there: BTreeSet<String> =
        pages.iter().map(|(name, _)| name.clone()).filter(|name| name != "SUMMARY.md").collect();
    assert_eq!(listed, there, "what SUMMARY.md lists and what is there");
    let tested = read(&root().join("crates/gradloom/src/guide.rs"));
    for (name, text) in &pages {
        let is_tested = tested.contains(&format!("\"{name}\""));
        assert!(is_tested || !text.contains("```rust"), "{name} is not in src/guide.rs");
    }
}

#[test]
fn every_block_says_its_language_and_runs() {
    for (name, text) in guide() {
        for fence in prose_and_fences(&text).1 {
            // Remove an attribute that marks an example that starts itself as a child process.
            let language = fence[3..].trim_end_matches(",standalone_crate");
            assert!(LANGUAGES.contains(&language), "{name}: `{fence}`");
        }
        assert!(!text.lines().any(|line| line.starts_with("    ") && line.trim_start().starts_with("```")));
    }
}

#[test]
fn links_lead_somewhere() {
    let root = root();
    let mut files = pages(&root.join("docs"));
    files.extend(
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "web/README.md"]
            .map(|name| root.join(name)),
    );
    let mut checked = 0;
    for file in files {
        let text = read(&file);
        for link in links(&prose_and_fences(&text).0) {
            if link.contains("://") {
                continue;
            }
            // Join a link that spans several lines.
            let link = link.replace('\n', "");
            let (path, place) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() { file.clone() } else { file.with_file_name(path) };
            assert!(target.exists(), "{}: {link}", file.display());
            checked += 1;
            if !place.is_empty() {
                let text = read(&target);
                let headings = prose_and_fences(&text).0.into_iter().filter(|line| line.starts_with('#'));
                let anchors: Vec<String> = headings.map(anchor).collect();
                assert!(
                    anchors.iter().any(|known| known == place),
                    "{}: {link}: {anchors:?}",
                    file.display()
                );
            }
        }
    }
    assert!(checked > 100, "{checked} links");
}

#[test]
fn the_phrase_book_is_large() {
    let pages = guide();
    let phrases = |name: &str| {
        let pages = pages.iter().filter(|(page, _)| page.starts_with(name));
        pages.map(|(_, text)| text.matches("// >>> ").count()).sum::<usize>()
    };
    assert!(phrases("pytorch/") >= 120, "{}", phrases("pytorch/"));
    println!("{} phrases of PyTorch, {} of JAX", phrases("pytorch/"), phrases("jax"));
}
