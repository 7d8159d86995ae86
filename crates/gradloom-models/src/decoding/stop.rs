//! Detection of stop strings in generated text.
//!
//! In: the bytes of tokens as they are generated. Out: text that can be shown. Invariant: the text
//! returned so far contains no stop string and no prefix of one that further bytes could complete; the
//! concatenated pieces are the text before the first stop string, however the bytes were split.

use super::Utf8Stream;

/// Searches for stop strings in text that arrives in pieces.
#[derive(Clone, Debug, Default)]
pub struct StopStream {
    stops: Vec<String>,
    bytes: Utf8Stream,
    /// Characters that may be the beginning of a stop string.
    held: String,
    found: Option<usize>,
}

impl StopStream {
    /// Creates a stream that ends before the first of the stop strings. Empty strings are ignored.
    pub fn new(stops: &[impl AsRef<str>]) -> Self {
        let stops = stops.iter().map(|stop| stop.as_ref().to_string()).collect();
        Self { stops, ..Self::default() }
    }

    /// Appends the bytes of a token and returns the text that can no longer be part of a stop string. Bytes
    /// after a stop string are ignored.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        if self.found.is_some() {
            return String::new();
        }
        let text = self.bytes.push(bytes);
        self.take(&text)
    }

    /// Returns the index of the stop string that ended the text, if one did.
    pub fn stopped(&self) -> Option<usize> {
        self.found
    }

    /// Returns the remaining text. Call it after the last token.
    pub fn finish(&mut self) -> String {
        if self.found.is_some() {
            return String::new();
        }
        let end = std::mem::take(&mut self.bytes).finish();
        let mut text = self.take(&end);
        if self.found.is_none() {
            text.push_str(&std::mem::take(&mut self.held));
        }
        text
    }

    /// Appends characters and returns those that can be shown.
    fn take(&mut self, text: &str) -> String {
        self.held.push_str(text);
        let stops = || self.stops.iter().enumerate().filter(|(_, stop)| !stop.is_empty());
        // The stop string that is completed first ends the text; of several, the longest, which begins first.
        let found = stops()
            .filter_map(|(i, stop)| self.held.find(stop.as_str()).map(|start| (start + stop.len(), start, i)))
            .min();
        if let Some((_, start, stop)) = found {
            self.found = Some(stop);
            self.held.truncate(start);
            return std::mem::take(&mut self.held);
        }
        let could_stop = |start: &usize| {
            let end = &self.held[*start..];
            stops().any(|(_, stop)| stop.starts_with(end))
        };
        let starts = self.held.char_indices().map(|(start, _)| start);
        let longest = stops().map(|(_, stop)| stop.len()).max().unwrap_or(0);
        let kept = starts
            .filter(|start| self.held.len() - start < longest)
            .find(could_stop)
            .unwrap_or(self.held.len());
        self.held.drain(..kept).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text before the stop string that is completed first, checking after every character.
    fn reference(text: &str, stops: &[&str]) -> (String, Option<usize>) {
        for (at, c) in text.char_indices() {
            let seen = &text[..at + c.len_utf8()];
            let ending = (0..stops.len()).filter(|&i| !stops[i].is_empty() && seen.ends_with(stops[i]));
            if let Some(stop) = ending.min_by_key(|&i| (seen.len() - stops[i].len(), i)) {
                return (seen[..seen.len() - stops[stop].len()].to_string(), Some(stop));
            }
        }
        (text.to_string(), None)
    }

    #[test]
    fn every_cut_of_the_bytes_gives_the_same_text() {
        let stops: [&[&str]; 6] =
            [&[], &["", "END"], &["ab", "abc"], &["bab"], &["b", "aab", "aab"], &["文\n", "🧵"]];
        let texts = ["", "aaabab", "abcab", "xEENDy", "bbabab", "a文b文\n🧵", "🧵", "EN"];
        for stops in stops {
            for text in texts {
                let want = reference(text, stops);
                let bytes = text.as_bytes();
                for size in 1..=bytes.len().max(1) {
                    for first in 0..size {
                        let mut stream = StopStream::new(stops);
                        let (head, tail) = bytes.split_at(first.min(bytes.len()));
                        let mut got = stream.push(head);
                        tail.chunks(size).for_each(|piece| got.push_str(&stream.push(piece)));
                        got.push_str(&stream.finish());
                        assert_eq!((got, stream.stopped()), want, "{text:?} {stops:?} {first} {size}");
                        assert_eq!(stream.finish(), "");
                    }
                }
            }
        }
    }

    #[test]
    fn only_what_could_become_a_stop_is_held_back() {
        let mut stream = StopStream::new(&["\n\nUser:", "<end>"]);
        assert_eq!(stream.push(b"a <"), "a ");
        assert_eq!(stream.push(b"b\n"), "<b");
        assert_eq!(stream.push(b"\n"), "");
        assert_eq!(stream.push(b"\nUse"), "\n");
        assert_eq!(stream.push(b"d<en"), "\n\nUsed");
        assert_eq!(stream.stopped(), None);
        assert_eq!(stream.push(b"d> more"), "");
        assert_eq!(stream.stopped(), Some(1));
        assert_eq!(stream.push(b"more"), "");
        assert_eq!(stream.finish(), "");
    }

    #[test]
    fn what_is_held_at_the_end_is_text() {
        let mut stream = StopStream::new(&["END"]);
        assert_eq!(stream.push(b"the EN\xe6\x96"), "the ");
        assert_eq!(stream.finish(), "EN\u{fffd}");
        assert_eq!(stream.stopped(), None);
    }
}
