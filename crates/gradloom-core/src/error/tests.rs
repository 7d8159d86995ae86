//! Tests of the printed text.

use super::*;

fn origin(line: u32, column: u32) -> Origin {
    Origin { file: "src/model.rs".to_string(), line, column }
}

/// Returns the text of an error whose source line is `line`.
fn print(error: &Error, line: Option<&str>) -> String {
    let mut text = String::new();
    render::render(&mut text, &error.0, |_| line.map(str::to_string)).expect("a string takes any text");
    text
}

fn matmul() -> Error {
    Error::new(ErrorKind::Trace, "matmul needs equal inner extents, but they are 64 and 32")
        .at(origin(41, 21), "matmul")
        .note("the left side is f32[8, 64], the right side is f32[32, 10]")
        .help("transpose the weight, or change its first extent to 64")
}

#[test]
fn with_its_source_line() {
    assert_eq!(
        print(&matmul(), Some("        self.hidden.matmul(weight)")),
        "\
matmul needs equal inner extents, but they are 64 and 32
  --> src/model.rs:41:21
   |
41 |         self.hidden.matmul(weight)
   |                     ^^^^^^
   |
   = note: the left side is f32[8, 64], the right side is f32[32, 10]
   = help: transpose the weight, or change its first extent to 64"
    );
}

#[test]
fn without_its_source_line() {
    let expected = "\
matmul needs equal inner extents, but they are 64 and 32
  --> src/model.rs:41:21
   |
   = note: the left side is f32[8, 64], the right side is f32[32, 10]
   = help: transpose the weight, or change its first extent to 64";
    assert_eq!(print(&matmul(), None), expected);
    // A line shorter than the column, as in a file that has changed since compilation.
    assert_eq!(print(&matmul(), Some("}")), expected);
}

#[test]
fn without_a_place() {
    let error = Error::new(ErrorKind::Store, "no parameter is called `h.0.weight`");
    assert_eq!(print(&error, None), "no parameter is called `h.0.weight`");
    assert_eq!(
        print(&error.help("did you mean `h.0.attn.weight`?"), None),
        "\
no parameter is called `h.0.weight`
  |
  = help: did you mean `h.0.attn.weight`?"
    );
}

#[test]
fn an_operator_in_an_expression() {
    let error = Error::new(ErrorKind::Trace, "cannot add f32[8, 10] and f32[8]").at(origin(7, 9), "+");
    assert_eq!(
        print(&error, Some("\tlet y = scale(x + 1) + bias;")),
        "\
cannot add f32[8, 10] and f32[8]
 --> src/model.rs:7:9
  |
7 |     let y = scale(x + 1) + bias;
  |                          ^"
    );
}

#[test]
fn the_gutter_grows_with_the_line_number() {
    let error = Error::new(ErrorKind::Trace, "wrong").at(origin(12345, 1), "f").note("a");
    assert_eq!(
        print(&error, Some("f(x)")),
        "\
wrong
     --> src/model.rs:12345:1
      |
12345 | f(x)
      | ^
      |
      = note: a"
    );
}

#[test]
fn further_lines_stand_below_the_first() {
    let error =
        Error::new(ErrorKind::MissingGradient, "no gradient for\nhead.weight").note("a\n\nb").help("c\nd");
    assert_eq!(
        error.to_string(),
        "\
error: no gradient for
       head.weight
  |
  = note: a

          b
  = help: c
          d"
    );
}

#[test]
fn the_source_line_is_read_from_the_file() {
    #[track_caller]
    fn fail() -> Error {
        Error::new(ErrorKind::Trace, "wrong").at(Origin::caller(), "fail")
    }
    let (line, error) = (line!(), fail());
    let gutter = " ".repeat(line.to_string().len());
    assert_eq!(
        error.to_string(),
        format!(
            "\
error: wrong
{gutter}--> {}:{line}:35
{gutter} |
{line} |     let (line, error) = (line!(), fail());
{gutter} |                                   ^^^^",
            file!()
        )
    );
}

#[test]
fn debug_is_for_people_and_alternate_debug_shows_the_fields() {
    let error =
        Error::new(ErrorKind::NotFinite { step: 3 }, "the loss is not a number").help("lower the rate");
    // `main` prints `Error: ` before this text.
    assert_eq!(format!("{error:?}"), "the loss is not a number\n  |\n  = help: lower the rate");
    assert!(format!("{error:#?}").contains("step: 3"));
}

#[test]
fn the_fields_can_be_read_back() {
    let error = matmul().note("second").clone();
    assert_eq!(error.kind(), ErrorKind::Trace);
    assert_eq!(error.message(), "matmul needs equal inner extents, but they are 64 and 32");
    assert_eq!(error.origin(), Some(&origin(41, 21)));
    assert_eq!(error.notes().last(), Some("second"));
    assert_eq!(error.notes().count(), 2);
    assert_eq!(
        error.remedies().collect::<Vec<_>>(),
        ["transpose the weight, or change its first extent to 64"]
    );
}

#[test]
fn errors_are_small_and_cross_threads() {
    fn shareable<T: std::error::Error + Clone + Send + Sync + 'static>() {}
    shareable::<Error>();
    assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
}
