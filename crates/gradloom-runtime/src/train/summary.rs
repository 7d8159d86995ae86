//! Table of a model's parameters and states.

use gradloom_core::ir::{Graph, Type};
use gradloom_core::plan::Plan;
use gradloom_core::trace::{ParamTable, ParamUse};
use std::fmt::{self, Display};

/// Sizes of a model's parameters and states, and the cost of a step. `Display` prints a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Parameters in the order of the model's fields, then states.
    pub rows: Vec<SummaryRow>,
    /// Number of floating-point operations of a step; `None` without a program.
    pub flops: Option<u64>,
    /// Number of kernels that a step runs; `None` without a program.
    pub launches: Option<usize>,
    /// Peak memory of a step in bytes: parameters, optimizer states, activations and scratch; `None` without
    /// a program.
    pub peak: Option<u64>,
}

/// Parameter or state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryRow {
    /// Path in the model.
    pub name: String,
    /// Dtype and shape.
    pub ty: Type,
    /// True for a parameter.
    pub is_parameter: bool,
    /// True for a parameter that is trained.
    pub is_trained: bool,
}

impl Summary {
    pub(super) fn of(params: &ParamTable, is_trained: impl Fn(&ParamUse) -> bool) -> Self {
        let parameters = params.iter().map(|used| SummaryRow {
            name: used.name.clone(),
            ty: used.param.ty(),
            is_parameter: true,
            is_trained: is_trained(used),
        });
        let states = params.states().map(|used| SummaryRow {
            name: used.name.clone(),
            ty: used.state.ty().clone(),
            is_parameter: false,
            is_trained: false,
        });
        Self { rows: parameters.chain(states).collect(), flops: None, launches: None, peak: None }
    }

    pub(super) fn with_step(self, graph: &Graph, plan: &Plan) -> Self {
        let view = plan.view(graph);
        Self {
            flops: Some(view.launches().map(|launch| launch.cost().flops).sum()),
            launches: Some(plan.launches.len()),
            peak: Some(plan.totals.peak()),
            ..self
        }
    }

    /// Returns the total number of elements of all parameters.
    pub fn parameters(&self) -> usize {
        self.elements(|row| row.is_parameter)
    }

    /// Returns the total number of elements of the trained parameters.
    pub fn trained(&self) -> usize {
        self.elements(|row| row.is_trained)
    }

    fn elements(&self, wanted: impl Fn(&SummaryRow) -> bool) -> usize {
        self.rows.iter().filter(|row| wanted(row)).map(|row| row.ty.elements()).sum()
    }
}

impl Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types: Vec<String> = self.rows.iter().map(|row| row.ty.to_string()).collect();
        let name = self.rows.iter().map(|row| indented(&row.name).chars().count()).max().unwrap_or(0);
        let ty = types.iter().map(|ty| ty.chars().count()).max().unwrap_or(0);
        let mut module: Vec<&str> = Vec::new();
        for (row, text) in self.rows.iter().zip(&types) {
            let path: Vec<&str> = row.name.split('.').collect();
            let parents = &path[..path.len() - 1];
            let shared = parents.iter().zip(&module).take_while(|(a, b)| a == b).count();
            for depth in shared..parents.len() {
                let whole = parents[..=depth].join(".");
                let under = |row: &SummaryRow| {
                    row.name.strip_prefix(&whole).is_some_and(|rest| rest.starts_with('.'))
                };
                let count = thousands(self.elements(|row| row.is_parameter && under(row)) as u64);
                writeln!(f, "{}{}: {count}", "  ".repeat(depth), parents[depth])?;
            }
            module = parents.to_vec();
            let kind = match (row.is_parameter, row.is_trained) {
                (true, true) => "",
                (true, false) => "  not trained",
                (false, _) => "  state",
            };
            let (own, count) = (indented(&row.name), thousands(row.ty.elements() as u64));
            writeln!(f, "{own:name$}  {text:ty$}  {count:>12}{kind}")?;
        }
        let bytes = self.rows.iter().filter(|row| row.is_parameter).map(|row| row.ty.bytes()).sum::<u64>();
        let (all, trained) = (thousands(self.parameters() as u64), thousands(self.trained() as u64));
        write!(f, "{all} parameters ({} bytes), of which {trained} are trained", thousands(bytes))?;
        if let (Some(flops), Some(launches), Some(peak)) = (self.flops, self.launches, self.peak) {
            let (flops, peak) = (thousands(flops), thousands(peak));
            write!(f, "\na step: {flops} flops in {launches} launches, {peak} bytes with all that it needs")?;
        }
        Ok(())
    }
}

/// Returns the last part of a path, indented by two spaces per parent.
fn indented(name: &str) -> String {
    let depth = name.matches('.').count();
    format!("{}{}", "  ".repeat(depth), name.rsplit('.').next().unwrap_or(name))
}

/// Formats a number with thousands separators: `1234567` as `1,234,567`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
