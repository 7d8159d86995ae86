//! The file in which a device's choices are stored.
//!
//! In: a folder, and the adapter, driver, limits and precision, on which the choices depend. Out: the
//! choices, as text that the tuner compares with its candidates. Invariant: a file is replaced by renaming a
//! complete temporary file, so no process reads a partially written one; a file of another device is ignored.

use super::super::AdapterReport;
use gradloom_codegen::pipeline::{Limits, Precision};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Version of the file's format, incremented when kernels change so much that earlier measurements are no
/// longer valid.
const FORMAT: u32 = 3;
/// Maximum size of a file in bytes. A line has a few hundred bytes, and a program a few hundred distinct
/// products.
const LARGEST: u64 = 64 << 20;

/// A device's file.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
    header: String,
}

impl Record {
    pub(super) fn new(folder: &Path, report: &AdapterReport, limits: &Limits, precision: Precision) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        let header = [
            format!("gradloom {version}, choices, format {FORMAT}"),
            format!("adapter {} ({})", report.name, report.backend),
            format!("driver {}", report.driver),
            format!("limits {limits:?}"),
            format!("precision {precision:?}"),
        ]
        .map(|line| line.replace(['\n', '\r'], " ") + "\n")
        .concat();
        let path = folder.join(format!("choices-{:016x}.txt", hash(&header)));
        Self { path, header }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the problems in the file with their choices, both as printed by `Debug`, or an empty map if
    /// there is no file.
    ///
    /// # Errors
    /// Returns a message for users if the file cannot be used.
    pub(super) fn read(&self) -> Result<BTreeMap<String, String>, String> {
        let ignored =
            |why: &str| format!("{} was ignored: {why}; its kernels are measured again", self.path.display());
        let text = match gradloom_device::regular_file::read_to_string(&self.path, LARGEST) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(error) => return Err(ignored(&error.to_string())),
        };
        let rest =
            text.strip_prefix(&self.header).ok_or_else(|| ignored("it is of another device or version"))?;
        parse(rest).ok_or_else(|| ignored("it is damaged"))
    }

    /// Writes all choices.
    ///
    /// # Errors
    /// Returns a message for users if the file cannot be written.
    pub(super) fn write(&self, known: &BTreeMap<String, String>) -> Result<(), String> {
        let lines: String = known.iter().map(|(problem, choice)| format!("{problem} : {choice}\n")).collect();
        let text = format!("{}{lines}end {}\n", self.header, known.len());
        gradloom_device::user_cache::write(&self.path, text.as_bytes()).map_err(|error| {
            format!("{} was not written: {error}; its kernels will be measured again", self.path.display())
        })
    }
}

/// Parses the text after the header, which consists of a line for each problem and a line with the number of
/// problems.
fn parse(text: &str) -> Option<BTreeMap<String, String>> {
    let mut lines: Vec<&str> = text.strip_suffix('\n')?.split('\n').collect();
    let count: usize = lines.pop()?.strip_prefix("end ")?.parse().ok()?;
    let words = |line: &str| line.split_once(" : ").map(|(problem, choice)| (problem.into(), choice.into()));
    let known: BTreeMap<String, String> = lines.into_iter().map(words).collect::<Option<_>>()?;
    (known.len() == count).then_some(known)
}

/// Returns the FNV-1a hash, which does not depend on the machine or the compiler.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(driver: &str) -> AdapterReport {
        AdapterReport {
            name: "Some GPU".into(),
            backend: "Vulkan".into(),
            driver: driver.into(),
            kind: "discrete",
            limits: Limits::portable(),
            buffer_bytes: 1 << 30,
            timestamps: true,
        }
    }

    fn record(folder: &Path) -> Record {
        Record::new(folder, &report("1.2"), &Limits::portable(), Precision::F32)
    }

    fn choices() -> BTreeMap<String, String> {
        ["Product(A { m: 64 })", "Product(A { m: 128 })", "Attention(Forward, B { scale: 0.125 })"]
            .into_iter()
            .map(|problem| (problem.into(), "Own { rows: 1 }".into()))
            .collect()
    }

    #[test]
    fn what_was_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let record = record(&folder.path().join("deep/er"));
        assert_eq!(record.read(), Ok(BTreeMap::new()));
        record.write(&choices()).unwrap();
        assert_eq!(record.read(), Ok(choices()));
        record.write(&BTreeMap::new()).unwrap();
        assert_eq!(record.read(), Ok(BTreeMap::new()));
        let files = std::fs::read_dir(record.path().parent().unwrap()).unwrap().count();
        assert_eq!(files, 1, "nothing is left beside the file");
    }

    #[test]
    fn what_is_damaged_counts_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let record = record(folder.path());
        record.write(&choices()).unwrap();
        let text = std::fs::read_to_string(record.path()).unwrap();
        for (from, to) in [
            ("end 3", "end 4"),
            ("end 3\n", ""),
            ("end 3\n", "end 3"),
            (" : ", ": "),
            ("m: 64", "m: 128"),
            ("Product(", "\nProduct("),
        ] {
            let damaged = text.replacen(from, to, 1);
            assert_ne!(damaged, text, "{from}");
            std::fs::write(record.path(), &damaged).unwrap();
            let note = record.read().unwrap_err();
            assert!(note.ends_with("was ignored: it is damaged; its kernels are measured again"), "{note}");
        }
        for cut in text.find("Attention").unwrap()..text.len() {
            std::fs::write(record.path(), &text[..cut]).unwrap();
            assert!(record.read().is_err(), "{cut}");
        }
    }

    #[test]
    fn other_drivers_limits_and_precisions_have_other_files() {
        let folder = tempfile::tempdir().unwrap();
        let mine = record(folder.path());
        mine.write(&choices()).unwrap();
        let smaller = Limits { invocations: 128, ..Limits::portable() };
        for other in [
            Record::new(folder.path(), &report("1.3"), &Limits::portable(), Precision::F32),
            Record::new(folder.path(), &report("1.2"), &smaller, Precision::F32),
            Record::new(folder.path(), &report("1.2"), &Limits::portable(), Precision::F16),
        ] {
            assert_ne!(other.path(), mine.path());
            assert_eq!(other.read(), Ok(BTreeMap::new()));
            // A file of another device is ignored even if it has the expected name.
            std::fs::copy(mine.path(), other.path()).unwrap();
            let note = other.read().unwrap_err();
            assert!(note.contains("it is of another device or version"), "{note}");
        }
    }
}
