//! Messages and locations of the parser's errors.

use gradloom_core::ir::parse;

/// Parses lines inside `graph { .. }`; the first one is line 2.
fn error(lines: &str) -> String {
    match parse(&format!("graph {{\n{lines}\n}}")) {
        Ok(graph) => panic!("this parses: {graph}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_frame() {
    let whole = |text: &str| parse(text).unwrap_err().to_string();
    assert_eq!(whole(""), "line 1, column 1: expected `graph`, found the end of the text");
    assert_eq!(whole("grph {}"), "line 1, column 1: expected `graph`, found `grph`");
    assert_eq!(whole("graph {} x"), "line 1, column 10: expected the end of the text, found `x`");
    assert_eq!(
        whole("graph {"),
        "line 1, column 8: expected an op, a block, an output, an update, a guard, or `}`, found the end of \
         the text"
    );
}

#[test]
fn characters_and_strings() {
    assert_eq!(error("  ?"), "line 2, column 3: expected a token, found the character '?'");
    assert_eq!(error("%x"), "line 2, column 1: expected a number after `%`, found \"\"");
    assert_eq!(error("%99999999999"), "line 2, column 1: expected a number after `%`, found \"99999999999\"");
    assert_eq!(error("output \"a"), "line 2, column 8: expected `\"` at the end of this string");
    assert_eq!(
        error("output \"a\\x\""),
        "line 2, column 8: expected `\\\"`, `\\\\`, `\\n` or `\\u{..}` in this string"
    );
    assert_eq!(
        error("output \"\\u{d800}\""),
        "line 2, column 8: expected an escape such as `\\u{1f}` in this string"
    );
    // Columns count characters, not bytes.
    assert_eq!(error("output \"äöü\" ?"), "line 2, column 14: expected a token, found the character '?'");
}

#[test]
fn values_and_types() {
    assert_eq!(error("%0: f32[2 = input \"x\""), "line 2, column 11: expected `,` or `]`, found `=`");
    assert_eq!(
        error("%0: f64[2] = input \"x\""),
        "line 2, column 5: expected a type such as `f32[2, 3]`, found `f64`"
    );
    assert_eq!(
        error("%0: f32[-1] = input \"x\""),
        "line 2, column 9: expected an extent, found -1, which is not a whole number in range"
    );
    assert_eq!(
        error("%0: f32[4294967296, 4294967296] = input \"x\""),
        "line 2, column 5: f32[4294967296, 4294967296] has more elements than any memory can hold"
    );
    assert_eq!(error("%0: f32[] = neg %1"), "line 2, column 17: %1 is not defined before this place");
    assert_eq!(
        error("%0: f32[] = constant 1.0\n%0: f32[] = constant 2.0"),
        "line 3, column 1: %0 is defined twice"
    );
    assert_eq!(
        error("%0: f32[] = constant 1.0\n^1() {\n%1: f32[] = neg %0\n-> %1 }"),
        "line 4, column 17: %0 belongs to another block; blocks use no value from outside"
    );
}

#[test]
fn ops() {
    assert_eq!(error("%0: f32[] = frob"), "line 2, column 13: expected the name of an op, found `frob`");
    assert_eq!(error("%0: f32[] = 3"), "line 2, column 13: expected the name of an op, found `3`");
    assert_eq!(
        error("%0: f32[2] = constant 1.0\n%1: f32[3] = neg %0"),
        "line 3, column 14: neg gives (f32[2]), but the text says (f32[3])"
    );
    assert_eq!(
        error("%0: f32[2] = constant 1.0\n%1: f32[2], %2: f32[2] = neg %0"),
        "line 3, column 26: neg gives (f32[2]), but the text says (f32[2], f32[2])"
    );
    assert_eq!(error("input \"x\""), "line 2, column 1: input has one result, found 0");
    assert_eq!(
        error("%0: i32[] = constant 1\n%1: i32[] = exp %0"),
        "line 3, column 13: exp does not take i32 elements (it takes f32: convert with .cast(DType::F32))"
    );
    assert_eq!(
        error("%0: f32[] = custom \"a.b\""),
        "line 2, column 20: the custom op \"a.b\" was not given to the parser"
    );
    assert_eq!(error("%0: f32[] = checkpoint ^1"), "line 2, column 24: ^1 is not defined before this place");
    assert_eq!(
        error("^1() { %0: f32[] = checkpoint ^1 -> %0 }"),
        "line 2, column 31: ^1 is not defined before this place"
    );
    assert_eq!(
        error("%0: f32[] = constant 1.0 @0"),
        "line 2, column 26: @0 is not defined before this place"
    );
}

#[test]
fn attributes() {
    let with = |op: &str| error(&format!("%0: f32[2, 2] = constant 1.0\n%1: f32[2] = {op}"));
    assert_eq!(with("sum %0"), "line 4, column 1: expected the attribute `axes=..` for this op");
    assert_eq!(with("sum %0 {axes=1}"), "line 3, column 22: expected a list such as `[0, 1]` for `axes`");
    assert_eq!(
        with("sum %0 {axes=}"),
        "line 3, column 27: expected a number, `true`, `false`, or a list, found `}`"
    );
    assert_eq!(with("sum %0 {axes=[0], axis=1}"), "line 3, column 32: sum takes no further attribute `axis`");
    assert_eq!(
        with("argmax %0 {axis=1.5}"),
        "line 3, column 25: expected a whole number in range for `axis`, found `1.5`"
    );
    assert_eq!(with("argmax %0 {axis}"), "line 3, column 25: expected a number for `axis`");
    assert_eq!(
        with("attention %0, %0, %0 {scale=1.0, causal=1}"),
        "line 3, column 47: expected `causal` alone: it is a flag"
    );
    assert_eq!(
        with("pad %0 {low=[18446744073709551615, 0], high=[1, 0], interior=[0, 0], value=0.0}"),
        "line 3, column 14: pad: axis 0 of [2, 2] grows beyond any memory"
    );
}

#[test]
fn literals() {
    let of = |ty: &str, data: &str| error(&format!("%0: {ty} = constant {data}"));
    assert_eq!(of("f32[]", "x"), "line 2, column 22: expected a number, `true` or `false`, found `x`");
    assert_eq!(of("f32[]", "1.2.3"), "line 2, column 22: expected a number of dtype f32, found `1.2.3`");
    assert_eq!(
        of("f32[]", "nan(0x1)"),
        "line 2, column 22: expected a number of dtype f32, found `nan(0x1)`"
    );
    assert_eq!(of("i32[]", "1.0"), "line 2, column 22: expected a number of dtype i32, found `1.0`");
    assert_eq!(
        of("i32[]", "2147483648"),
        "line 2, column 22: expected a number of dtype i32, found `2147483648`"
    );
    assert_eq!(of("u32[]", "-1"), "line 2, column 22: expected a number of dtype u32, found `-1`");
    assert_eq!(of("u8[]", "256"), "line 2, column 21: expected a number of dtype u8, found `256`");
    assert_eq!(
        of("i64[]", "9223372036854775808"),
        "line 2, column 22: expected a number of dtype i64, found `9223372036854775808`"
    );
    assert_eq!(of("bool[]", "1"), "line 2, column 23: expected a number of dtype bool, found `1`");
    assert_eq!(
        of("f32[3]", "[1.0, 2.0]"),
        "line 2, column 14: a constant of type f32[3] needs 3 elements, got 2"
    );
    assert_eq!(
        of("i32[1]", "hex32 \"1\""),
        "line 2, column 29: expected groups of 8 hexadecimal digits for i32 elements, found \"1\""
    );
    assert_eq!(
        of("u8[1]", "hex32 \"00000100\""),
        "line 2, column 28: expected groups of 8 hexadecimal digits for u8 elements, found \"00000100\""
    );
    assert_eq!(
        of("bool[1]", "hex32 \"00000002\""),
        "line 2, column 30: expected groups of 8 hexadecimal digits for bool elements, found \"00000002\""
    );
    assert_eq!(
        of("i32[1]", "hex64 \"0000000000000001\""),
        "line 2, column 29: expected groups of 16 hexadecimal digits for i32 elements, found \
         \"0000000000000001\""
    );
}

#[test]
fn what_leaves_the_graph() {
    let with = |line: &str| error(&format!("%0: f32[2] = state \"s\" {{init=0.0}}\n{line}"));
    assert_eq!(with("output y %0"), "line 3, column 8: expected the output's name in quotes, found `y`");
    assert_eq!(with("update %0 %0"), "line 3, column 11: expected `<-`, found `%0`");
    assert_eq!(with("update %0 <- %0 {alas}"), "line 3, column 18: update takes no further attribute `alas`");
    assert_eq!(with("guard \"g\" 1"), "line 3, column 11: expected a value such as `%0`, found `1`");
    assert_eq!(
        with("@0 = \"f.rs\":0x:1"),
        "line 3, column 13: expected a line, found 0x, which is not a whole number in range"
    );
    assert_eq!(with("@0 = \"f.rs\":1:1\n@0 = \"g.rs\":1:1"), "line 4, column 1: @0 is defined twice");
    assert_eq!(with("^1() { -> }\n^1() { -> }"), "line 4, column 1: ^1 is defined twice");
    assert_eq!(
        with("^1() { output \"y\" %0 -> }"),
        "line 3, column 8: expected the name of an op, found `output`"
    );
}

#[test]
fn shards_of_states() {
    for (ty, whole) in
        [("f32[2]", "[5]"), ("f32[2, 1]", "[4]"), ("f32[0]", "[4]"), ("f32[2]", "[9223372036854775807, 4]")]
    {
        let message = error(&format!("%0: {ty} = state \"s\" {{init=0.0, whole={whole}}}"));
        assert!(message.contains(&format!("{ty} is not one of equal, flat parts of {whole}")), "{message}");
    }
}
