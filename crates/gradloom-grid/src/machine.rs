//! Runs kernels of the common GPU language on a simulated grid.
//!
//! In: a kernel and the elements of its operands, as bits. Out: the results and the reported faults, or an
//! error if the kernel does something invalid on a GPU: an out-of-bounds access, a read of uninitialized
//! shared memory, a data race between invocations without a barrier, a barrier in non-uniform control flow,
//! an access to what a copy or product in progress writes, or a write to what a product in progress reads.
//! Invocations of a workgroup run in
//! lockstep. Scalar functions are those of the f64 reference, rounded to f32.

use gradloom_codegen::simt::{
    Array, AsyncCopy, Block, Expr, ExprId, Fault, FragmentPlace, Kernel, MatrixUse, ProductLeft, Role,
    SharedMatrix, Space, Stmt, ValueType, WarpgroupProduct,
};
use gradloom_core::ir::{BinaryOp, CompareOp, DType, Number, Type, UnaryOp};
use gradloom_core::reference::HostTensor;
use std::rc::Rc;

/// Memory that the kernels of a launch access, and the faults that they report.
pub struct Machine {
    /// Bits of the elements of each operand.
    pub operands: Vec<Vec<u32>>,
    /// Bits of the elements of each result; `None` for elements that were not written.
    pub results: Vec<Vec<Option<u32>>>,
    /// Words of the scratch; `None` for words that were not written.
    pub workspace: Vec<Option<u32>>,
    /// Faults with their positions, in any order.
    pub faults: Vec<(Fault, u32)>,
    /// Index or divisor that caused each fault, as bits.
    pub checked: Vec<u32>,
    /// True if the step may commit.
    pub committed: bool,
    /// Words of the step's status.
    pub status: Vec<u32>,
}

/// An element of memory shared by invocations, with its last accesses to detect races.
#[derive(Clone, Copy, Default)]
struct Cell {
    bits: Option<u32>,
    /// Last writer, and the index of the interval between barriers in which it wrote.
    written: Option<(usize, usize)>,
    /// Last reader, and the index of its interval.
    read: Option<(usize, usize)>,
    /// True if other invocations also read the element in that interval.
    has_more_readers: bool,
}

impl Cell {
    /// Writes the element; returns `true` if no other invocation accessed it in this interval.
    fn write(&mut self, bits: u32, who: usize, stretch: usize) -> bool {
        let others = |last: Option<(usize, usize)>| last.is_some_and(|(w, s)| s == stretch && w != who);
        let has_more_readers = self.has_more_readers && self.read.is_some_and(|(_, s)| s == stretch);
        let alone = !others(self.written) && !others(self.read) && !has_more_readers;
        (self.bits, self.written) = (Some(bits), Some((who, stretch)));
        alone
    }

    fn read(&mut self, who: usize, stretch: usize) -> bool {
        let alone = !self.written.is_some_and(|(w, s)| s == stretch && w != who);
        let known = self.read.filter(|&(_, s)| s == stretch);
        self.has_more_readers = known.is_some_and(|(w, _)| self.has_more_readers || w != who);
        self.read = Some((who, stretch));
        alone
    }
}

impl Machine {
    /// Runs a kernel on its whole grid.
    pub fn run(&mut self, kernel: &Kernel) -> Result<(), String> {
        // No barrier orders workgroups, so a whole kernel is one interval for its results.
        let cells = |words: &Vec<Option<u32>>| -> Vec<Cell> {
            words.iter().map(|&bits| Cell { bits, ..Cell::default() }).collect()
        };
        let mut results: Vec<Vec<Cell>> = self.results.iter().map(cells).collect();
        results.push(cells(&self.workspace));
        results.push(self.status.iter().map(|&word| Cell { bits: Some(word), ..Cell::default() }).collect());
        for group in 0..kernel.groups {
            let lanes = kernel.workgroup as usize;
            let array = |array: &Array| {
                let copies = if array.space == Space::Workgroup { 1 } else { lanes };
                vec![Cell::default(); array.elements as usize * words(array.ty) * copies]
            };
            let variable = |&ty: &ValueType| Rc::new(vec![0; lanes * words(ty)]);
            let mut run = Workgroup {
                machine: self,
                kernel,
                group,
                arrays: kernel.arrays.iter().map(array).collect(),
                results: &mut results,
                stretch: 0,
                named: vec![None; kernel.exprs.len()],
                variables: kernel.variables.iter().map(variable).collect(),
                products: Vec::new(),
                copies: Vec::new(),
                batches: Vec::new(),
                counters: (0..kernel.loops).map(|_| Rc::new(vec![0; lanes])).collect(),
            };
            run.block(&kernel.body, &vec![true; lanes])
                .map_err(|what| format!("{what}, in workgroup {group} of\n{kernel}"))?;
        }
        let words = |cells: Vec<Cell>| cells.into_iter().map(|cell| cell.bits).collect();
        let status = results.pop().unwrap_or_default();
        self.status = status.into_iter().filter_map(|cell| cell.bits).collect();
        self.workspace = results.pop().map(words).unwrap_or_default();
        self.results = results.into_iter().map(words).collect();
        Ok(())
    }
}

/// Words of a value, for each invocation.
type Words = Rc<Vec<u32>>;

struct Workgroup<'r> {
    machine: &'r mut Machine,
    kernel: &'r Kernel,
    group: usize,
    arrays: Vec<Vec<Cell>>,
    /// Cells of the results, then those of the scratch, then those of the status.
    results: &'r mut [Vec<Cell>],
    stretch: usize,
    /// Values of the named expressions.
    named: Vec<Option<Words>>,
    variables: Vec<Words>,
    counters: Vec<Words>,
    /// Products in progress, oldest first.
    products: Vec<Product>,
    /// Copies that are not part of a batch yet.
    copies: Vec<Copied>,
    /// Batches of copies in progress, oldest first.
    batches: Vec<Vec<Copied>>,
}

/// Product in progress.
struct Product {
    /// Variables with the sums.
    sums: Vec<u32>,
    /// Shared operands, each with the index of its first item.
    operands: Vec<(SharedMatrix, u32)>,
}

/// Item that a copy in progress writes.
struct Copied {
    array: u32,
    item: u32,
    /// Invocation that started the copy.
    lane: usize,
    value: Vec<u32>,
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
                self.check_complete(*number)?;
                let value = self.value(*value, active)?;
                let variable = Rc::make_mut(&mut self.variables[*number as usize]);
                let width = value.len() / active.len();
                let words = lanes().flat_map(|lane| lane * width..(lane + 1) * width);
                words.for_each(|word| variable[word] = value[word]);
            }
            Stmt::Store(buffer, index, value) => {
                let (index, value) = (self.value(*index, active)?, self.value(*value, active)?);
                let width = value.len() / active.len();
                for word in lanes().flat_map(|lane| lane * width..(lane + 1) * width) {
                    let (lane, at) = (word / width, index[word / width] as usize * width + word % width);
                    let who = self.group * active.len() + lane;
                    let cell = self.cell(*buffer, at)?;
                    let cell = cell.ok_or_else(|| format!("a write of element {at}"))?;
                    if !cell.write(value[word], who, 0) {
                        return Err(format!("two invocations at element {at} of a result"));
                    }
                }
            }
            Stmt::SetElement(array, index, value) => {
                let (index, value) = (self.value(*index, active)?, self.value(*value, active)?);
                let width = value.len() / active.len();
                for lane in lanes() {
                    self.set_element(*array, index[lane], lane, &value[lane * width..][..width])?;
                }
            }
            Stmt::StoreMatrix(..) if active.contains(&false) => {
                return Err("a matrix that not all store".into());
            }
            Stmt::StoreMatrix(array, index, pitch, value) => {
                let (index, value) = (self.value(*index, active)?, self.value(*value, active)?);
                for lane in (0..active.len()).step_by(kernel_subgroup(self.kernel)) {
                    for (i, word) in value[256 * lane..][..256].iter().enumerate() {
                        let at = index[lane] + u32::try_from(i / 16 * *pitch as usize + i % 16).unwrap();
                        self.set_element(*array, at, lane, &[*word])?;
                    }
                }
            }
            Stmt::If(condition, block) => {
                let holds = self.value(*condition, active)?;
                let inner: Vec<bool> = active.iter().zip(&*holds).map(|(&on, &bit)| on && bit != 0).collect();
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
                    let counter = Rc::make_mut(&mut self.counters[at]);
                    for lane in (0..inner.len()).filter(|&lane| inner[lane]) {
                        counter[lane] += step[lane];
                    }
                }
            }
            Stmt::Barrier if active.contains(&false) => return Err("a barrier that not all reach".into()),
            Stmt::Barrier => self.pass_barrier()?,
            Stmt::StartProduct(_) | Stmt::AwaitProducts(..) | Stmt::EndCopies | Stmt::AwaitCopies(_)
                if active.contains(&false) =>
            {
                return Err("not all invocations reach what they do together".into());
            }
            Stmt::StartProduct(product) => self.start_product(product, active)?,
            Stmt::AwaitProducts(most, sums) => {
                self.read_shared_operands()?;
                let complete = self.products.len().saturating_sub(*most as usize);
                self.products.drain(..complete);
                sums.iter().try_for_each(|&number| self.check_complete(number))?;
            }
            Stmt::StartCopy(copy) => self.start_copy(copy, active)?,
            Stmt::EndCopies => {
                let batch = std::mem::take(&mut self.copies);
                self.batches.push(batch);
            }
            Stmt::AwaitCopies(most) => {
                let complete = self.batches.len().saturating_sub(*most as usize);
                for Copied { array, item, lane, value } in
                    self.batches.drain(..complete).flatten().collect::<Vec<_>>()
                {
                    self.set_element(array, item, lane, &value)?;
                }
            }
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
                        self.machine.checked.push(checked[lane]);
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks that a variable is not the sum of a product in progress.
    fn check_complete(&self, variable: u32) -> Result<(), String> {
        match self.products.iter().any(|product| product.sums.contains(&variable)) {
            true => Err(format!("x{variable} is the sum of a product that has not been awaited")),
            false => Ok(()),
        }
    }

    /// Begins the next interval between barriers.
    fn pass_barrier(&mut self) -> Result<(), String> {
        self.read_shared_operands()?;
        self.stretch += 1;
        self.read_shared_operands()
    }

    /// Marks the shared operands of products in progress as read by several invocations in this interval.
    fn read_shared_operands(&mut self) -> Result<(), String> {
        let operands: Vec<_> = self.products.iter().flat_map(|product| product.operands.clone()).collect();
        for (matrix, first) in operands {
            for item in first..first + matrix.items() {
                for lane in [0, 1] {
                    self.get_element(matrix.array, item, lane, &mut [0; SharedMatrix::EIGHT as usize])?;
                }
            }
        }
        Ok(())
    }

    /// Returns the elements of a shared matrix, row by row.
    fn shared_rows(
        &mut self,
        matrix: SharedMatrix,
        first: u32,
        lane: usize,
    ) -> Result<Vec<Vec<f32>>, String> {
        let row = |row: u32| {
            let mut words = vec![0; matrix.columns as usize];
            for (eight, words) in (0..).zip(words.chunks_mut(SharedMatrix::EIGHT as usize)) {
                self.get_element(matrix.array, first + matrix.item(row, eight), lane, words)?;
            }
            Ok(words.into_iter().map(f32::from_bits).collect())
        };
        (0..matrix.rows).map(row).collect()
    }

    fn start_product(&mut self, product: &WarpgroupProduct, active: &[bool]) -> Result<(), String> {
        let WarpgroupProduct { sums, adds, left, transposed, .. } = product;
        sums.iter().try_for_each(|&number| self.check_complete(number))?;
        let mut operands = Vec::new();
        for (matrix, first) in product.shared() {
            let first = self.value(first, active)?;
            if first.iter().any(|&other| other != first[0]) || !first[0].is_multiple_of(64) {
                return Err("a shared operand that is misaligned, or not the same for all".into());
            }
            operands.push((matrix, first[0]));
        }
        let right = operands[operands.len() - 1];
        let rows = self.shared_rows(right.0, right.1, 0)?;
        // The terms of each row of the left operand.
        let subgroups = active.len() / kernel_subgroup(self.kernel);
        let lefts: Vec<Vec<f32>> = match left {
            ProductLeft::Shared(..) => self.shared_rows(operands[0].0, operands[0].1, 0)?,
            ProductLeft::Held(held) => {
                let mut lefts = vec![Vec::new(); 16 * subgroups];
                for &id in held {
                    let value = self.value(id, active)?;
                    for (row, terms) in lefts.iter_mut().enumerate() {
                        let first = row / 16 * kernel_subgroup(self.kernel) * 256 + row % 16 * 16;
                        terms.extend(value[first..first + 16].iter().map(|&bits| f32::from_bits(bits)));
                    }
                }
                lefts
            }
        };
        let subgroup = kernel_subgroup(self.kernel);
        for (lane, (&number, at)) in (0..active.len())
            .step_by(subgroup)
            .flat_map(|lane| sums.iter().zip((0..).step_by(16)).map(move |sum| (lane, sum)))
        {
            let held =
                &mut Rc::make_mut(&mut self.variables[number as usize])[256 * lane..][..256 * subgroup];
            for (i, j) in (0..16).flat_map(|i| (0..16).map(move |j| (i, j))) {
                let column: usize = at + j;
                let mut total = if *adds { f32::from_bits(held[16 * i + j]) } else { 0.0 };
                for (t, factor) in lefts[lane / subgroup * 16 + i].iter().enumerate() {
                    total += factor * if *transposed { rows[column][t] } else { rows[t][column] };
                }
                held[16 * i + j] = total.to_bits();
            }
            (1..subgroup).for_each(|copy| held.copy_within(..256, 256 * copy));
        }
        self.products.push(Product { sums: sums.clone(), operands });
        self.read_shared_operands()
    }

    fn start_copy(&mut self, copy: &AsyncCopy, active: &[bool]) -> Result<(), String> {
        let [item, index, there] = [copy.item, copy.index, copy.there].map(|id| self.value(id, active));
        let (item, index, there) = (item?, index?, there?);
        let Role::Operand(operand) = self.kernel.buffers[copy.buffer as usize].role else {
            return Err("a copy of what is no operand".into());
        };
        let stretch = self.stretch;
        for lane in (0..active.len()).filter(|&lane| active[lane]) {
            let start = 8 * index[lane] as usize;
            let read = self.machine.operands[operand].get(start..start + 8);
            let mut value = read.ok_or_else(|| format!("a read of element {start}"))?.to_vec();
            if there[lane] == 0 {
                value.fill(0);
            }
            let cells = self.element(copy.array, item[lane], lane);
            let cells = cells.ok_or_else(|| format!("a copy to shared element {}", item[lane]))?;
            for cell in cells {
                if !cell.write(0, lane, stretch) {
                    return Err(format!("a race for shared element {}", item[lane]));
                }
                // The element has no value until the copy is complete.
                cell.bits = None;
            }
            self.copies.push(Copied { array: copy.array, item: item[lane], lane, value });
        }
        Ok(())
    }

    /// Returns a cell of a result, the scratch or the status; `None` if the index is out of bounds.
    fn cell(&mut self, buffer: u32, index: usize) -> Result<Option<&mut Cell>, String> {
        let (number, at) = match self.kernel.buffers[buffer as usize].role {
            Role::Result(result) => (result, index),
            Role::Workspace { start, bytes } => {
                let at = if (index as u64) < bytes / 4 { start as usize / 4 + index } else { usize::MAX };
                (self.results.len() - 2, at)
            }
            Role::Status => (self.results.len() - 1, index),
            Role::Operand(_) | Role::Table => return Err("an operand or a table is written".into()),
        };
        Ok(self.results[number].get_mut(at))
    }

    /// Returns the words of an array element that an invocation accesses; `None` if the index is out of
    /// bounds.
    fn element(&mut self, array: u32, index: u32, lane: usize) -> Option<&mut [Cell]> {
        let Array { space, elements, ty } = self.kernel.arrays[array as usize];
        let start = if space == Space::Workgroup { 0 } else { lane * elements as usize };
        let width = words(ty);
        let cells = self.arrays[array as usize].get_mut((start + index as usize) * width..)?;
        cells.get_mut(..width).filter(|_| index < elements)
    }

    fn set_element(&mut self, array: u32, index: u32, lane: usize, value: &[u32]) -> Result<(), String> {
        let stretch = self.stretch;
        let cells = self.element(array, index, lane);
        let cells = cells.ok_or_else(|| format!("a write of shared element {index}"))?;
        match cells.iter_mut().zip(value).all(|(cell, &word)| cell.write(word, lane, stretch)) {
            true => Ok(()),
            false => Err(format!("a race for shared element {index}")),
        }
    }

    /// Reads an array element, whose words replace those of `to`.
    fn get_element(&mut self, array: u32, index: u32, lane: usize, to: &mut [u32]) -> Result<(), String> {
        let stretch = self.stretch;
        let cells = self.element(array, index, lane);
        let cells = cells.ok_or_else(|| format!("a read of shared element {index}"))?;
        if !cells.iter_mut().all(|cell| cell.read(lane, stretch)) {
            return Err(format!("a race for shared element {index}"));
        }
        for (to, cell) in to.iter_mut().zip(cells) {
            *to = cell.bits.ok_or_else(|| format!("shared element {index} has no value"))?;
        }
        Ok(())
    }

    /// Returns the value of an expression for each invocation.
    fn value(&mut self, id: ExprId, active: &[bool]) -> Result<Words, String> {
        match &self.named[id.index()] {
            Some(value) => Ok(Rc::clone(value)),
            None => self.formula(id, active),
        }
    }

    fn formula(&mut self, id: ExprId, active: &[bool]) -> Result<Words, String> {
        let (kernel, lanes) = (self.kernel, active.len());
        let mut operands = Vec::new();
        for operand in kernel.expr(id).operands() {
            operands.push(self.value(operand, active)?);
        }
        let dtype = kernel.dtype(id);
        let pairs = || operands[0].iter().zip(&*operands[1]).map(|(&a, &b)| (a, b));
        let each = |f: &dyn Fn(usize) -> u32| (0..lanes).map(f).collect::<Vec<u32>>();
        // Skip inactive invocations, whose values are arbitrary.
        let here = || (0..lanes).filter(|&lane| active[lane]);
        Ok(Rc::new(match kernel.expr(id) {
            Expr::Literal(bits) => vec![*bits; lanes],
            Expr::Group => vec![u32::try_from(self.group).unwrap(); lanes],
            Expr::Local => each(&|lane| u32::try_from(lane).unwrap()),
            Expr::Committed => vec![self.machine.committed.into(); lanes],
            Expr::Counter(number) => return Ok(Rc::clone(&self.counters[*number as usize])),
            Expr::Read(number) => {
                self.check_complete(*number)?;
                return Ok(Rc::clone(&self.variables[*number as usize]));
            }
            Expr::Load(buffer, _) => {
                let width = words(kernel.ty(id));
                let mut read = vec![0; lanes * width];
                for word in here().flat_map(|lane| lane * width..(lane + 1) * width) {
                    let lane = word / width;
                    let at = operands[0][lane] as usize * width + word % width;
                    let outside = || format!("a read of element {at}");
                    read[word] = match kernel.buffers[*buffer as usize].role {
                        Role::Operand(number) => {
                            *self.machine.operands[number].get(at).ok_or_else(outside)?
                        }
                        Role::Table => *kernel.table.get(at).ok_or_else(outside)?,
                        Role::Result(_) | Role::Workspace { .. } | Role::Status => {
                            let who = self.group * lanes + lane;
                            let cell = self.cell(*buffer, at)?.ok_or_else(outside)?;
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
                let width = words(kernel.ty(id));
                let mut read = vec![0; lanes * width];
                for lane in here() {
                    let to = &mut read[lane * width..][..width];
                    self.get_element(*array, operands[0][lane], lane, to)?;
                }
                read
            }
            Expr::Broadcast(..)
            | Expr::MatrixZero
            | Expr::MatrixLoad { .. }
            | Expr::MatrixMulAdd(_)
            | Expr::MatrixFrom(_)
            | Expr::MatrixOf(_)
                if active.contains(&false) =>
            {
                return Err("not all invocations reach what they do together".into());
            }
            Expr::Broadcast(array, _) => {
                if operands[0].iter().any(|&index| index != operands[0][0]) {
                    return Err("a broadcast of several elements".into());
                }
                self.pass_barrier()?;
                let mut element = vec![0; words(kernel.ty(id))];
                self.get_element(*array, operands[0][0], 0, &mut element)?;
                self.pass_barrier()?;
                element.repeat(lanes)
            }
            Expr::MatrixZero => vec![0; 256 * lanes],
            Expr::MatrixLoad { array, pitch, by_rows, .. } => {
                let mut all = Vec::new();
                for lane in (0..lanes).step_by(kernel_subgroup(kernel)) {
                    let index = operands[0][lane];
                    if operands[0][lane..][..kernel_subgroup(kernel)].iter().any(|&other| other != index) {
                        return Err("a subgroup loads several matrices".into());
                    }
                    let mut matrix = vec![0; 256];
                    for line in 0..16 {
                        for item in 0..4 {
                            let (at, mut half) = (index + line * pitch + item, [0; 4]);
                            self.get_element(*array, at, lane, &mut half)?;
                            for (i, word) in half.into_iter().enumerate() {
                                let (line, along) = (line as usize, item as usize * 4 + i);
                                matrix[if *by_rows { 16 * line + along } else { 16 * along + line }] = word;
                            }
                        }
                    }
                    all.extend(matrix.repeat(kernel_subgroup(kernel)));
                }
                all
            }
            Expr::MatrixResidual(_) => {
                let residual = |&bits: &u32| {
                    let rest = f32::from_bits(bits) - f32::from_bits(tf32(bits));
                    if rest.is_finite() { rest.to_bits() } else { 0 }
                };
                operands[0].iter().map(residual).collect()
            }
            Expr::MatrixMulAdd([left, ..]) => {
                let is_wide = kernel.ty(*left) == ValueType::Matrix(MatrixUse::Left, DType::F32);
                let rounded = |bits: u32| f32::from_bits(if is_wide { tf32(bits) } else { bits });
                let float = |bits: u32| f32::from_bits(bits);
                let element = |start: usize, at: usize| {
                    let (row, column) = (at / 16, at % 16);
                    let (left, right) = (&operands[0][start..], &operands[1][start..]);
                    let terms =
                        (0..16).map(|t| rounded(left[16 * row + t]) * rounded(right[16 * t + column]));
                    terms.fold(float(operands[2][start + at]), |sum, term| sum + term).to_bits()
                };
                // All invocations of a subgroup hold the same matrices.
                let subgroup = kernel_subgroup(kernel);
                let product = |lane: usize| (0..256).map(|at| element(256 * lane, at)).collect::<Vec<u32>>();
                (0..lanes).step_by(subgroup).flat_map(|lane| product(lane).repeat(subgroup)).collect()
            }
            Expr::MatrixHalf(_, half) => {
                let subgroup = kernel_subgroup(kernel);
                let elements = |lane: usize| (0..4).map(move |i| (lane, i));
                let word = |(lane, i): (usize, usize)| {
                    let [row, column] = FragmentPlace::of(lane % subgroup, *half as usize, i);
                    operands[0][256 * lane + 16 * row + column]
                };
                (0..lanes).flat_map(elements).map(word).collect()
            }
            Expr::MatrixOf(_) | Expr::MatrixFrom(_) => {
                let ValueType::Matrix(which, _) = kernel.ty(id) else {
                    return Err("a matrix of no type".into());
                };
                let place = |lane: usize, half: usize, i: usize| {
                    let (line, term) = (lane / 4 + 8 * half, lane % 4 * 4 + i);
                    match which {
                        MatrixUse::Left => [line, term],
                        MatrixUse::Right => [term, line],
                        MatrixUse::Sum => FragmentPlace::of(lane, half, i),
                    }
                };
                let subgroup = kernel_subgroup(kernel);
                let mut all = Vec::new();
                for first in (0..lanes).step_by(subgroup) {
                    let mut matrix = vec![0; 256];
                    for (lane, half, i) in (0..subgroup)
                        .flat_map(|lane| (0..2).flat_map(move |half| (0..4).map(move |i| (lane, half, i))))
                    {
                        let [row, column] = place(lane, half, i);
                        matrix[16 * row + column] = operands[half][4 * (first + lane) + i];
                    }
                    all.extend(matrix.repeat(subgroup));
                }
                all
            }
            Expr::Vector2(_) | Expr::Vector4(_) => {
                let elements = |lane: usize| operands.iter().map(move |operand| operand[lane]);
                (0..lanes).flat_map(|lane| elements(lane).collect::<Vec<_>>()).collect()
            }
            Expr::ElementPart(array, ..) => {
                let mut read = vec![0; lanes];
                let mut element = vec![0; words(kernel.arrays[*array as usize].ty)];
                for lane in here() {
                    self.get_element(*array, operands[0][lane], lane, &mut element)?;
                    let part = element.get(operands[1][lane] as usize);
                    read[lane] = *part.ok_or("an element that a vector does not have")?;
                }
                read
            }
            Expr::Splat(_) => operands[0].iter().flat_map(|&bits| [bits; 4]).collect(),
            Expr::Component(_, number) => {
                let width = operands[0].len() / lanes;
                each(&|lane| operands[0][lane * width + *number as usize])
            }
            Expr::FourOf(_, part) => {
                operands[0].chunks(4).skip(*part as usize).step_by(2).flatten().copied().collect()
            }
            Expr::ToHalf(_) => {
                let ValueType::Half4(half) = kernel.ty(id) else { return Err("a half of no type".into()) };
                operands[0].iter().map(|&bits| to_half(f32::from_bits(bits), half).to_bits()).collect()
            }
            Expr::MulAdd(_) => floats(&operands, |[a, b, c]| a.mul_add(b, c)),
            Expr::NativeMax(..) => floats(&operands, |[a, b]| a.max(b)),
            Expr::NativeExp2(_) => floats(&operands, |[x]| f64::from(x).exp2() as f32),
            Expr::NativeLog(_) => floats(&operands, |[x]| f64::from(x).ln() as f32),
            Expr::MulHigh(..) => each(&|lane| {
                let product = u64::from(operands[0][lane]) * u64::from(operands[1][lane]);
                u32::try_from(product >> 32).unwrap()
            }),
            Expr::Select(..) => {
                let width = operands[1].len() / lanes;
                let word = |i: usize| operands[if operands[0][i / width] != 0 { 1 } else { 2 }][i];
                (0..lanes * width).map(word).collect()
            }
            Expr::Bitcast(_) => return Ok(Rc::clone(&operands[0])),
            Expr::ShuffleXor(..) if active.contains(&false) => {
                return Err("a shuffle that not all invocations reach".into());
            }
            Expr::ShuffleXor(_, bits) => each(&|lane| operands[0][lane ^ *bits as usize]),
            Expr::Unary(op, _) => operands[0].iter().map(|&x| unary(*op, dtype, x)).collect(),
            Expr::Binary(op, ..) => pairs().map(|(a, b)| binary(*op, dtype, a, b)).collect(),
            Expr::Compare(op, a, _) => {
                let of = kernel.dtype(*a);
                pairs().map(|(a, b)| compare(*op, of, a, b).into()).collect()
            }
            // A cast of a vector of 16-bit floats changes nothing, because its elements are stored as f32.
            Expr::Cast(_) if matches!(self.kernel.ty(id), ValueType::Vector(_)) => {
                return Ok(Rc::clone(&operands[0]));
            }
            Expr::Cast(_) if matches!(self.kernel.ty(id), ValueType::Matrix(..)) => {
                let ValueType::Matrix(_, half) = self.kernel.ty(id) else { unreachable!() };
                operands[0].iter().map(|&bits| to_half(f32::from_bits(bits), half).to_bits()).collect()
            }
            Expr::Cast(a) => {
                let from = kernel.dtype(*a);
                operands[0].iter().map(|&x| cast(from, dtype, x)).collect()
            }
        }))
    }
}

/// Rounds to TF32, which has 11 significant bits, with ties away from zero, like PTX's `cvt.rna.tf32.f32`.
fn tf32(bits: u32) -> u32 {
    if f32::from_bits(bits).is_finite() { (bits + 0x1000) & !0x1fff } else { bits }
}

/// Returns the number of 32-bit words of a value; each invocation of a subgroup holds a whole matrix.
fn words(ty: ValueType) -> usize {
    match ty {
        ValueType::Scalar(_) => 1,
        ValueType::Vector(elements) => elements as usize,
        ValueType::Half2(_) => 2,
        ValueType::Half4(_) => 4,
        ValueType::Half8(_) => 8,
        ValueType::Matrix(..) => 256,
    }
}

fn kernel_subgroup(kernel: &Kernel) -> usize {
    kernel.subgroup.expect("a kernel with matrices has subgroups") as usize
}

/// Computes a function of f32 for each invocation.
fn floats<const N: usize>(operands: &[Words], f: impl Fn([f32; N]) -> f32) -> Vec<u32> {
    let word = |i| f(std::array::from_fn(|operand| f32::from_bits(operands[operand][i]))).to_bits();
    (0..operands[0].len()).map(word).collect()
}

/// Rounds to the nearest 16-bit float, ties to even.
fn to_half(x: f32, dtype: DType) -> f32 {
    if dtype == DType::BF16 {
        let bits = x.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) & 0xffff_0000;
        return if x.is_nan() { x } else { f32::from_bits(rounded) };
    }
    // Compute the unit in the last place, for 10 fraction bits, or 2^-24 for subnormals.
    let exponent = (x.abs().to_bits() >> 23).max(113) as i32 - 127;
    let unit = 2f64.powi(exponent - 10);
    let rounded = ((f64::from(x) / unit).round_ties_even() * unit) as f32;
    if rounded.abs() > 65504.0 && !rounded.is_nan() { f32::INFINITY.copysign(x) } else { rounded }
}

/// Returns the number with these bits. 16-bit floats are stored as f32.
fn number(dtype: DType, bits: u32) -> Number {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => Number::Float(f32::from_bits(bits).into()),
        DType::I32 | DType::U8 | DType::I64 => Number::Int(bits.cast_signed().into()),
        DType::U32 => Number::Int(bits.into()),
        DType::Bool => Number::Bool(bits != 0),
    }
}

/// Returns the bits of a number, rounded to f32 or wrapped to 32 bits.
fn word(number: Number) -> u32 {
    match number {
        Number::Float(x) => (x as f32).to_bits(),
        Number::Int(x) => x as u32,
        Number::Bool(x) => x.into(),
    }
}

fn unary(op: UnaryOp, dtype: DType, x: u32) -> u32 {
    word(match number(dtype, x) {
        Number::Float(x) => Number::Float(op.float(x)),
        Number::Int(x) => Number::Int(op.int(x)),
        Number::Bool(x) => Number::Bool(op.bool(x)),
    })
}

/// Computes a function of two numbers of a dtype. An integer divisor of 0, which the op does not allow, is
/// replaced by 1.
fn binary(op: BinaryOp, dtype: DType, a: u32, b: u32) -> u32 {
    word(match (number(dtype, a), number(dtype, b)) {
        (Number::Float(a), Number::Float(b)) => Number::Float(op.float(a, b)),
        (Number::Int(a), Number::Int(b)) => {
            Number::Int(op.int(a, b).or_else(|| op.int(a, 1)).expect("1 divides all"))
        }
        (Number::Bool(a), Number::Bool(b)) => Number::Bool(op.bool(a, b)),
        _ => unreachable!("both are of one dtype"),
    })
}

fn compare(op: CompareOp, dtype: DType, a: u32, b: u32) -> bool {
    match (number(dtype, a), number(dtype, b)) {
        (Number::Float(a), Number::Float(b)) => op.holds(&a, &b),
        (Number::Int(a), Number::Int(b)) => op.holds(&a, &b),
        (Number::Bool(a), Number::Bool(b)) => op.holds(&a, &b),
        _ => unreachable!("both are of one dtype"),
    }
}

fn cast(from: DType, to: DType, x: u32) -> u32 {
    let x = number(from, x);
    word(match (x, to) {
        (_, DType::F32) => Number::Float(x.as_f64()),
        (_, DType::F16 | DType::BF16) => Number::Float(to.rounded(x.as_f64())),
        (_, DType::Bool) => Number::Bool(x.as_f64() != 0.0),
        // Rust's `as` rounds towards zero, saturates and converts NaN to 0, as the IR specifies.
        (Number::Float(x), DType::I32) => Number::Int((x as i32).into()),
        (Number::Float(x), DType::U32 | DType::U8 | DType::I64) => Number::Int((x as u32).into()),
        (Number::Int(x), DType::I32 | DType::U32 | DType::I64) => Number::Int(x),
        (Number::Int(x), DType::U8) => Number::Int((x as u8).into()),
        (Number::Bool(x), _) => Number::Int(x.into()),
    })
}

/// Creates a tensor from the bits of its elements.
pub fn tensor(dtype: DType, shape: &[usize], bits: &[u32]) -> HostTensor {
    let number = |&bits: &u32| match dtype {
        // Convert 16-bit floats like f32, as which they are stored.
        DType::F32 | DType::F16 | DType::BF16 => f64::from(f32::from_bits(bits)),
        DType::I32 | DType::U8 | DType::I64 => f64::from(bits.cast_signed()),
        DType::U32 | DType::Bool => f64::from(bits),
    };
    HostTensor::from_f64(Type::new(dtype, shape), bits.iter().map(number))
}

/// Returns the bits of a tensor's elements.
pub fn bits(tensor: &HostTensor) -> Vec<u32> {
    let bits = |number: f64| match tensor.ty.dtype {
        DType::F32 | DType::F16 | DType::BF16 => (number as f32).to_bits(),
        DType::I32 | DType::U8 | DType::I64 => (number as i32).cast_unsigned(),
        DType::U32 | DType::Bool => number as u32,
    };
    tensor.to_f64().into_iter().map(bits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradloom_codegen::simt::{Builder as K, Factor, Variable};
    use gradloom_core::ir::CompareOp;

    #[test]
    fn mistakes_of_kernels_are_seen() {
        let run = |write: &dyn Fn(&K)| {
            let k = K::new("mistake", 4, 2);
            write(&k);
            let mut machine = Machine {
                operands: vec![vec![7; 8]],
                results: vec![vec![None; 8]],
                workspace: Vec::new(),
                faults: Vec::new(),
                checked: Vec::new(),
                committed: true,
                status: Vec::new(),
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
        // The last of several readers writes.
        let overwritten = run(&|k| {
            let shared = k.shared(DType::U32, 4);
            k.set_element(shared, k.local(), k.u32(1));
            k.barrier();
            let first = k.element(shared, k.u32(0));
            k.when(k.local().compare(CompareOp::Eq, k.u32(3)), || k.set_element(shared, k.u32(0), first));
        });
        assert!(overwritten.contains("a race for shared element"), "{overwritten}");
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

    /// Runs a kernel of one warpgroup that copies a matrix of ones, calls `before`, multiplies the matrix by
    /// its transpose, calls `during`, awaits the product, and stores an element of it per invocation.
    fn multiplied(
        before: &dyn Fn(&K, SharedMatrix),
        during: &dyn Fn(&K, SharedMatrix, Variable<'_>),
    ) -> String {
        let k = K::new("product", 128, 1);
        k.uses_subgroups(32);
        let [ones, result] =
            [(Role::Operand(0), ValueType::Half8(DType::BF16)), (Role::Result(0), DType::F32.into())]
                .map(|(role, ty)| k.buffer(role, ty));
        let matrix = k.shared_matrix(DType::BF16, [64, 16], 1);
        k.start_copy((matrix.array, k.local()), (ones, k.local()), k.bool(true));
        k.end_copies();
        before(&k, matrix);
        let sums = [0; 4].map(|_| k.var(k.matrix_zero()));
        k.start_product((&sums, false), Factor::Shared(matrix), (matrix, k.u32(0), true));
        during(&k, matrix, sums[0]);
        k.await_products(0, &[&sums]);
        k.store(result, k.local(), sums[0].get().matrix_half(0).component(0));
        let kernel = k.finish();
        gradloom_codegen::simt::verify(&kernel).unwrap_or_else(|error| panic!("{error}"));
        let mut machine = Machine {
            operands: vec![vec![1.0_f32.to_bits(); 64 * 16]],
            results: vec![vec![None; 128]],
            workspace: Vec::new(),
            faults: Vec::new(),
            checked: Vec::new(),
            committed: true,
            status: Vec::new(),
        };
        let error = machine.run(&kernel).err().unwrap_or_default();
        if error.is_empty() {
            assert!(machine.results[0].iter().all(|&bits| bits == Some(16.0_f32.to_bits())));
        }
        error
    }

    #[test]
    fn mistakes_about_asynchronous_work_are_seen() {
        let arrived = |k: &K, _: SharedMatrix| {
            k.await_copies(0);
            k.barrier();
        };
        let write = |k: &K, matrix: SharedMatrix| {
            let eights = k.load(k.buffer(Role::Operand(0), ValueType::Half8(DType::BF16)), k.local());
            k.set_element(matrix.array, k.local(), eights);
        };
        assert_eq!(multiplied(&arrived, &|_, _, _| {}), "");
        let early = multiplied(&|k, _| k.barrier(), &|_, _, _| {});
        assert!(early.contains("has no value"), "{early}");
        let unordered = multiplied(&|k, _| k.await_copies(0), &|_, _, _| {});
        assert!(unordered.contains("a race for shared element"), "{unordered}");
        let read = multiplied(&arrived, &|k, _, sum| {
            k.store(k.buffer(Role::Result(0), DType::F32), k.local(), sum.get().matrix_half(0).component(0));
        });
        assert!(read.contains("has not been awaited"), "{read}");
        let written = multiplied(&arrived, &|k, matrix, _| write(k, matrix));
        assert!(written.contains("a race for shared element"), "{written}");
        // A barrier does not end a product.
        let written = multiplied(&arrived, &|k, matrix, _| {
            k.barrier();
            write(k, matrix);
        });
        assert!(written.contains("a race for shared element"), "{written}");
    }
}
