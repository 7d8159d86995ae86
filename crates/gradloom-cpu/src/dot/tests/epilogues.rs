//! Tests of products with epilogues.

use super::*;
use gradloom_core::ir::{BinaryOp, Number, ReduceOp, UnaryOp, ValueId};
use gradloom_core::kernel::Level as NodeLevel;
use gradloom_core::kernel::Level::{Element, Row, Uniform};
use gradloom_core::kernel::{Kernel, Node, NodeId, NodeKind, Store};

/// A builder of an epilogue.
struct Builder(Body);

impl Builder {
    fn new(rows: usize, columns: usize) -> Self {
        Self(Body { rows, columns, nodes: Vec::new(), stores: Vec::new() })
    }

    fn node(&mut self, kind: NodeKind, level: NodeLevel) -> NodeId {
        self.0.nodes.push(Node { kind, dtype: DType::F32, level });
        NodeId(self.0.nodes.len() as u32 - 1)
    }

    fn accumulator(&mut self) -> NodeId {
        self.node(NodeKind::Accumulator, Element)
    }

    fn load(&mut self, read: usize) -> NodeId {
        self.node(NodeKind::Load(read), Element)
    }

    fn binary(&mut self, op: BinaryOp, a: NodeId, b: NodeId) -> NodeId {
        self.node(NodeKind::Binary(op, [a, b]), Element)
    }

    fn store(&mut self, node: NodeId) {
        let write = self.0.stores.len();
        self.0.stores.push(Store::Value { node, level: Element, write });
    }

    fn columns(&mut self, node: NodeId) {
        let write = self.0.stores.len();
        self.0.stores.push(Store::ColumnReduce { op: ReduceOp::Sum, node, write, parts: 1 });
    }
}

/// Creates a product with an epilogue, including all the scratch that it requires.
fn with_epilogue(
    axes: DotAxes,
    reads: Vec<Tensor>,
    results: &[(DType, Shape)],
    body: &Body,
) -> (Job, Launch) {
    let mut job = Job::of_op(OpKind::Dot(axes.clone()), reads, results);
    job.kernel = Kernel::Dot { axes, epilogue: body.clone() };
    job.workspace = workspace(&job.launch(), THREADS);
    let launch = job.launch();
    (job, launch)
}

/// A product with an epilogue, and its launch.
struct Setup {
    case: Job,
    body: Body,
    launch: Launch,
}

impl Setup {
    fn new(lhs: Tensor, rhs: Tensor, others: Vec<Tensor>, body: Body) -> Self {
        assert_eq!(body.check(), Ok(()));
        let axes = matrix_axes();
        let elements = Shape::from([body.rows, body.columns]);
        let results: Vec<_> = body
            .stores
            .iter()
            .map(|store| match store {
                Store::Value { .. } => (DType::F32, elements.clone()),
                Store::ColumnReduce { .. } => (DType::F32, Shape::from([body.columns])),
            })
            .collect();
        let reads = [vec![lhs, rhs], others].concat();
        let (case, launch) = with_epilogue(axes, reads, &results, &body);
        Self { case, body, launch }
    }

    /// Returns the product in row-major order.
    fn product(&self) -> Vec<f64> {
        let (rows, columns) = (self.body.rows, self.body.columns);
        let [l, r] = [0, 1].map(|i| self.case.reads[i].values());
        let k = self.case.reads[0].layout.shape[1];
        let at = |i, j| (0..k).map(|p| l[i * k + p] * r[p * columns + j]).sum();
        (0..rows).flat_map(|i| (0..columns).map(move |j| at(i, j))).collect()
    }

    fn check(&self, what: &str, expected: &[Vec<f64>]) {
        for level in InstructionSet::available() {
            let kernel = prepare_at(&self.launch, &Graph::new(), level, Loops::Native);
            let results = self.case.run_on_all_pools(&*kernel).unwrap();
            assert_eq!(results.len(), expected.len());
            for (i, (result, expected)) in results.iter().zip(expected).enumerate() {
                assert_near(&format!("{what}, result {i}, {level:?}"), result, expected, 1e-4);
            }
        }
    }
}

/// Extents (m, n, k): a single block, several blocks along each axis, split-K sums, vectors, and empty
/// products.
const EXTENTS: [[usize; 3]; 13] = [
    [5, 7, 3],
    [100, 33, 70],
    [130, 70, 300],
    [600, 300, 20],
    [300, 520, 300],
    [150, 70, 900],
    [20, 24, 6000],
    [1, 300, 40],
    [300, 1, 40],
    [1, 1, 900],
    [4, 5, 0],
    [0, 5, 3],
    [4, 0, 3],
];

/// Returns a bias: one row, broadcast to all rows.
fn bias(random: &mut Random, rows: usize, columns: usize) -> Tensor {
    let vector = Tensor::dense(random, &[1, columns].into());
    Tensor { layout: vector.layout.broadcast(&[rows, columns].into()), ..vector }
}

fn sums_of_columns(values: &[f64], columns: usize) -> Vec<f64> {
    (0..columns).map(|j| values.iter().skip(j).step_by(columns).sum()).collect()
}

#[test]
fn bias_then_activation_with_both_written() {
    let mut random = Random(21);
    for [m, n, k] in EXTENTS {
        let mut builder = Builder::new(m, n);
        let product = builder.accumulator();
        let bias_row = builder.load(2);
        let sum = builder.binary(BinaryOp::Add, product, bias_row);
        let active = builder.node(NodeKind::Unary(UnaryOp::Tanh, sum), Element);
        builder.store(sum);
        builder.store(active);
        let (lhs, rhs) = (matrix(&mut random, [m, k], m % 2 == 0), matrix(&mut random, [k, n], n % 2 == 0));
        let setup = Setup::new(lhs, rhs, vec![bias(&mut random, m, n)], builder.0);
        let bias = setup.case.reads[2].values();
        let sums: Vec<f64> = setup.product().iter().zip(&bias).map(|(x, b)| x + b).collect();
        let active = sums.iter().map(|x| x.tanh()).collect();
        setup.check(&format!("{m}x{n}x{k}"), &[sums, active]);
    }
}

#[test]
fn the_product_is_read_after_results_are_computed_from_it() {
    // The raw product may be stored in the first result's buffer.
    let mut random = Random(22);
    for [m, n, k] in EXTENTS {
        let mut builder = Builder::new(m, n);
        let product = builder.accumulator();
        let square = builder.binary(BinaryOp::Mul, product, product);
        let active = builder.node(NodeKind::Unary(UnaryOp::Tanh, product), Element);
        let sum = builder.binary(BinaryOp::Add, square, active);
        builder.store(square);
        builder.store(sum);
        builder.store(product);
        let [lhs, rhs] = [[m, k], [k, n]].map(|extents| Tensor::dense(&mut random, &extents.into()));
        let setup = Setup::new(lhs, rhs, Vec::new(), builder.0);
        let product = setup.product();
        let squares: Vec<f64> = product.iter().map(|p| p * p).collect();
        let sums = product.iter().map(|p| p * p + p.tanh()).collect();
        setup.check(&format!("{m}x{n}x{k}"), &[squares, sums, product]);
    }
}

#[test]
fn sums_over_rows() {
    let mut random = Random(22);
    for [m, n, k] in EXTENTS {
        for keeps_product in [false, true] {
            let mut builder = Builder::new(m, n);
            let product = builder.accumulator();
            let factor = builder.load(2);
            let scaled = builder.binary(BinaryOp::Mul, product, factor);
            if keeps_product {
                builder.store(scaled);
            }
            builder.columns(scaled);
            let (lhs, rhs) =
                (matrix(&mut random, [m, k], n % 2 == 0), matrix(&mut random, [k, n], m % 2 == 0));
            let factor = Tensor::strided(&mut random, &[m, n].into());
            let setup = Setup::new(lhs, rhs, vec![factor], builder.0);
            let factors = setup.case.reads[2].values();
            let scaled: Vec<f64> = setup.product().iter().zip(&factors).map(|(x, f)| x * f).collect();
            let sums = sums_of_columns(&scaled, n);
            let expected = if keeps_product { vec![scaled, sums] } else { vec![sums] };
            setup.check(&format!("{m}x{n}x{k}"), &expected);
        }
    }
}

/// Computes `x · w + x2` in place of `x2`: the raw product must not be written there before `x2` is read.
#[test]
fn a_residual_in_place() {
    let mut random = Random(23);
    for [m, n, k] in EXTENTS {
        let mut builder = Builder::new(m, n);
        let product = builder.accumulator();
        let residual = builder.load(2);
        let sum = builder.binary(BinaryOp::Add, product, residual);
        builder.store(sum);
        let (lhs, rhs) = (matrix(&mut random, [m, k], false), matrix(&mut random, [k, n], true));
        let residual = Tensor::dense(&mut random, &[m, n].into());
        let mut setup = Setup::new(lhs, rhs, vec![residual], builder.0);
        let expected: Vec<f64> =
            setup.product().iter().zip(setup.case.reads[2].values()).map(|(x, r)| x + r).collect();

        let launch = &mut setup.launch;
        launch.may_alias = vec![(0, 2)];
        launch.writes[0].buffer = ValueId(2);
        launch.writes[0].layout = launch.reads[2].layout.clone();
        launch.workspace = workspace(launch, THREADS) as u64;
        for level in InstructionSet::available() {
            let kernel = prepare_at(launch, &Graph::new(), level, Loops::Native);
            for threads in 1..=THREADS {
                let mut shared = setup.case.reads[2].words.clone();
                let address = shared.as_mut_ptr().cast::<u8>();
                let mut reads: Vec<*const u8> =
                    setup.case.reads.iter().map(|read| read.words.as_ptr().cast()).collect();
                reads[2] = address;
                let mut scratch = vec![[f32::NAN; 16]; launch.workspace as usize / 64 + 1];
                let pool = Pool::new(threads);
                let scratch = scratch.as_mut_ptr().cast();
                let call = Call { pool: &pool, reads: &reads, writes: &[address], scratch };
                kernel.run(&call).unwrap();
                assert_near(&format!("{m}x{n}x{k}, {level:?}"), &shared[..m * n], &expected, 1e-4);
            }
        }
    }
}

/// Tests row-level and uniform operands in the epilogue of a batch of products.
#[test]
fn a_batch_with_factors_of_rows() {
    let mut random = Random(24);
    for (batch, m, n, k) in [(40, 3, 5, 4), (2, 200, 70, 30), (70, 1, 16, 16), (9, 12, 1, 8)] {
        let rows = batch * m;
        let mut builder = Builder::new(rows, n);
        let product = builder.accumulator();
        let factor = builder.node(NodeKind::Load(2), Row);
        let half = builder.node(NodeKind::Constant(Number::Float(0.5)), Uniform);
        let factor = builder.node(NodeKind::Binary(BinaryOp::Mul, [factor, half]), Row);
        let scaled = builder.binary(BinaryOp::Mul, product, factor);
        builder.store(scaled);
        let body = builder.0;
        let axes =
            DotAxes { lhs_batch: vec![0], rhs_batch: vec![0], lhs_contract: vec![2], rhs_contract: vec![1] };
        let lhs = Tensor::strided(&mut random, &[batch, m, k].into());
        let rhs = Tensor::strided(&mut random, &[batch, k, n].into());
        let copies = dot_copies(&axes, &lhs.layout, &rhs.layout);
        let (lhs, rhs) = (copied(lhs, copies.lhs), copied(rhs, copies.rhs));
        let factors = Tensor::dense(&mut random, &[rows].into());
        let products = expected(&axes, &lhs, &rhs);
        let expected: Vec<f64> = (0..rows * n).map(|i| products[i] * 0.5 * factors.values()[i / n]).collect();
        let results = [(DType::F32, [rows, n].into())];
        let (case, launch) = with_epilogue(axes, vec![lhs, rhs, factors], &results, &body);
        let kernel = prepare_at(&launch, &Graph::new(), InstructionSet::detect(), Loops::Native);
        let results = case.run_on_all_pools(&*kernel).unwrap();
        assert_near(&format!("{batch} of {m}x{n}x{k}"), &results[0], &expected, 1e-4);
    }
}

/// A plan requests scratch for the raw product only if no result can store it.
#[test]
fn scratch_is_asked_for_where_it_is_needed() {
    let mut random = Random(25);
    let [m, n, k] = [300, 200, 100];
    let mut builder = Builder::new(m, n);
    let product = builder.accumulator();
    let residual = builder.load(2);
    let sum = builder.binary(BinaryOp::Add, product, residual);
    builder.store(sum);
    let (lhs, rhs) = (matrix(&mut random, [m, k], false), matrix(&mut random, [k, n], false));
    let setup = Setup::new(lhs, rhs, vec![Tensor::dense(&mut random, &[m, n].into())], builder.0);
    let direct = workspace(&setup.launch, 1);
    // If the result overwrites an operand that the epilogue reads, the raw product requires scratch.
    let mut in_place = Launch { may_alias: vec![(0, 2)], ..setup.launch.clone() };
    assert_eq!(workspace(&in_place, 1), direct, "windows that differ cannot coincide");
    in_place.writes[0].layout = in_place.reads[2].layout.clone();
    assert!(workspace(&in_place, 1) > direct);
    let (one, two) = (workspace(&in_place, 1), workspace(&in_place, 2));
    assert_eq!(two - one, one, "without shared parts, all scratch belongs to threads");
}
