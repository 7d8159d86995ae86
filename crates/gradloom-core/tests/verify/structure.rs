//! Invariants of ids, the order of ops, blocks and types.

use crate::{broken, broken_text, op_named};
use gradloom_core::error::{Error, ErrorKind};
use gradloom_core::ir::{
    BlockId, DType, Definition, Graph, Id, OpId, OpKind, OriginId, Type, UnaryOp, ValueId, parse,
};
use gradloom_core::verify::{MAX_BLOCK_DEPTH, verify};

const FAR: u32 = 1000;

#[test]
fn an_empty_graph_is_sound() {
    verify(&Graph::new()).unwrap();
}

#[test]
fn a_broken_id_takes_no_memory() {
    let lines: String = (1..30).map(|i| format!("%{i}: f32[] = neg %{}\n", i - 1)).collect();
    let mut graph = parse(&format!("graph {{\n%0: f32[] = input \"x\"\n{lines}}}")).unwrap();
    let entry = graph.entry;
    let last = *graph.blocks[entry].ops.last().unwrap();
    graph.ops[last].results[0] = ValueId(u32::MAX);
    graph.blocks[entry].ops.push(OpId(u32::MAX));
    assert!(verify(&graph).is_err());
    assert!(graph.to_string().contains("%?4294967295: ? = neg %28"), "{graph}");
}

#[test]
fn errors_name_the_op_and_its_origin() {
    let error = broken(|graph| {
        let add = op_named(graph, "add");
        graph.ops[add].operands.pop();
    });
    assert_eq!(error.message, "add takes 2 operands, got 1");
    assert_eq!(error.op.as_deref(), Some("%7: f32[2, 3] = add %6"));
    assert_eq!(error.origin.as_ref().unwrap().to_string(), "src/model.rs:12:20");
    assert_eq!(
        error.to_string(),
        "add takes 2 operands, got 1\n  in: %7: f32[2, 3] = add %6\n  at: src/model.rs:12:20"
    );
    let error = Error::from(error);
    assert_eq!(error.kind(), ErrorKind::Verify);
    assert_eq!(error.origin().unwrap().line, 12);
    assert_eq!(error.notes().collect::<Vec<_>>(), ["in %7: f32[2, 3] = add %6"]);
}

#[test]
fn ids_exist() {
    assert_eq!(broken(|g| g.entry = BlockId(FAR)).message, "the entry block ^1000 does not exist");
    assert_eq!(
        broken(|g| g.cursor = BlockId(FAR)).message,
        "the cursor stands at block ^1000, which does not exist"
    );
    assert_eq!(
        broken(|g| {
            let entry = g.entry;
            g.blocks[entry].ops.push(OpId(FAR));
        })
        .message,
        "block ^0 lists op1000, which does not exist"
    );
    let with_add = |change: fn(&mut gradloom_core::ir::Op)| {
        broken(|g| {
            let add = op_named(g, "add");
            change(&mut g.ops[add]);
        })
    };
    assert_eq!(with_add(|op| op.operands[0] = ValueId(FAR)).message, "uses %?1000, which does not exist");
    assert_eq!(with_add(|op| op.results[0] = ValueId(FAR)).message, "the result %1000 does not exist");
    assert_eq!(with_add(|op| op.origin = Some(OriginId(FAR))).message, "the origin @1000 does not exist");
    let error = broken(|g| {
        let repeat = op_named(g, "repeat");
        g.ops[repeat].kind = OpKind::Checkpoint { block: BlockId(FAR) };
    });
    assert_eq!(error.message, "checkpoint runs block ^1000, which does not exist");
    let error = broken(|g| {
        let neg = op_named(g, "neg");
        g.ops[neg].kind = OpKind::Custom(0);
    });
    assert_eq!(error.message, "custom op 0 is not registered");
    assert_eq!(error.op.as_deref(), Some("%5: f32[3] = custom ?0 %4"));
}

fn inner(graph: &Graph) -> BlockId {
    graph.blocks.iter().map(|(id, _)| id).find(|id| *id != graph.entry).unwrap()
}

#[test]
fn parameters_and_results_of_blocks_exist() {
    let error = broken(|g| {
        let block = inner(g);
        g.blocks[block].params[0] = ValueId(FAR);
    });
    assert_eq!(error.message, "block ^1 defines %1000, which does not exist");
    let error = broken(|g| {
        let block = inner(g);
        g.blocks[block].results[0] = ValueId(FAR);
    });
    assert_eq!(error.message, "the results of block ^1: uses %?1000, which does not exist");
}

#[test]
fn a_definition_agrees_with_where_it_stands() {
    let error = broken(|g| {
        let neg = op_named(g, "neg");
        let result = g.ops[neg].results[0];
        g.values[result].definition = Definition::Result(neg, 1);
    });
    assert!(error.message.starts_with("%5 says that it is result 1 of op"), "{error}");
    let error = broken(|g| {
        let block = inner(g);
        let param = g.blocks[block].params[0];
        g.values[param].definition = Definition::BlockParam(g.entry, 0);
    });
    assert_eq!(
        error.message,
        "%4 says that it is parameter 0 of block ^0, but it stands as parameter 0 of block ^1"
    );
}

#[test]
fn a_value_is_defined_once() {
    // Two ops have the same result, but its definition names only one of them.
    let error = broken(|g| {
        let neg = op_named(g, "neg");
        let block = inner(g);
        let twin = g.ops.push(g.ops[neg].clone());
        g.blocks[block].ops.push(twin);
    });
    assert!(error.message.contains("says that it is result 0 of"), "{error}");
    let error = broken(|g| {
        let neg = op_named(g, "neg");
        let block = inner(g);
        g.blocks[block].ops.push(neg);
    });
    assert!(error.message.ends_with("is listed twice; an op stands in one block, once"), "{error}");
    // The second entry of the same parameter is parameter 1, but the parameter's definition says 0.
    let error = broken(|g| {
        let block = inner(g);
        let param = g.blocks[block].params[0];
        g.blocks[block].params.push(param);
    });
    assert_eq!(
        error.message,
        "%4 says that it is parameter 0 of block ^1, but it stands as parameter 1 of block ^1"
    );
}

#[test]
fn operands_come_first() {
    let error = broken(|g| {
        let entry = g.entry;
        let add = op_named(g, "add");
        let at = g.blocks[entry].ops.iter().position(|op| *op == add).unwrap();
        g.blocks[entry].ops.swap(at - 1, at);
    });
    assert_eq!(error.message, "uses %7, which no op before it in block entry defines");
    let error = broken(|g| {
        let neg = op_named(g, "neg");
        g.ops[neg].operands[0] = g.ops[neg].results[0];
    });
    assert_eq!(error.message, "uses %5, which no op before it in block ^1 defines");
    // An op that a rewrite removed from its block no longer defines its results.
    let error = broken(|g| {
        let entry = g.entry;
        let repeat = op_named(g, "repeat");
        g.blocks[entry].ops.retain(|op| *op != repeat);
    });
    assert!(error.message.starts_with("uses %?"), "{error}");
}

#[test]
fn blocks_are_closed() {
    let error = broken(|g| {
        let entry = g.entry;
        let neg = op_named(g, "neg");
        let add = op_named(g, "add");
        g.ops[add].operands[0] = g.ops[neg].results[0];
        assert_eq!(g.values[g.ops[add].operands[0]].definition, Definition::Result(neg, 0));
        g.cursor = entry;
    });
    assert_eq!(error.message, "uses %5 of block ^1; blocks use no value from outside");
    // A block is checked before the op that runs it, so a value from outside is not defined yet at that
    // point.
    let error = broken(|g| {
        let neg = op_named(g, "neg");
        let input = op_named(g, "input");
        g.ops[neg].operands[0] = g.ops[input].results[0];
    });
    assert_eq!(error.message, "uses %0, which no op before it in block ^1 defines");
}

#[test]
fn the_entry_block_has_no_parameters_and_no_results() {
    let message = "the entry block has parameters or results; a graph takes inputs and gives outputs instead";
    let error = broken(|g| {
        let entry = g.entry;
        let input = op_named(g, "input");
        g.blocks[entry].results.push(g.ops[input].results[0]);
    });
    assert_eq!(error.message, message);
    let mut graph = Graph::new();
    graph.entry = graph.add_block(&[Type::scalar(DType::F32)]);
    assert_eq!(verify(&graph).unwrap_err().message, message);
}

#[test]
fn result_types_are_those_of_the_shape_rule() {
    let error = broken(|g| {
        let add = op_named(g, "add");
        let result = g.ops[add].results[0];
        g.values[result].ty = Type::new(DType::F32, [3, 2]);
    });
    assert_eq!(error.message, "add gives (f32[2, 3]), but its results are (f32[3, 2])");
    let error = broken(|g| {
        let add = op_named(g, "add");
        let extra = g.values.push(g.values[g.ops[add].results[0]].clone());
        g.ops[add].results.push(extra);
    });
    assert_eq!(error.message, "add gives (f32[2, 3]), but its results are (f32[2, 3], f32[2, 3])");
    let error = broken(|g| {
        let neg = op_named(g, "neg");
        g.ops[neg].kind = OpKind::Unary(UnaryOp::Not);
    });
    assert_eq!(
        error.message,
        "not does not take f32 elements (it takes i32, u32, bool: convert with .cast(DType::I32))"
    );
    let error = broken(|g| {
        let repeat = op_named(g, "repeat");
        g.ops[repeat].kind = OpKind::Repeat { block: inner(g), trip: 3, carried: 0 };
    });
    assert_eq!(error.message, "repeat: the stacked operand f32[2, 3] needs a first axis of extent 3");
}

#[test]
fn every_kind_survives_missing_operands() {
    // The shape rules index their operands, so each must first check their number.
    let text = include_str!("../text/every_op.txt");
    let graph = parse(&text.replace("custom \"tests.twice\"", "neg")).unwrap();
    verify(&graph).unwrap();
    for (id, op) in graph.ops.iter() {
        for count in 0..op.operands.len() {
            let mut cut = graph.clone();
            cut.ops[id].operands.truncate(count);
            assert!(verify(&cut).is_err(), "{} with {count} operands", op.kind.name());
        }
        let mut grown = graph.clone();
        let extra = op.operands.first().copied();
        if let Some(extra) = extra {
            grown.ops[id].operands.push(extra);
            // An additional operand is an error, too: only a concat accepts one, but its type would change.
            assert!(verify(&grown).is_err(), "{}", op.kind.name());
        }
    }
}

#[test]
fn leaves_stand_in_the_entry_block() {
    for leaf in ["input \"i\"", "param \"i\"", "state \"i\" {init=0.0}", "scalar \"i\""] {
        let error = broken_text(&format!("^1() {{ %0: f32[] = {leaf} -> %0 }}\n%1: f32[] = checkpoint ^1"));
        let name = leaf.split(' ').next().unwrap();
        assert_eq!(error.message, format!("{name} stands in block ^1; leaves stand in the entry block"));
    }
    let constants = "graph { ^1() { %0: f32[] = constant 1.0 -> %0 } %1: f32[] = checkpoint ^1 }";
    verify(&parse(constants).unwrap()).unwrap();
}

#[test]
fn blocks_do_not_run_themselves() {
    let error = broken(|g| {
        let neg = op_named(g, "neg");
        g.ops[neg].kind = OpKind::Checkpoint { block: inner(g) };
    });
    assert_eq!(error.message, "checkpoint runs the block that it is a part of");
    // The block runs itself through another block.
    let text = "graph { ^1() { -> } ^2() { checkpoint ^1 -> } checkpoint ^2 }";
    let mut graph = parse(text).unwrap();
    let second = BlockId::from_index(2);
    graph.cursor = BlockId::from_index(1);
    graph.add(OpKind::Checkpoint { block: second }, &[], None).unwrap();
    assert_eq!(verify(&graph).unwrap_err().message, "checkpoint runs the block that it is a part of");
    // The entry block must not run itself either.
    let mut graph = Graph::new();
    let entry = graph.entry;
    graph.add(OpKind::Checkpoint { block: entry }, &[], None).unwrap();
    let error = verify(&graph).unwrap_err();
    assert_eq!(error.message, "checkpoint runs the block that it is a part of");
    assert!(graph.to_string().contains("checkpoint ^?0"));
}

#[test]
fn blocks_nest_to_a_limit() {
    let nested = |depth: usize| {
        let mut text = String::from("graph {\n^0() { -> }\n");
        for i in 1..depth {
            text += &format!("^{i}() {{ checkpoint ^{} -> }}\n", i - 1);
        }
        verify(&parse(&format!("{text}checkpoint ^{}\n}}", depth - 1)).unwrap())
    };
    nested(MAX_BLOCK_DEPTH).unwrap();
    assert_eq!(nested(MAX_BLOCK_DEPTH + 1).unwrap_err().message, "blocks nest more than 64 deep");
}

#[test]
fn a_value_has_at_most_64_axes() {
    let add = |rank: usize| {
        let ty = Type::new(DType::F32, vec![1; rank]);
        Graph::new().add(OpKind::Input { name: "x".into(), ty }, &[], None)
    };
    add(64).unwrap();
    assert_eq!(add(65).unwrap_err().message, "a value has 65 axes; 64 are the most");
}

#[test]
fn blocks_without_ops_cannot_be_run_without_end() {
    let mut text = "graph {\n^1() {\n->\n}\n".to_string();
    for block in 2..=40 {
        let run = format!("checkpoint ^{}\n", block - 1);
        text += &format!("^{block}() {{\n{run}{run}->\n}}\n");
    }
    let error = verify(&parse(&(text + "checkpoint ^40\n}")).unwrap()).unwrap_err();
    assert!(error.message.contains("more than 262144 ops from blocks"), "{error}");
}

#[test]
fn extents_can_be_multiplied() {
    let huge = Type::new(DType::F32, [1 << 31, 1 << 31]);
    let message = "f32[2147483648, 2147483648] has more elements than any memory can hold";
    let mut graph = Graph::new();
    let input = |ty: &Type| OpKind::Input { name: "x".into(), ty: ty.clone() };
    assert_eq!(graph.add(input(&huge), &[], None).unwrap_err().message, message);
    // The verifier also rejects the type in a graph that was changed without `Graph::add`.
    graph.add(input(&Type::new(DType::F32, [1])), &[], None).unwrap();
    let op = graph.blocks[graph.entry].ops[0];
    graph.ops[op].kind = input(&huge);
    assert_eq!(verify(&graph).unwrap_err().message, message);
    // The type is rejected even if another extent is 0, as strides and partial products overflow.
    let error = broken(|g| {
        let neg = op_named(g, "neg");
        g.ops[neg].kind = OpKind::Reshape { shape: [usize::MAX, usize::MAX, 0].into() };
    });
    assert!(error.message.ends_with("has more elements than any memory can hold"), "{error}");
    let mut graph = Graph::new();
    let block = graph.add_block(&[huge]);
    graph.add(OpKind::Checkpoint { block }, &[], None).unwrap_err();
    let entry = graph.entry;
    let op = graph.ops.push(gradloom_core::ir::Op {
        kind: OpKind::Checkpoint { block },
        operands: vec![],
        results: vec![],
        origin: None,
    });
    graph.blocks[entry].ops.push(op);
    assert_eq!(verify(&graph).unwrap_err().message, message);
}

#[test]
fn steps_and_gaps_that_say_nothing_are_kept_small() {
    let graph = |line: &str| {
        parse(&format!("graph {{\n%0: f32[4] = input \"x\"\n%1: f32[1] = input \"y\"\n{line}\n}}"))
    };
    let kept = |line: &str| graph(line).unwrap().to_string().lines().nth(3).unwrap().trim().to_string();
    let far = "18446744073709551615";
    for (step, small) in [(far, "2"), ("9223372036854775808", "2"), ("3", "2"), ("2", "2")] {
        let slice = |step: &str| format!("%2: f32[1] = slice %0 {{start=[1], limit=[3], step=[{step}]}}");
        assert_eq!(kept(&slice(step)), slice(small));
    }
    let empty = |step: &str| format!("%2: f32[0] = slice %0 {{start=[3], limit=[3], step=[{step}]}}");
    assert_eq!(kept(&empty(far)), empty("1"));
    let pad = |gap: &str| format!("%2: f32[3] = pad %1 {{low=[1], high=[1], interior=[{gap}], value=0.0}}");
    assert_eq!(kept(&pad(far)), pad("0"));
    // The verifier rejects unreduced steps and gaps in a graph that was changed without `Graph::add`.
    let mut strided = graph("%2: f32[2] = slice %0 {start=[0], limit=[4], step=[2]}").unwrap();
    let slice = op_named(&strided, "slice");
    strided.ops[slice].kind = OpKind::Slice { start: vec![0], limit: vec![2], step: vec![1 << 63] };
    assert_eq!(
        verify(&strided).unwrap_err().message,
        "slice: the step 9223372036854775808 is larger than axis 0 of [4]; 4 picks the same element"
    );
    let mut padded = graph("%2: f32[3] = pad %1 {low=[1], high=[1], interior=[0], value=0.0}").unwrap();
    let pad = op_named(&padded, "pad");
    let value = gradloom_core::ir::Number::Float(0.0);
    padded.ops[pad].kind = OpKind::Pad { low: vec![1], high: vec![1], interior: vec![4], value };
    assert_eq!(
        verify(&padded).unwrap_err().message,
        "pad: axis 0 of [1] has gaps of 4, but no two elements to stand between; use 0"
    );
}

#[test]
fn attention_is_no_larger_than_can_be_counted() {
    let of = |q: &str, k: &str| {
        let text = format!(
            "graph {{\n%0: f32{q} = input \"q\"\n%1: f32{k} = input \"k\"\n\
             %2: f32{q}, %3: f32[1, 1, 1] = attention %0, %1, %1 {{scale=1.0}}\n}}"
        );
        parse(&text).unwrap_err().to_string()
    };
    let error = of("[1, 2097152, 2, 4]", "[1, 1, 2, 4]");
    assert!(error.ends_with("attention: 2097152 query heads; there may be 1048576 at most"), "{error}");
    let error = of("[1, 1, 2, 2097152]", "[1, 1, 2, 2097152]");
    assert!(error.ends_with("attention: 2097152 elements of a key; there may be 1048576 at most"), "{error}");
    let error = of("[1, 1, 1099511627776, 4]", "[1, 1, 1099511627776, 4]");
    assert!(error.ends_with("have more scores than any memory can hold"), "{error}");
}

#[test]
fn what_rewrites_leave_behind_is_not_looked_at() {
    let mut graph = parse(crate::SOUND).unwrap();
    let add = op_named(&graph, "add");
    let mut stray = graph.ops[add].clone();
    stray.operands.clear();
    graph.ops.push(stray);
    graph.add_block(&[Type::scalar(DType::F32)]);
    verify(&graph).unwrap();
}
