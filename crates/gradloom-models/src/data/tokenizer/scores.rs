//! Merges of a vocabulary with scores.
//!
//! In: tokens and scores. Out: pairs of tokens in merge order. Invariant: time and memory are linear in
//! the bytes of the tokens. Vocabularies whose merges need more text than that, such as one with all
//! repetitions of a letter up to a thousand, are rejected.

/// Proportional part of the limit on the total size of the merges, in bytes per byte of the tokens.
const MOST_FOR_A_BYTE: usize = 16;
/// Constant part of the limit on the total size of the merges, in bytes.
const MOST_FOR_FEW: usize = 16 << 20;

/// Returns all pairs of tokens that together spell a token, in the order in which SentencePiece merges them:
/// by descending score, then by descending length of the left token (Kudo and Richardson, 2018). Tokens must
/// be distinct.
///
/// # Errors
/// Returns an error if the merges, written out, are far longer than the tokens.
pub(super) fn merges<'t>(tokens: &'t [String], scores: &[f32]) -> Result<Vec<(&'t str, &'t str)>, String> {
    let (mut found, _) = splits(tokens);
    let bytes = |id: usize| tokens[id].len();
    let written: usize = found.iter().map(|split| bytes(split.made)).sum();
    let all: usize = tokens.iter().map(String::len).sum();
    let most = MOST_FOR_FEW + MOST_FOR_A_BYTE * all;
    if written > most {
        return Err(format!(
            "its tokens can be made of each other in {} ways, which take {written} bytes: {most} is the limit",
            found.len()
        ));
    }
    found.sort_by(|a, b| scores[b.made].total_cmp(&scores[a.made]).then(bytes(b.left).cmp(&bytes(a.left))));
    Ok(found.iter().map(|split| (&*tokens[split.left], &*tokens[split.right])).collect())
}

/// A token and the two tokens that it is composed of.
#[derive(Debug, PartialEq)]
struct Split {
    made: usize,
    left: usize,
    right: usize,
}

/// Returns all pairs of tokens that compose another one, by token and then by descending length of the left
/// one, and the number of steps needed.
fn splits(tokens: &[String]) -> (Vec<Split>, usize) {
    let forward: Vec<Vec<u8>> = tokens.iter().map(|token| token.clone().into_bytes()).collect();
    let backward: Vec<Vec<u8>> = tokens.iter().map(|token| token.bytes().rev().collect()).collect();
    let (before, behind) = (beginnings(&forward), beginnings(&backward));
    let (mut found, mut steps) = (Vec::new(), 0);
    for (id, token) in tokens.iter().enumerate() {
        let chain = |of: &[Option<usize>]| -> Vec<usize> {
            std::iter::successors(of[id], |&shorter| of[shorter]).collect()
        };
        // Both lists are in descending length, so the matching right token is searched from the shortest on.
        let (lefts, mut rights) = (chain(&before), chain(&behind));
        steps += lefts.len() + rights.len();
        let from = found.len();
        for left in lefts {
            let rest = token.len() - tokens[left].len();
            while rights.last().is_some_and(|&right| tokens[right].len() < rest) {
                rights.pop();
            }
            found.extend(rights.last().filter(|&&right| tokens[right].len() == rest).map(|&right| Split {
                made: id,
                left,
                right,
            }));
        }
        found[from..].reverse();
    }
    (found, steps)
}

/// Returns, for each string, the longest other string that is a non-empty prefix of it.
fn beginnings(strings: &[Vec<u8>]) -> Vec<Option<usize>> {
    let mut order: Vec<usize> = (0..strings.len()).filter(|&id| !strings[id].is_empty()).collect();
    order.sort_unstable_by(|&a, &b| strings[a].cmp(&strings[b]));
    let (mut found, mut open) = (vec![None; strings.len()], Vec::<usize>::new());
    for id in order {
        while open.last().is_some_and(|&shorter| !strings[id].starts_with(&strings[shorter])) {
            open.pop();
        }
        found[id] = open.last().copied();
        open.push(id);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(tokens: &[&str]) -> Vec<String> {
        tokens.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_way_to_make_a_token_is_found() {
        let mut tokens = vec![String::new()];
        for length in 1..5 {
            for number in 0..(1 << length) {
                let letter = |at: usize| if number >> at & 1 == 1 { 'ä' } else { 'b' };
                if number % 3 > 0 || length < 2 {
                    tokens.push((0..length).map(letter).collect());
                }
            }
        }
        let mut wanted = Vec::new();
        for (made, token) in tokens.iter().enumerate() {
            for (at, _) in token.char_indices().skip(1) {
                let id = |part: &str| tokens.iter().position(|token| token == part);
                let parts = id(&token[..at]).zip(id(&token[at..]));
                wanted.extend(parts.map(|(left, right)| Split { made, left, right }));
            }
        }
        assert!(wanted.len() > 20, "{wanted:?}");
        assert_eq!(splits(&tokens).0, wanted);
    }

    #[test]
    fn the_highest_score_merges_first() {
        let tokens = texts(&["a", "b", "ab", "aba", "ba"]);
        let merges = merges(&tokens, &[0.0, 0.0, -2.0, -3.0, -1.0]).unwrap();
        assert_eq!(merges, [("b", "a"), ("a", "b"), ("ab", "a"), ("a", "ba")]);
    }

    /// Checks that the steps are at most twice the bytes, even if every token is a prefix of all longer ones.
    #[test]
    fn steps_grow_with_the_bytes() {
        let ladder = |height: usize| (1..=height).map(|length| "a".repeat(length)).collect::<Vec<_>>();
        let long = |length: usize| [texts(&["a", "b"]), vec!["ab".repeat(length)]].concat();
        for tokens in [ladder(300), ladder(600), long(50_000), long(400_000)] {
            let bytes: usize = tokens.iter().map(String::len).sum();
            let (found, steps) = splits(&tokens);
            assert!(steps <= 2 * bytes && found.len() <= bytes, "{steps} steps for {bytes} bytes");
        }
        let error = merges(&ladder(1900), &vec![0.0; 1900]).unwrap_err();
        assert!(error.ends_with(" bytes: 45672416 is the limit"), "{error}");
    }
}
