//! Skips tests whose requirements are missing, and records their names.

use std::fs::OpenOptions;
use std::io::Write;

/// Records that the running test is skipped: prints its name and the reason, and appends both to the file in
/// `GRADLOOM_SKIPPED`, from which `scripts/test.sh` prints a summary.
///
/// # Panics
/// Panics if the environment variable `needs` is set, which forbids skipping, or if the file cannot be
/// written.
pub fn skip(reason: &str, needs: Option<&str>) {
    let name = std::env::var("NEXTEST_TEST_NAME").ok();
    let name = name.or_else(|| std::thread::current().name().map(str::to_string)).unwrap_or_default();
    if let Some(needs) = needs {
        assert!(std::env::var_os(needs).is_none(), "{name} would be skipped, but {needs} is set: {reason}");
    }
    println!("skipped: {name}: {reason}");
    if let Some(path) = std::env::var_os("GRADLOOM_SKIPPED") {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.and_then(|mut file| file.write_all(format!("{name}: {reason}\n").as_bytes()))
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}
