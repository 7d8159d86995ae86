//! Dot and outer products, and contractions over chosen or named axes.

use super::reduce::resolve_axis;
use super::tensor::{emit, fail, refused};
use super::{Axes, Operand, Tensor, op};
use crate::ir::{DotAxes, OpKind, Shape};

impl Tensor {
    /// Computes the dot product of two vectors `[n]`, as a tensor of rank 0.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0], [2]).dot(literal(&[3.0, 4.0], [2]))), [11.0]);
    /// ```
    #[op]
    pub fn dot(self, right: impl Operand) -> Tensor {
        let right = right.tensor(self);
        if self.rank() != 1 || right.rank() != 1 {
            let message = format!("`dot` of {} and {}", self.shape(), right.shape());
            fail("dot", message, "both are vectors; `matmul` multiplies matrices");
            return self.sum();
        }
        self.matmul(right)
    }

    /// Computes the outer product `[m, n]` of vectors `[m]` and `[n]`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// let y = eval(|| literal(&[1.0, 2.0], [2]).outer(literal(&[3.0, 4.0], [2])));
    /// assert_eq!(y, [3.0, 4.0, 6.0, 8.0]);
    /// ```
    #[doc(alias = "ger")]
    #[op]
    pub fn outer(self, right: impl Operand) -> Tensor {
        let right = right.tensor(self);
        if self.rank() != 1 || right.rank() != 1 {
            let message = format!("`outer` of {} and {}", self.shape(), right.shape());
            return refused("outer", message, "both are vectors", self);
        }
        self.unsqueeze(1) * right.unsqueeze(0)
    }

    /// Computes the sum of products over pairs of axes, `left[i]` of `self` and `right[i]` of `other`. The
    /// result has the remaining axes of `self`, then those of `other`. Corresponds to NumPy's `tensordot`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let x = literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]);
    ///     x.tensordot(literal(&[1.0, 2.0, 3.0, 4.0], [2, 2]), [0, 1], [0, 1])
    /// });
    /// assert_eq!(y, [30.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn tensordot(self, other: Tensor, left: impl Axes, right: impl Axes) -> Tensor {
        self.contracted(other, &left.list(), &right.list())
    }

    #[track_caller]
    fn contracted(self, other: Tensor, left: &[isize], right: &[isize]) -> Tensor {
        let (a, b) = (self.shape(), other.shape());
        let mut axes = DotAxes::default();
        for (list, shape, into) in [(left, &a, &mut axes.lhs_contract), (right, &b, &mut axes.rhs_contract)] {
            for &axis in list {
                let Some(at) = resolve_axis("tensordot", axis, shape) else { return self };
                into.push(at);
            }
        }
        let repeats = |list: &[usize]| (1..list.len()).any(|i| list[..i].contains(&list[i]));
        let pairs = left.len() == right.len()
            && axes.lhs_contract.iter().zip(&axes.rhs_contract).all(|(&l, &r)| a[l] == b[r])
            && !repeats(&axes.lhs_contract)
            && !repeats(&axes.rhs_contract);
        if !pairs {
            let message = format!("`tensordot` of {a} along {left:?} and {b} along {right:?}");
            let help = "the axes come in pairs of the same extent, each axis once";
            return refused("tensordot", message, help, self);
        }
        emit(OpKind::Dot(axes), &[self, other], "tensordot")
    }
}

/// Computes a sum of products in Einstein notation, as in `einsum("bqd,bkd->bqk", &[q, k])`. Each operand has
/// one letter for each axis. Axes with the same letter are multiplied elementwise, and letters that are not
/// in the result are summed over. Without `->`, the result has the letters that occur exactly once, in
/// alphabetical order. A letter that occurs twice in one operand selects its diagonal. Operands are
/// multiplied from left to right. Corresponds to NumPy's `einsum`.
///
/// ```
/// # use gradloom_core::{reference::eval, trace::*};
/// assert_eq!(eval(|| einsum("ij->ji", &[literal(&[1.0, 2.0, 3.0, 4.0], [2, 2])])), [1.0, 3.0, 2.0, 4.0]);
/// ```
#[op]
pub fn einsum(spec: &str, operands: &[Tensor]) -> Tensor {
    let parsed = parse(spec, operands);
    let (terms, result) = match parsed {
        Ok(parsed) => parsed,
        Err((message, help)) => {
            let none = super::tensor::placeholder(crate::ir::DType::F32, Shape::scalar());
            return refused("einsum", format!("`einsum` of \"{spec}\": {message}"), help, none);
        }
    };
    let mut rest: Vec<Term> = Vec::with_capacity(terms.len());
    for term in terms {
        rest.push(term.without_repeats());
    }
    rest.reverse();
    let mut left = rest.pop().expect("there is an operand");
    while let Some(right) = rest.pop() {
        let later = |letter: char| result.contains(&letter) || rest.iter().any(|term| term.has(letter));
        left = left.times(right, &later);
    }
    let left = left.reduced(&|letter| result.contains(&letter));
    let order: Vec<isize> = result.iter().map(|&letter| left.axis(letter) as isize).collect();
    left.tensor.permute(order)
}

/// A tensor with one letter for each axis.
struct Term {
    tensor: Tensor,
    letters: Vec<char>,
}

impl Term {
    fn has(&self, letter: char) -> bool {
        self.letters.contains(&letter)
    }

    fn axis(&self, letter: char) -> usize {
        self.letters.iter().position(|&l| l == letter).expect("the letter is there")
    }

    /// Replaces pairs of axes with the same letter by their diagonal.
    #[track_caller]
    fn without_repeats(mut self) -> Self {
        while let Some((first, second)) = self.repeat() {
            let rank = self.letters.len() as isize;
            self.tensor = self.tensor.transpose(second as isize, -1);
            self.letters.swap(second, rank as usize - 1);
            self.tensor = self.tensor.transpose(first as isize, -2).diagonal();
            self.letters.swap(first, rank as usize - 2);
            self.letters.pop();
        }
        self
    }

    /// Returns the first two axes with the same letter, if any.
    fn repeat(&self) -> Option<(usize, usize)> {
        let second = (1..self.letters.len()).find(|&i| self.letters[..i].contains(&self.letters[i]))?;
        Some((self.axis(self.letters[second]), second))
    }

    /// Sums over the axes for whose letter `wanted` returns `false`.
    #[track_caller]
    fn reduced(self, wanted: &dyn Fn(char) -> bool) -> Self {
        let gone: Vec<isize> =
            (0..self.letters.len()).filter(|&i| !wanted(self.letters[i])).map(|i| i as isize).collect();
        let tensor = if gone.is_empty() { self.tensor } else { self.tensor.sum_axes(&gone[..]) };
        Self { tensor, letters: self.letters.into_iter().filter(|&letter| wanted(letter)).collect() }
    }

    /// Multiplies two terms, and sums over the letters for which `later` returns `false`.
    #[track_caller]
    fn times(self, right: Term, later: &dyn Fn(char) -> bool) -> Self {
        // Before the product, sum over the letters that only one factor has and that are not needed later, so
        // that the product is smaller.
        let (letters, others) = (self.letters.clone(), right.letters.clone());
        let left = self.reduced(&|letter| later(letter) || others.contains(&letter));
        let right = right.reduced(&|letter| later(letter) || letters.contains(&letter));
        let shared: Vec<char> = left.letters.iter().copied().filter(|&l| right.has(l)).collect();
        let (batch, contract): (Vec<char>, Vec<char>) = shared.into_iter().partition(|&l| later(l));
        let axes = |term: &Term, letters: &[char]| letters.iter().map(|&l| term.axis(l)).collect::<Vec<_>>();
        let axes = DotAxes {
            lhs_batch: axes(&left, &batch),
            rhs_batch: axes(&right, &batch),
            lhs_contract: axes(&left, &contract),
            rhs_contract: axes(&right, &contract),
        };
        let tensor = left.tensor.dot_general(right.tensor, axes);
        let free =
            |term: Term| term.letters.into_iter().filter(|l| !batch.contains(l) && !contract.contains(l));
        let letters = batch.iter().copied().chain(free(left)).chain(free(right)).collect();
        Self { tensor, letters }
    }
}

/// Error message and help.
type Refusal = (String, &'static str);

/// Returns the operands with their letters, and the letters of the result.
fn parse(spec: &str, operands: &[Tensor]) -> Result<(Vec<Term>, Vec<char>), Refusal> {
    let text: String = spec.chars().filter(|c| !c.is_whitespace()).collect();
    let arrow = text.split_once('-').and_then(|(inputs, rest)| Some((inputs, rest.strip_prefix('>')?)));
    let (inputs, result) = arrow.map_or((&text[..], None), |(inputs, result)| (inputs, Some(result)));
    let lists: Vec<Vec<char>> = inputs.split(',').map(|list| list.chars().collect()).collect();
    if let Some(other) = lists.iter().flatten().find(|c| !c.is_ascii_alphabetic()) {
        return Err((format!("`{other}` is no letter"), "write it as \"ij,jk->ik\""));
    }
    if lists.len() != operands.len() {
        let message = format!("it names {} operands, and there are {}", lists.len(), operands.len());
        return Err((message, "give a list of letters for each operand, with commas between"));
    }
    let mut extents: Vec<(char, usize)> = Vec::new();
    let mut terms = Vec::new();
    for (letters, &tensor) in lists.into_iter().zip(operands) {
        let shape = tensor.shape();
        if letters.len() != shape.rank() {
            let letters: String = letters.iter().collect();
            return Err((format!("\"{letters}\" names a tensor of {shape}"), "give a letter for each axis"));
        }
        for (&letter, &extent) in letters.iter().zip(shape.iter()) {
            match extents.iter().find(|(known, _)| *known == letter) {
                Some(&(_, known)) if known != extent => {
                    let message = format!("`{letter}` is {known} in one place and {extent} in another");
                    return Err((message, "axes with the same letter have the same extent"));
                }
                Some(_) => {}
                None => extents.push((letter, extent)),
            }
        }
        terms.push(Term { tensor, letters });
    }
    let occurs = |letter: char| terms.iter().flat_map(|term| &term.letters).filter(|&&l| l == letter).count();
    let result: Vec<char> = match result {
        Some(result) => result.chars().collect(),
        None => ('A'..='z').filter(|&letter| occurs(letter) == 1).collect(),
    };
    for (i, &letter) in result.iter().enumerate() {
        if occurs(letter) == 0 || result[..i].contains(&letter) {
            let message = format!("the result names `{letter}`, which is in no operand, or named twice");
            return Err((message, "the result has letters of the operands, each once"));
        }
    }
    Ok((terms, result))
}
