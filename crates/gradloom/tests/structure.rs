//! Checks the boundaries between crates, dialects and files, based on the manifests and `use` lines.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of files in an import cycle.
const LARGEST_CIRCLE: usize = 6;

const BACKENDS: [&str; 4] = ["gradloom-cpu", "gradloom-wgpu", "gradloom-webgpu", "gradloom-cuda"];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the names of the dependencies of a crate, except those of its tests.
fn dependencies(name: &str) -> Vec<String> {
    let manifest = fs::read_to_string(crates().join(name).join("Cargo.toml")).expect("a manifest");
    let mut section = "";
    let mut found = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        } else if section.ends_with("dependencies]") && !section.contains("dev-") {
            let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
            found.push(name.to_string());
        }
    }
    found
}

#[test]
fn crates_depend_on_those_below_them() {
    let forbid = |name: &str, others: &[&str]| {
        let all = dependencies(name);
        assert!(!all.is_empty(), "{name} has dependencies");
        let wrong: Vec<_> = all.iter().filter(|one| others.contains(&one.as_str())).collect();
        assert!(wrong.is_empty(), "{name} depends on {wrong:?}");
    };
    forbid("gradloom-core", &["gradloom-codegen", "gradloom-device", "gradloom-runtime"]);
    forbid("gradloom-codegen", &["gradloom-device", "gradloom-runtime"]);
    for name in ["gradloom-codegen", "gradloom-device", "gradloom-runtime", "gradloom-models"] {
        forbid(name, &BACKENDS);
    }
    for name in BACKENDS {
        forbid(name, &["gradloom-runtime", "gradloom"]);
        forbid(name, &BACKENDS);
    }
}

/// Source text of the modules of a crate, by path.
type Modules = BTreeMap<Vec<String>, String>;

fn modules(name: &str) -> Modules {
    fn add(folder: &Path, path: &[String], into: &mut Modules) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let file = entry.expect("an entry").path();
            let stem = file.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_string();
            if matches!(stem.as_str(), "tests" | "testing") {
                continue;
            }
            let inner: Vec<String> = match stem.as_str() {
                "lib" | "main" | "mod" => path.to_vec(),
                _ => path.iter().cloned().chain([stem]).collect(),
            };
            if file.is_dir() {
                add(&file, &inner, into);
            } else if file.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&file).expect("text");
                let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_string();
                into.insert(inner, code);
            }
        }
    }
    let mut all = Modules::new();
    add(&crates().join(name).join("src"), &[], &mut all);
    assert!(!all.is_empty(), "{name} has modules");
    all
}

/// Returns the paths in the tree of a `use` line.
fn leaves(tree: &str, prefix: &[String], into: &mut Vec<Vec<String>>) {
    let tree = tree.trim();
    if let Some(list) = tree.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        let (mut depth, mut start) = (0, 0);
        for (at, letter) in list.char_indices().chain([(list.len(), ',')]) {
            match letter {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    if !list[start..at].trim().is_empty() {
                        leaves(&list[start..at], prefix, into);
                    }
                    start = at + 1;
                }
                _ => {}
            }
        }
        return;
    }
    let (first, rest) = tree.split_once("::").unwrap_or((tree, ""));
    let first = first.split_whitespace().next().unwrap_or_default().to_string();
    let path: Vec<String> = prefix.iter().cloned().chain([first]).collect();
    if rest.is_empty() { into.push(path) } else { leaves(rest, &path, into) }
}

/// Returns the other modules of the crate from which a module imports.
fn imports(module: &[String], code: &str, modules: &Modules) -> BTreeSet<Vec<String>> {
    let code: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let mut found = Vec::new();
    for statement in code.split(';') {
        let last = statement.rsplit_once('}').map_or(statement, |(before, after)| {
            // The braces of a `use` tree close at the end of the statement; those of a preceding item do not.
            if after.trim().is_empty() {
                before.rsplit_once("use ").map_or(after, |_| statement)
            } else {
                after
            }
        });
        if let Some((before, tree)) = last.rsplit_once("use ")
            && before.lines().last().is_none_or(|line| {
                let line = line.trim();
                line.is_empty() || line.starts_with("pub")
            })
        {
            leaves(tree, &[], &mut found);
        }
    }
    let absolute = |path: &Vec<String>| -> Option<Vec<String>> {
        let ups = path.iter().take_while(|part| *part == "super").count();
        match path.first()?.as_str() {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some(module.iter().chain(&path[1..]).cloned().collect()),
            "super" => {
                let kept = &module[..module.len().checked_sub(ups)?];
                Some(kept.iter().chain(&path[ups..]).cloned().collect())
            }
            _ => None,
        }
    };
    let file = |path: Vec<String>| {
        (0..=path.len()).rev().map(|n| path[..n].to_vec()).find(|p| modules.contains_key(p))
    };
    let files = found.iter().filter_map(absolute).filter_map(file);
    files.filter(|other| other != module).collect()
}

#[test]
fn imports_of_files_have_no_large_circles() {
    let mut arrows = 0;
    for entry in fs::read_dir(crates()).expect("a folder") {
        let name = entry.expect("an entry").file_name().into_string().expect("a name");
        let modules = modules(&name);
        let graph: BTreeMap<_, _> =
            modules.iter().map(|(module, code)| (module.clone(), imports(module, code, &modules))).collect();
        arrows += graph.values().map(BTreeSet::len).sum::<usize>();
        // Compute the modules that each module reaches.
        let mut reached = graph.clone();
        loop {
            let wider: BTreeMap<_, BTreeSet<_>> = reached
                .iter()
                .map(|(module, to)| {
                    (module.clone(), to.iter().flat_map(|t| &reached[t]).chain(to).cloned().collect())
                })
                .collect();
            if wider == reached {
                break;
            }
            reached = wider;
        }
        for (module, to) in &reached {
            let circle: Vec<_> = to.iter().filter(|other| reached[*other].contains(module)).collect();
            assert!(
                circle.len() <= LARGEST_CIRCLE,
                "{name}: {} files import each other: {circle:?}",
                circle.len()
            );
        }
    }
    assert!(arrows > 1_500, "the imports of files are seen: {arrows}");
}

#[test]
fn dialects_do_not_import_each_other() {
    let modules = modules("gradloom-codegen");
    for dialect in ["cpu", "cuda", "wgsl"] {
        for (module, code) in
            modules.iter().filter(|(module, _)| module.first().is_some_and(|m| m == dialect))
        {
            for other in imports(module, code, &modules) {
                let root = other.first().map_or("", String::as_str);
                assert!(
                    root == dialect || !["cpu", "cuda", "wgsl"].contains(&root),
                    "{module:?} imports {other:?}"
                );
            }
        }
    }
}
