//! Tokenization of the text form.

use super::error::Position;
use std::fmt;

/// A token of the text form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A value, such as `%3`.
    Value(u32),
    /// A block, such as `^1`.
    Block(u32),
    /// An origin, such as `@0`.
    Origin(u32),
    /// Name of an op, an attribute or a dtype.
    Word(String),
    /// Contents of a quoted string.
    String(String),
    /// Text of a number, not yet validated.
    Number(String),
    /// Punctuation.
    Mark(&'static str),
    /// End of the text.
    End,
    /// Message for characters that form no token. Always the last token.
    Error(String),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Value(n) => write!(f, "`%{n}`"),
            Token::Block(n) => write!(f, "`^{n}`"),
            Token::Origin(n) => write!(f, "`@{n}`"),
            Token::Word(text) | Token::Number(text) => write!(f, "`{text}`"),
            Token::String(text) => write!(f, "the string {text:?}"),
            Token::Mark(mark) => write!(f, "`{mark}`"),
            Token::End => f.write_str("the end of the text"),
            Token::Error(message) => f.write_str(message),
        }
    }
}

/// Punctuation marks, longest first, because the first match is taken.
const MARKS: [&str; 11] = ["<-", "->", "{", "}", "[", "]", "(", ")", ",", ":", "="];

/// Returns all tokens with their positions. Only the last token is [`Token::End`] or [`Token::Error`].
pub(super) fn lex(text: &str) -> Vec<(Token, Position)> {
    let mut lexer = Lexer { rest: text, position: Position { line: 1, column: 1 } };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blanks();
        let position = lexer.position;
        let token = lexer.token().unwrap_or_else(Token::Error);
        let is_last = matches!(token, Token::End | Token::Error(_));
        tokens.push((token, position));
        if is_last {
            return tokens;
        }
    }
}

struct Lexer<'a> {
    rest: &'a str,
    position: Position,
}

impl<'a> Lexer<'a> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = &self.rest[c.len_utf8()..];
        if c == '\n' {
            self.position = Position { line: self.position.line.saturating_add(1), column: 1 };
        } else {
            self.position.column = self.position.column.saturating_add(1);
        }
        Some(c)
    }

    fn bump_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let start = self.rest;
        while self.peek().is_some_and(&accept) {
            self.bump();
        }
        &start[..start.len() - self.rest.len()]
    }

    fn skip_blanks(&mut self) {
        loop {
            self.bump_while(char::is_whitespace);
            if !self.rest.starts_with("//") {
                return;
            }
            self.bump_while(|c| c != '\n');
        }
    }

    fn token(&mut self) -> Result<Token, String> {
        let Some(first) = self.peek() else { return Ok(Token::End) };
        match first {
            '%' => self.numbered(Token::Value),
            '^' => self.numbered(Token::Block),
            '@' => self.numbered(Token::Origin),
            '"' => self.string(),
            c if c.is_ascii_digit() => Ok(self.number()),
            '-' if !self.rest.starts_with("->") => Ok(self.number()),
            c if c.is_ascii_alphabetic() || c == '_' => {
                if ["inf", "nan"].iter().any(|word| self.starts_with_word(word)) {
                    return Ok(self.number());
                }
                Ok(Token::Word(self.bump_while(|c| c.is_ascii_alphanumeric() || c == '_').to_string()))
            }
            c => match MARKS.into_iter().find(|mark| self.rest.starts_with(mark)) {
                Some(mark) => {
                    for _ in mark.chars() {
                        self.bump();
                    }
                    Ok(Token::Mark(mark))
                }
                None => Err(format!("expected a token, found the character {c:?}")),
            },
        }
    }

    fn starts_with_word(&self, word: &str) -> bool {
        let after = self.rest.strip_prefix(word).map(|rest| rest.chars().next());
        after.is_some_and(|next| next.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '_'))
    }

    /// Reads a sigil and a number.
    fn numbered(&mut self, token: impl Fn(u32) -> Token) -> Result<Token, String> {
        let sign = self.bump().unwrap_or_default();
        let digits = self.bump_while(|c| c.is_ascii_digit());
        digits.parse().map(token).map_err(|_| format!("expected a number after `{sign}`, found {digits:?}"))
    }

    /// Reads all characters that can be part of a number, such as `-1.5e-7`, `inf` or
    /// `nan(0x7ff8000000000001)`.
    fn number(&mut self) -> Token {
        let mut number = String::new();
        if self.peek() == Some('-') {
            number.extend(self.bump());
        }
        number += self.bump_while(|c| c.is_ascii_alphanumeric() || c == '.');
        let is_exponent = number.ends_with('e') && matches!(self.peek(), Some('-' | '+'));
        if is_exponent {
            number.extend(self.bump());
            number += self.bump_while(|c| c.is_ascii_digit());
        }
        if number == "nan" && self.peek() == Some('(') {
            number += self.bump_while(|c| c.is_ascii_alphanumeric() || c == '(');
            if self.peek() == Some(')') {
                number.extend(self.bump());
            }
        }
        Token::Number(number)
    }

    fn string(&mut self) -> Result<Token, String> {
        self.bump();
        let mut string = String::new();
        loop {
            match self.bump() {
                Some('"') => return Ok(Token::String(string)),
                Some('\\') => string.push(self.escape()?),
                Some('\n') | None => return Err("expected `\"` at the end of this string".to_string()),
                Some(c) => string.push(c),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        match self.bump() {
            Some(c @ ('"' | '\\')) => Ok(c),
            Some('n') => Ok('\n'),
            Some('u') => {
                let inside = self.bump_while(|c| c == '{' || c.is_ascii_hexdigit());
                let digits = inside.strip_prefix('{').unwrap_or_default();
                let code = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
                match (code, self.bump()) {
                    (Some(c), Some('}')) => Ok(c),
                    _ => Err("expected an escape such as `\\u{1f}` in this string".to_string()),
                }
            }
            _ => Err("expected `\\\"`, `\\\\`, `\\n` or `\\u{..}` in this string".to_string()),
        }
    }
}
