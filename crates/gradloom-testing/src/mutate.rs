//! Damages the bytes of files.

use crate::Random;

/// Returns the bytes with one to three changes that begin within the first `reach` bytes: a changed bit, byte
/// or digit, a range that is removed or duplicated, or a truncation.
pub fn mutated(bytes: &[u8], reach: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + random.below(3) {
        let reach = reach.min(bytes.len());
        if reach == 0 {
            break;
        }
        let at = random.below(reach);
        let end = (at + 1 + random.below(20)).min(bytes.len());
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.below(256) as u8,
            2 => {
                let digit = bytes[at..reach].iter().position(u8::is_ascii_digit);
                bytes[at + digit.unwrap_or(0)] = b'9';
            }
            3 => drop(bytes.drain(at..end)),
            4 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => bytes.truncate(at),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_reach_stays() {
        let sound: Vec<u8> = (0..=255).collect();
        let mut random = Random(1);
        let (mut shorter, mut longer, mut same) = (0, 0, 0);
        for _ in 0..1000 {
            let mutated = mutated(&sound, 10, &mut random);
            match mutated.len().cmp(&sound.len()) {
                std::cmp::Ordering::Less => shorter += 1,
                std::cmp::Ordering::Greater => longer += 1,
                std::cmp::Ordering::Equal => same += 1,
            }
            assert!(mutated.len() < 40 || mutated.ends_with(&sound[100..]), "{mutated:?}");
        }
        assert!(shorter.min(longer).min(same) > 50, "{shorter} {longer} {same}");
        assert_eq!(super::mutated(&[], 10, &mut random), [0; 0]);
    }
}
