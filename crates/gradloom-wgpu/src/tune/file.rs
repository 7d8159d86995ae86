//! The file in which a device's choices are stored.
//!
//! In: a folder, and the adapter, driver, limits and precision, on which the choices depend. Out: the
//! choices. Invariant: a file is replaced by renaming a complete temporary file, so no process reads a
//! partially written one; choices from a file are valid for the device's limits; a file of another device is
//! ignored.

use super::super::AdapterReport;
use gradloom_codegen::pipeline::{Limits, Precision};
use gradloom_codegen::wgsl::Choices;
use gradloom_codegen::wgsl::tuning::{Choice, Problem, from_line, to_line};
use std::path::{Path, PathBuf};

/// Version of the file's format, incremented when kernels change so much that earlier measurements are no
/// longer valid.
const FORMAT: u32 = 2;
/// Maximum size of a file in bytes. A line has a few hundred bytes, and a program a few hundred distinct
/// products.
const LARGEST: u64 = 64 << 20;

/// A device's file.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
    header: String,
    limits: Limits,
    precision: Precision,
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
        Self { path, header, limits: *limits, precision }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the choices in the file, or an empty list if there is no file.
    ///
    /// # Errors
    /// Returns a message for users if the file cannot be used.
    pub(super) fn read(&self) -> Result<Vec<(Problem, Choice)>, String> {
        let ignored =
            |why: &str| format!("{} was ignored: {why}; its kernels are measured again", self.path.display());
        let text = match gradloom_device::regular_file::read_to_string(&self.path, LARGEST) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(ignored(&error.to_string())),
        };
        let rest =
            text.strip_prefix(&self.header).ok_or_else(|| ignored("it is of another device or version"))?;
        self.parse(rest).ok_or_else(|| ignored("it is damaged"))
    }

    /// Parses the text after the header, which consists of a line for each problem and a line with the number
    /// of problems.
    fn parse(&self, text: &str) -> Option<Vec<(Problem, Choice)>> {
        let mut lines: Vec<&str> = text.strip_suffix('\n')?.split('\n').collect();
        let count: usize = lines.pop()?.strip_prefix("end ")?.parse().ok()?;
        let known: Option<Vec<_>> = lines.into_iter().map(from_line).collect();
        let suits =
            |(problem, choice): &(Problem, Choice)| choice.suits(problem, self.precision, &self.limits);
        known.filter(|known| known.len() == count && known.iter().all(suits))
    }

    /// Writes all choices.
    ///
    /// # Errors
    /// Returns a message for users if the file cannot be written.
    pub(super) fn write(&self, choices: &Choices) -> Result<(), String> {
        let mut lines: Vec<String> =
            choices.measured().map(|(problem, choice)| to_line(problem, choice)).collect();
        lines.sort();
        let count = lines.len();
        lines.push(format!("end {count}\n"));
        let text = format!("{}{}", self.header, lines.join("\n"));
        gradloom_device::user_cache::write(&self.path, text.as_bytes()).map_err(|error| {
            format!("{} was not written: {error}; its kernels will be measured again", self.path.display())
        })
    }
}

/// Returns the FNV-1a hash, which does not depend on the machine or the compiler.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradloom_codegen::product::{BatchAxis, DotProblem, MatrixView};
    use gradloom_codegen::wgsl::attention::{self, Kernel};
    use gradloom_codegen::wgsl::tuning::candidates;
    use gradloom_core::ir::AttentionSpec;

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

    /// Returns problems of both kinds: products and attention.
    fn problems() -> Vec<Problem> {
        let mut problems = Vec::new();
        for (batch, m) in
            [(Vec::new(), 64), (vec![BatchAxis { extent: 3, lhs_stride: 8192, rhs_stride: 0 }], 128)]
        {
            let view = MatrixView { offset: 4, free_stride: 64, contract_stride: 1 };
            let problem = DotProblem { batch, m, n: 128, k: 512, lhs: view, rhs: view };
            problems.push(Problem::Product(problem));
        }
        let spec = AttentionSpec {
            causal: true,
            window: None,
            scale: 0.125,
            query_offset: false,
            key_length: false,
            block_table: false,
            dropout: None,
        };
        let shapes: [&[usize]; 3] = [&[2, 4, 256, 32], &[2, 2, 256, 32], &[2, 2, 256, 32]];
        let attention = attention::Problem::new(&spec, shapes, None);
        problems.extend(Kernel::ALL.map(|kernel| Problem::Attention(kernel, attention)));
        problems
    }

    /// Returns the last candidate for each of the [`problems`], which differs from the rule's choice. For
    /// attention, it computes one row per invocation.
    fn choices() -> Choices {
        let mut choices = Choices::by_rule(Precision::F32);
        for problem in problems() {
            let choice = *candidates(&problem, Precision::F32, &Limits::portable()).last().unwrap();
            choices.insert(problem, choice);
        }
        choices
    }

    fn read(record: &Record) -> Choices {
        let mut choices = Choices::by_rule(Precision::F32);
        record.read().unwrap().into_iter().for_each(|(problem, choice)| choices.insert(problem, choice));
        choices
    }

    #[test]
    fn what_was_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let record = record(&folder.path().join("deep/er"));
        assert_eq!(record.read(), Ok(Vec::new()));
        record.write(&choices()).unwrap();
        assert_eq!(read(&record), choices());
        record.write(&Choices::by_rule(Precision::F32)).unwrap();
        assert_eq!(record.read(), Ok(Vec::new()));
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
            ("end 5", "end 6"),
            ("end 5\n", ""),
            (" : portable", " : p"),
            ("product ", "product x"),
            ("512", "512 1"),
            ("portable 64", "portable 99964"),
            ("portable 64", "portable 64 0"),
            ("attention keys", "attention values"),
            ("attention keys causal", "attention keys causal causal"),
            ("2 4 2 256", "2 4 2 -256"),
            (" : own 1", " : own 1 1"),
            // Choices that the adapter does not support.
            (" : own 1", " : own 2"),
            (" : own 1", " : block 4 4 16 32"),
            (" : own 1", " : portable 64 64 16 8 4 1 1"),
        ] {
            let damaged = text.replacen(from, to, 1);
            assert_ne!(damaged, text, "{from}");
            std::fs::write(record.path(), &damaged).unwrap();
            let note = record.read().unwrap_err();
            assert!(note.ends_with("was ignored: it is damaged; its kernels are measured again"), "{note}");
        }
        for cut in (text.find("attention").unwrap()..text.len()).step_by(7) {
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
            assert_eq!(other.read(), Ok(Vec::new()));
            // A file of another device is ignored even if it has the expected name.
            std::fs::copy(mine.path(), other.path()).unwrap();
            let note = other.read().unwrap_err();
            assert!(note.contains("it is of another device or version"), "{note}");
        }
    }
}
