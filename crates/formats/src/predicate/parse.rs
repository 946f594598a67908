//! Text to condition.

use super::{Compare, Literal, Node};
use haul_model::{Error, ErrorKind, Result};

/// Nesting deeper than this is refused, so that no input can exhaust the stack.
const DEEPEST: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// A bare word, as written.
    Word(String),
    /// A name in double quotes.
    Name(String),
    Value(Literal),
    Sign(&'static str),
    End,
}

pub(super) fn parse(text: &str) -> Result<Node> {
    let mut parser = Parser { text, at: 0, token: Token::End, from: 0, depth: 0 };
    parser.advance()?;
    let node = parser.any()?;
    match parser.token {
        Token::End => Ok(node),
        _ => Err(parser.expected("and, or, or the end")),
    }
}

struct Parser<'a> {
    text: &'a str,
    /// Behind the token in hand.
    at: usize,
    token: Token,
    /// Where the token in hand starts.
    from: usize,
    depth: usize,
}

const SIGNS: [&str; 11] = ["<=", ">=", "<>", "!=", "==", "=", "<", ">", "(", ")", ","];

impl Parser<'_> {
    fn expected(&self, what: &str) -> Error {
        let found = match &self.text[self.from..self.at] {
            "" => "the end".to_string(),
            found => format!("{found:?}"),
        };
        let place = self.text[..self.from].chars().count() + 1;
        Error::new(ErrorKind::Config, format!("the condition cannot be read: {what} expected at character {place}, not {found}"))
            .hint("for example: \"status = 'open' and amount >= 10.5\"; text in single quotes, odd column names in double quotes")
    }

    fn advance(&mut self) -> Result<()> {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start();
        self.from = self.at + rest.len() - trimmed.len();
        self.at = self.from;
        let Some(first) = trimmed.chars().next() else {
            self.token = Token::End;
            return Ok(());
        };
        let (token, length) = match first {
            '\'' => {
                let (text, length) = self.quoted(trimmed, '\'')?;
                (Token::Value(Literal::Text(text)), length)
            }
            '"' => {
                let (text, length) = self.quoted(trimmed, '"')?;
                (Token::Name(text), length)
            }
            c if c.is_ascii_digit() || "+-.".contains(c) => {
                let digits = |c: char| c.is_ascii_alphanumeric() || c == '.';
                let mut length = 1 + trimmed[1..].find(|c: char| !digits(c)).unwrap_or(trimmed.len() - 1);
                // The sign of an exponent.
                if trimmed[..length].ends_with(['e', 'E']) && trimmed[length..].starts_with(['+', '-']) {
                    length += 1 + trimmed[length + 1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len() - length - 1);
                }
                (Token::Value(Literal::Number(trimmed[..length].to_string())), length)
            }
            c if c.is_alphabetic() || c == '_' => {
                let length = trimmed.find(|c: char| !(c.is_alphanumeric() || "_$.".contains(c))).unwrap_or(trimmed.len());
                (word(&trimmed[..length]), length)
            }
            _ => match SIGNS.iter().find(|sign| trimmed.starts_with(**sign)) {
                Some(sign) => (Token::Sign(sign), sign.len()),
                None => {
                    self.at += first.len_utf8();
                    return Err(self.expected("a column, a value or a comparison"));
                }
            },
        };
        self.token = token;
        self.at = self.from + length;
        Ok(())
    }

    /// Text up to the closing quote (two of them stand for one), and its length with quotes.
    fn quoted(&mut self, text: &str, quote: char) -> Result<(String, usize)> {
        let mut out = String::new();
        let mut chars = text.char_indices().skip(1).peekable();
        while let Some((index, c)) = chars.next() {
            if c != quote {
                out.push(c);
            } else if chars.next_if(|(_, next)| *next == quote).is_some() {
                out.push(quote);
            } else {
                return Ok((out, index + 1));
            }
        }
        self.at = self.from + text.len();
        Err(self.expected("a closing quote"))
    }

    fn any(&mut self) -> Result<Node> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.expected("less nesting"));
        }
        let mut nodes = vec![self.all()?];
        while self.take_word("or")? {
            nodes.push(self.all()?);
        }
        self.depth -= 1;
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::Any(nodes) })
    }

    fn all(&mut self) -> Result<Node> {
        let mut nodes = vec![self.one()?];
        while self.take_word("and")? {
            nodes.push(self.one()?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::All(nodes) })
    }

    fn one(&mut self) -> Result<Node> {
        let mut negated = false;
        while self.take_word("not")? {
            negated = !negated;
        }
        let node = if self.take_sign("(")? {
            let node = self.any()?;
            if !self.take_sign(")")? {
                return Err(self.expected("a closing parenthesis"));
            }
            node
        } else {
            self.comparison()?
        };
        Ok(if negated { node.not() } else { node })
    }

    fn comparison(&mut self) -> Result<Node> {
        let column = match std::mem::replace(&mut self.token, Token::End) {
            Token::Word(name) | Token::Name(name) => name,
            _ => return Err(self.expected("a column")),
        };
        self.advance()?;
        if self.take_word("is")? {
            let not = self.take_word("not")?;
            return if self.take_word("null")? { Ok(Node::Null(column, !not)) } else { Err(self.expected("null")) };
        }
        let negated = self.take_word("not")?;
        let node = if self.take_word("in")? {
            self.list(&column)?
        } else if self.take_word("between")? {
            let low = self.value()?;
            if !self.take_word("and")? {
                return Err(self.expected("and"));
            }
            let high = self.value()?;
            Node::All(vec![Node::Compare(column.clone(), Compare::AtLeast, low), Node::Compare(column, Compare::AtMost, high)])
        } else if negated {
            return Err(self.expected("in or between"));
        } else {
            let compare = self.compare()?;
            Node::Compare(column, compare, self.value()?)
        };
        Ok(if negated { node.not() } else { node })
    }

    fn list(&mut self, column: &str) -> Result<Node> {
        if !self.take_sign("(")? {
            return Err(self.expected("a list in parentheses"));
        }
        let mut nodes = Vec::new();
        loop {
            nodes.push(Node::Compare(column.to_string(), Compare::Equal, self.value()?));
            if self.take_sign(")")? {
                return Ok(Node::Any(nodes));
            }
            if !self.take_sign(",")? {
                return Err(self.expected("a comma or a closing parenthesis"));
            }
        }
    }

    fn compare(&mut self) -> Result<Compare> {
        let compare = match self.token {
            Token::Sign("=" | "==") => Compare::Equal,
            Token::Sign("<>" | "!=") => Compare::Other,
            Token::Sign("<") => Compare::Less,
            Token::Sign("<=") => Compare::AtMost,
            Token::Sign(">") => Compare::Greater,
            Token::Sign(">=") => Compare::AtLeast,
            _ => return Err(self.expected("a comparison (= <> < <= > >=), in, between or is null")),
        };
        self.advance()?;
        Ok(compare)
    }

    fn value(&mut self) -> Result<Literal> {
        let Token::Value(literal) = self.token.clone() else { return Err(self.expected("a value")) };
        self.advance()?;
        Ok(literal)
    }

    fn take_word(&mut self, word: &str) -> Result<bool> {
        let is = matches!(&self.token, Token::Word(found) if found.eq_ignore_ascii_case(word));
        if is {
            self.advance()?;
        }
        Ok(is)
    }

    fn take_sign(&mut self, sign: &str) -> Result<bool> {
        let is = matches!(self.token, Token::Sign(found) if found == sign);
        if is {
            self.advance()?;
        }
        Ok(is)
    }
}

fn word(text: &str) -> Token {
    match text.to_ascii_lowercase().as_str() {
        "true" => Token::Value(Literal::Bool(true)),
        "false" => Token::Value(Literal::Bool(false)),
        // `date '2024-01-01'` and the like would need a look ahead; a plain '2024-01-01' says the same.
        _ => Token::Word(text.to_string()),
    }
}
