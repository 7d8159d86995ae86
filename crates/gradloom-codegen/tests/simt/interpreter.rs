//! Runs kernels of the common GPU language on a simulated grid.
//!
//! In: a kernel and its operands' elements, as bits. Out: what it wrote and which faults it reported, or what
//! it did that a GPU may not be asked to do: an access outside of a buffer, a read of shared memory that
//! nothing wrote, two invocations at one element without a barrier between them, a barrier that not all
//! invocations reach. Invocations of a workgroup run in lockstep; scalar functions are those of the float64
//! reference, rounded to float32.

use gradloom_codegen::simt::{Array, Block, Expr, ExprId, Fault, Kernel, Role, Space, Stmt};
use gradloom_core::ir::{Builder, CompareOp, DType, Graph, OpKind, Output, Type};
use gradloom_core::reference::{HostTensor, evaluate};

/// What kernels of a launch left behind.
pub(super) struct Machine {
    /// Bits of the elements of each operand.
    pub(super) operands: Vec<Vec<u32>>,
    /// Of each result, where it was written.
    pub(super) results: Vec<Vec<Option<u32>>>,
    /// Words of the scratch, where they were written.
    pub(super) workspace: Vec<Option<u32>>,
    /// Faults with positions, in any order.
    pub(super) faults: Vec<(Fault, u32)>,
    /// Whether the step may commit.
    pub(super) committed: bool,
}

/// An element of memory that invocations share.
#[derive(Clone, Copy, Default)]
struct Cell {
    bits: Option<u32>,
    /// Who wrote it last, and in which stretch between barriers.
    written: Option<(usize, usize)>,
    read: Option<(usize, usize)>,
}

impl Cell {
    /// Takes note of a write; whether no other invocation was here in this stretch.
    fn write(&mut self, bits: u32, who: usize, stretch: usize) -> bool {
        let others = |last: Option<(usize, usize)>| last.is_some_and(|(w, s)| s == stretch && w != who);
        let alone = !others(self.written) && !others(self.read);
        (self.bits, self.written) = (Some(bits), Some((who, stretch)));
        alone
    }

    fn read(&mut self, who: usize, stretch: usize) -> bool {
        let alone = !self.written.is_some_and(|(w, s)| s == stretch && w != who);
        self.read = Some((who, stretch));
        alone
    }
}

impl Machine {
    /// Runs a kernel on its whole grid.
    pub(super) fn run(&mut self, kernel: &Kernel) -> Result<(), String> {
        // No barrier orders workgroups: all of a kernel is one stretch of its results.
        let cells = |words: &Vec<Option<u32>>| -> Vec<Cell> {
            words.iter().map(|&bits| Cell { bits, ..Cell::default() }).collect()
        };
        let mut results: Vec<Vec<Cell>> = self.results.iter().map(cells).collect();
        results.push(cells(&self.workspace));
        for group in 0..kernel.groups {
            let lanes = kernel.workgroup as usize;
            let array = |array: &Array| match array.space {
                Space::Workgroup => vec![Cell::default(); array.elements as usize],
                Space::Invocation => vec![Cell::default(); array.elements as usize * lanes],
            };
            let mut run = Workgroup {
                machine: self,
                kernel,
                group,
                arrays: kernel.arrays.iter().map(array).collect(),
                results: &mut results,
                stretch: 0,
                named: vec![None; kernel.exprs.len()],
                variables: vec![vec![0; lanes]; kernel.variables.len()],
                counters: vec![vec![0; lanes]; kernel.loops as usize],
            };
            run.block(&kernel.body, &vec![true; lanes])
                .map_err(|what| format!("{what}, in workgroup {group} of\n{kernel}"))?;
        }
        let words = |cells: Vec<Cell>| cells.into_iter().map(|cell| cell.bits).collect();
        self.workspace = results.pop().map(words).unwrap_or_default();
        self.results = results.into_iter().map(words).collect();
        Ok(())
    }
}

struct Workgroup<'r> {
    machine: &'r mut Machine,
    kernel: &'r Kernel,
    group: usize,
    arrays: Vec<Vec<Cell>>,
    /// Cells of the results, then those of the scratch.
    results: &'r mut [Vec<Cell>],
    stretch: usize,
    /// Values of expressions with names, for each invocation.
    named: Vec<Option<Vec<u32>>>,
    variables: Vec<Vec<u32>>,
    counters: Vec<Vec<u32>>,
}

impl Workgroup<'_> {
    fn block(&mut self, block: &Block, active: &[bool]) -> Result<(), String> {
        block.0.iter().try_for_each(|statement| self.statement(statement, active))
    }

    fn statement(&mut self, statement: &Stmt, active: &[bool]) -> Result<(), String> {
        let lanes = || (0..active.len()).filter(|&lane| active[lane]);
        match statement {
            Stmt::Let(id) => {
                let value = self.formula(*id, active)?;
                self.named[id.index()] = Some(value);
            }
            Stmt::Var(number, value) | Stmt::Assign(number, value) => {
                let value = self.value(*value, active)?;
                lanes().for_each(|lane| self.variables[*number as usize][lane] = value[lane]);
            }
            Stmt::Store(buffer, index, value) => {
                let (index, value) = (self.value(*index, active)?, self.value(*value, active)?);
                for lane in lanes() {
                    let who = self.group * active.len() + lane;
                    let cell = self.cell(*buffer, index[lane])?;
                    let cell = cell.ok_or_else(|| format!("a write of element {}", index[lane]))?;
                    if !cell.write(value[lane], who, 0) {
                        return Err(format!("two invocations at element {} of a result", index[lane]));
                    }
                }
            }
            Stmt::SetElement(array, index, value) => {
                let (index, value) = (self.value(*index, active)?, self.value(*value, active)?);
                for lane in lanes() {
                    let stretch = self.stretch;
                    let cell = self.element(*array, index[lane], lane);
                    let cell = cell.ok_or_else(|| format!("a write of shared element {}", index[lane]))?;
                    if !cell.write(value[lane], lane, stretch) {
                        return Err(format!("a race for shared element {}", index[lane]));
                    }
                }
            }
            Stmt::If(condition, block) => {
                let holds = self.value(*condition, active)?;
                let inner: Vec<bool> = active.iter().zip(holds).map(|(&on, bit)| on && bit != 0).collect();
                if inner.contains(&true) {
                    self.block(block, &inner)?;
                }
            }
            Stmt::For(number, [start, end, step], block) => {
                let at = *number as usize;
                let (start, end) = (self.value(*start, active)?, self.value(*end, active)?);
                let step = self.value(*step, active)?;
                self.counters[at] = start;
                loop {
                    let inner: Vec<bool> =
                        (0..active.len()).map(|l| active[l] && self.counters[at][l] < end[l]).collect();
                    if !inner.contains(&true) {
                        break;
                    }
                    self.block(block, &inner)?;
                    for lane in (0..inner.len()).filter(|&lane| inner[lane]) {
                        self.counters[at][lane] += step[lane];
                    }
                }
            }
            Stmt::Barrier if active.contains(&false) => return Err("a barrier that not all reach".into()),
            Stmt::Barrier => self.stretch += 1,
            Stmt::Report(fault, position) => {
                let position = self.value(*position, active)?;
                let (Fault::Index(id, _) | Fault::Divisor(id)) = *fault;
                let checked = self.value(id, active)?;
                for lane in lanes() {
                    let is_fault = match *fault {
                        Fault::Index(_, extent) => {
                            !(0..i64::from(extent)).contains(&checked[lane].cast_signed().into())
                        }
                        Fault::Divisor(_) => checked[lane] == 0,
                    };
                    if is_fault {
                        self.machine.faults.push((*fault, position[lane]));
                    }
                }
            }
        }
        Ok(())
    }

    /// A cell of a result, or of the scratch.
    fn cell(&mut self, buffer: u32, index: u32) -> Result<Option<&mut Cell>, String> {
        let (number, at) = match self.kernel.buffers[buffer as usize].role {
            Role::Result(result) => (result, index as usize),
            Role::Workspace { start, bytes } => {
                let at = if (index as usize) < bytes / 4 { start / 4 + index as usize } else { usize::MAX };
                (self.results.len() - 1, at)
            }
            Role::Operand(_) | Role::Table => return Err("an operand or a table is written".into()),
        };
        Ok(self.results[number].get_mut(at))
    }

    /// A cell of an array, which an invocation names.
    fn element(&mut self, array: u32, index: u32, lane: usize) -> Option<&mut Cell> {
        let Array { space, elements, .. } = self.kernel.arrays[array as usize];
        let start = if space == Space::Workgroup { 0 } else { lane * elements as usize };
        self.arrays[array as usize].get_mut(start + index as usize).filter(|_| index < elements)
    }

    /// The values of an expression, for each invocation.
    fn value(&mut self, id: ExprId, active: &[bool]) -> Result<Vec<u32>, String> {
        match &self.named[id.index()] {
            Some(value) => Ok(value.clone()),
            None => self.formula(id, active),
        }
    }

    fn formula(&mut self, id: ExprId, active: &[bool]) -> Result<Vec<u32>, String> {
        let (kernel, lanes) = (self.kernel, active.len());
        let mut operands = Vec::new();
        for operand in kernel.expr(id).operands() {
            operands.push(self.value(operand, active)?);
        }
        let dtype = kernel.dtype(id);
        let each = |f: &dyn Fn(usize) -> u32| (0..lanes).map(f).collect::<Vec<u32>>();
        // Of invocations that are not here, anything.
        let here = || (0..lanes).filter(|&lane| active[lane]);
        let mut read = vec![0; lanes];
        let scalar = |kind: OpKind| {
            let dtypes: Vec<DType> = kernel.expr(id).operands().map(|id| kernel.dtype(id)).collect();
            elementwise(&kind, &dtypes, &operands)
        };
        Ok(match kernel.expr(id) {
            Expr::Literal(bits) => vec![*bits; lanes],
            Expr::Group => vec![u32::try_from(self.group).unwrap(); lanes],
            Expr::Local => each(&|lane| u32::try_from(lane).unwrap()),
            Expr::Committed => vec![self.machine.committed.into(); lanes],
            Expr::Counter(number) => self.counters[*number as usize].clone(),
            Expr::Read(number) => self.variables[*number as usize].clone(),
            Expr::Load(buffer, _) => {
                for lane in here() {
                    let at = operands[0][lane] as usize;
                    let outside = || format!("a read of element {at}");
                    read[lane] = match kernel.buffers[*buffer as usize].role {
                        Role::Operand(number) => {
                            *self.machine.operands[number].get(at).ok_or_else(outside)?
                        }
                        Role::Table => *kernel.table.get(at).ok_or_else(outside)?,
                        Role::Result(_) | Role::Workspace { .. } => {
                            let who = self.group * lanes + lane;
                            let cell = self.cell(*buffer, operands[0][lane])?.ok_or_else(outside)?;
                            if !cell.read(who, 0) {
                                return Err(format!("element {at} of a result is read, which another wrote"));
                            }
                            cell.bits.ok_or_else(|| format!("a read of element {at}, never written"))?
                        }
                    };
                }
                read
            }
            Expr::Element(array, _) => {
                for lane in here() {
                    let (at, stretch) = (operands[0][lane], self.stretch);
                    let cell = self.element(*array, at, lane);
                    let cell = cell.ok_or_else(|| format!("a read of shared element {at}"))?;
                    if !cell.read(lane, stretch) {
                        return Err(format!("a race for shared element {at}"));
                    }
                    read[lane] = cell.bits.ok_or_else(|| format!("shared element {at} has no value"))?;
                }
                read
            }
            Expr::MulHigh(..) => each(&|lane| {
                let product = u64::from(operands[0][lane]) * u64::from(operands[1][lane]);
                u32::try_from(product >> 32).unwrap()
            }),
            Expr::Select(..) => {
                each(&|lane| if operands[0][lane] != 0 { operands[1][lane] } else { operands[2][lane] })
            }
            Expr::Bitcast(_) => operands[0].clone(),
            Expr::ShuffleXor(..) if active.contains(&false) => {
                return Err("a shuffle that not all invocations reach".into());
            }
            Expr::ShuffleXor(_, bits) => each(&|lane| operands[0][lane ^ *bits as usize]),
            Expr::Unary(op, _) => scalar(OpKind::Unary(*op)),
            Expr::Binary(op, ..) => scalar(OpKind::Binary(*op)),
            Expr::Compare(op, ..) => scalar(OpKind::Compare(*op)),
            Expr::Cast(_) => scalar(OpKind::Cast { dtype }),
        })
    }
}

/// An elementwise op of the reference, on bits. A zero divisor, which the reference refuses, is taken as 1.
fn elementwise(kind: &OpKind, dtypes: &[DType], operands: &[Vec<u32>]) -> Vec<u32> {
    let lanes = operands[0].len();
    let mut graph = Graph::new();
    let names = ["a", "b", "c"];
    let mut builder = Builder::new(&mut graph, None);
    let leaf =
        |(i, &dtype): (usize, &DType)| OpKind::Input { name: names[i].into(), ty: Type::new(dtype, [lanes]) };
    let leaves: Vec<_> = dtypes.iter().enumerate().map(|leaf_of| builder.op(leaf(leaf_of), &[])).collect();
    let result = builder.op(kind.clone(), &leaves);
    graph.outputs.push(Output { name: "y".into(), value: result });
    let divides = matches!(kind, OpKind::Binary(op) if ["div", "rem"].contains(&op.name()));
    let value = |kind: &OpKind| {
        let at = names.iter().position(|name| Some(*name) == Graph::leaf_name(kind))?;
        let mut bits = operands[at].clone();
        if divides && at == 1 && dtypes[1].is_integer() {
            bits.iter_mut().filter(|bits| **bits == 0).for_each(|bits| *bits = 1);
        }
        Some(tensor(dtypes[at], &[lanes], &bits))
    };
    let evaluation = evaluate(&graph, &value).unwrap_or_else(|error| panic!("{error}"));
    bits(evaluation.output("y").unwrap())
}

/// A tensor from the bits of its elements.
pub(super) fn tensor(dtype: DType, shape: &[usize], bits: &[u32]) -> HostTensor {
    let number = |&bits: &u32| match dtype {
        DType::F32 => f64::from(f32::from_bits(bits)),
        DType::I32 => f64::from(bits.cast_signed()),
        DType::U32 | DType::Bool => f64::from(bits),
    };
    HostTensor::from_f64(Type::new(dtype, shape), bits.iter().map(number))
}

/// The bits of a tensor's elements.
pub(super) fn bits(tensor: &HostTensor) -> Vec<u32> {
    let bits = |number: f64| match tensor.ty.dtype {
        DType::F32 => (number as f32).to_bits(),
        DType::I32 => (number as i32).cast_unsigned(),
        DType::U32 | DType::Bool => number as u32,
    };
    tensor.to_f64().into_iter().map(bits).collect()
}

#[test]
fn mistakes_of_kernels_are_seen() {
    use gradloom_codegen::simt::Builder as K;
    let run = |write: &dyn Fn(&K)| {
        let k = K::new("mistake", 4, 2);
        write(&k);
        let mut machine = Machine {
            operands: vec![vec![7; 8]],
            results: vec![vec![None; 8]],
            workspace: Vec::new(),
            faults: Vec::new(),
            committed: true,
        };
        machine.run(&k.finish()).err().unwrap_or_default()
    };
    let result = |k: &K| k.buffer(Role::Result(0), DType::U32);
    let outside = run(&|k| k.store(result(k), k.group() * 5 + k.local(), k.u32(1)));
    assert!(outside.contains("a write of element 8"), "{outside}");
    let far =
        run(&|k| k.store(result(k), k.local(), k.load(k.buffer(Role::Operand(0), DType::U32), k.u32(8))));
    assert!(far.contains("a read of element 8"), "{far}");
    let race = run(&|k| k.store(result(k), k.local(), k.u32(1)));
    assert!(race.contains("two invocations at element 0"), "{race}");
    let unwritten = run(&|k| {
        let shared = k.shared(DType::U32, 4);
        k.store(result(k), k.local(), k.element(shared, k.local()));
    });
    assert!(unwritten.contains("has no value"), "{unwritten}");
    let neighbour = run(&|k| {
        let shared = k.shared(DType::U32, 4);
        k.set_element(shared, k.local(), k.u32(1));
        let other = k.element(shared, (k.local() + 1) % 4);
        k.store(result(k), k.group() * 4 + k.local(), other);
    });
    assert!(neighbour.contains("a race for shared element"), "{neighbour}");
    let met = run(&|k| {
        let shared = k.shared(DType::U32, 4);
        k.set_element(shared, k.local(), k.u32(1));
        k.barrier();
        let other = k.element(shared, (k.local() + 1) % 4);
        k.store(result(k), k.group() * 4 + k.local(), other);
    });
    assert_eq!(met, "");
    let missed = run(&|k| k.when(k.local().compare(CompareOp::Lt, k.u32(2)), || k.barrier()));
    assert!(missed.contains("a barrier that not all reach"), "{missed}");
}
