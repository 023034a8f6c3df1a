//! The little languages in arguments: sed scripts and awk programs.

/// What a program does besides transforming its input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    Executes,
    /// Writes this file, as far as it is known.
    Writes(String),
    /// Reads another file.
    Reads(String),
    Unknown,
}

/// Looks through a sed script (GNU). The first effect that is not `None` or `Reads` is returned.
pub(super) fn sed(script: &str) -> Effect {
    let mut reader = Reader::new(script);
    let mut effect = Effect::None;
    loop {
        reader.skip(" \t\n;{}");
        let Some(c) = reader.peek() else { return effect };
        if c == '#' {
            reader.rest_of_line();
            continue;
        }
        if !sed_addresses(&mut reader) {
            return Effect::Unknown;
        }
        let Some(command) = reader.next() else {
            return Effect::Unknown;
        };
        match command {
            's' => match sed_substitute(&mut reader) {
                Effect::None => {}
                other => return other,
            },
            'y' => {
                let Some(delimiter) = reader.next() else {
                    return Effect::Unknown;
                };
                // Its characters are no pattern: a bracket stands for itself.
                if !(reader.until(delimiter, false) && reader.until(delimiter, false)) {
                    return Effect::Unknown;
                }
            }
            'e' => return Effect::Executes,
            'w' | 'W' => return Effect::Writes(reader.rest_of_line().trim().to_owned()),
            'r' | 'R' => effect = Effect::Reads(reader.rest_of_line().trim().to_owned()),
            'a' | 'i' | 'c' => while reader.rest_of_line().ends_with('\\') && reader.peek().is_some() {},
            ':' | 'b' | 't' | 'T' | 'q' | 'Q' | 'l' | 'L' => reader.until_any(";\n}"),
            'p' | 'P' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'x' | '=' | 'z' | 'F' | '}' | '{' => {
            }
            _ => return Effect::Unknown,
        }
    }
}

/// True for a sed script of nothing but `p` with addresses and `s` with plain flags.
pub(super) fn sed_shows(script: &str) -> bool {
    let mut reader = Reader::new(script);
    loop {
        reader.skip(" \t\n;");
        if reader.peek().is_none() {
            return true;
        }
        if !sed_addresses(&mut reader) {
            return false;
        }
        match reader.next() {
            Some('p') => {}
            Some('s') if sed_substitute(&mut reader) == Effect::None => {}
            _ => return false,
        }
    }
}

fn sed_addresses(reader: &mut Reader<'_>) -> bool {
    loop {
        reader.skip(" \t,!+~$0123456789");
        match reader.peek() {
            Some('/') => {
                reader.next();
                if !reader.until('/', true) {
                    return false;
                }
            }
            Some('\\') => {
                reader.next();
                let Some(delimiter) = reader.next() else {
                    return false;
                };
                if !reader.until(delimiter, true) {
                    return false;
                }
            }
            Some(_) => break,
            None => return false,
        }
        reader.skip("IM");
    }
    true
}

fn sed_substitute(reader: &mut Reader<'_>) -> Effect {
    let Some(delimiter) = reader.next() else {
        return Effect::Unknown;
    };
    if !(reader.until(delimiter, true) && reader.until(delimiter, false)) {
        return Effect::Unknown;
    }
    while let Some(flag) = reader.peek() {
        match flag {
            'e' => return Effect::Executes,
            'w' => {
                reader.next();
                return Effect::Writes(reader.rest_of_line().trim().to_owned());
            }
            ';' | '\n' | '}' | ' ' => return Effect::None,
            _ => {
                reader.next();
            }
        }
    }
    Effect::None
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    /// The part of the whole text that was passed.
    fn before<'b>(&self, whole: &'b str) -> &'b str {
        &whole[..whole.len() - self.rest.len()]
    }

    fn skip(&mut self, set: &str) {
        self.rest = self.rest.trim_start_matches(|c| set.contains(c));
    }

    /// Passes `delimiter`, escapes and bracket expressions respected.
    fn until(&mut self, delimiter: char, brackets: bool) -> bool {
        while let Some(c) = self.next() {
            if c == '\\' {
                self.next();
            } else if c == delimiter {
                return true;
            } else if c == '[' && brackets {
                self.bracket();
            }
        }
        false
    }

    fn bracket(&mut self) {
        let body = self.rest.strip_prefix('^').unwrap_or(self.rest);
        let search = body.get(1..).and_then(|tail| tail.find(']'));
        if let Some(end) = search {
            self.rest = &body[1 + end + 1..];
        }
    }

    fn rest_of_line(&mut self) -> &'a str {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest.strip_prefix('\n').unwrap_or(rest);
        line
    }

    fn until_any(&mut self, set: &str) {
        let end = self.rest.find(|c| set.contains(c)).unwrap_or(self.rest.len());
        self.rest = &self.rest[end..];
    }
}

/// Looks through an awk program. Strings and regular expressions are data; `>` is output only
/// inside a `print` statement and outside its parentheses.
pub(super) fn awk(program: &str) -> Effect {
    let mut reader = Reader::new(program);
    let mut printing = false;
    let mut depth = 0_usize;
    let mut operand_before = false;
    // Whether this `/` divides or opens a regular expression cannot be told from what precedes it.
    let mut unclear = false;
    while let Some(c) = reader.peek() {
        match c {
            '/' if unclear => {
                let bare = program.replace("||", "").replace(">=", "");
                let acts = bare.contains(['|', '>', '@']);
                let acts = acts || ["system", "getline"].iter().any(|name| program.contains(name));
                return if acts { Effect::Unknown } else { Effect::None };
            }
            '"' => {
                reader.next();
                reader.until('"', false);
                operand_before = true;
            }
            '#' => {
                reader.rest_of_line();
                printing = false;
            }
            '/' if !operand_before => {
                reader.next();
                if !reader.until('/', true) {
                    return Effect::Unknown;
                }
                operand_before = true;
            }
            '|' if reader.rest.starts_with("||") => {
                reader.next();
                reader.next();
                operand_before = false;
            }
            '|' | '@' => return Effect::Executes,
            '>' if printing && depth == 0 => {
                reader.skip("> ");
                if reader.rest.starts_with("\"/dev/stderr\"") || reader.rest.starts_with("\"/dev/stdout\"") {
                    continue;
                }
                let name = reader
                    .rest
                    .strip_prefix('"')
                    .and_then(|rest| rest.split('"').next());
                return Effect::Writes(name.unwrap_or("").to_owned());
            }
            _ if c.is_alphabetic() || c == '_' => {
                let end = reader
                    .rest
                    .find(|c: char| !c.is_alphanumeric() && c != '_')
                    .unwrap_or(reader.rest.len());
                let word = &reader.rest[..end];
                reader.rest = &reader.rest[end..];
                match word {
                    "system" => return Effect::Executes,
                    "print" | "printf" => printing = true,
                    _ => {}
                }
                operand_before = !matches!(word, "print" | "printf" | "return" | "in" | "getline");
                unclear = matches!(word, "else" | "do" | "case" | "exit");
                continue;
            }
            _ => {
                reader.next();
                match c {
                    '(' => depth += 1,
                    ')' => depth = depth.saturating_sub(1),
                    ';' | '\n' | '{' | '}' => (printing, depth) = (false, 0),
                    _ => {}
                }
                if c == '\n' {
                    (operand_before, unclear) = (false, false);
                }
                if !c.is_whitespace() {
                    operand_before = c.is_alphanumeric() || ")]$".contains(c);
                    let twice =
                        matches!(c, '+' | '-') && reader.before(program).ends_with(&format!("{c}{c}"));
                    unclear = matches!(c, ')' | '$') || twice;
                    continue;
                }
            }
        }
        unclear &= c.is_whitespace();
    }
    Effect::None
}

/// True where `>` stands outside strings and regular expressions, and is not `>=`. A program with a
/// regular expression or division in it is looked at as text.
pub(super) fn awk_compares(program: &str) -> bool {
    let mut reader = Reader::new(program);
    let strings = !program.contains('/');
    while let Some(c) = reader.next() {
        match c {
            '"' if strings => {
                reader.until('"', false);
            }
            '>' if reader.peek() != Some('=') => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sed_effects() {
        for clean in [
            "s/a/b/g",
            "1,5p",
            "/x/d",
            "s|/usr|/opt|",
            "$!N;s/\\n/ /",
            "s/[/]/w/",
            "/foo/,/bar/{s/e/w/;p}",
            "a\\\nwords",
            "s/e$/x/2p",
            "1i hello",
            "y/abc/xyz/",
            ":a;N;$!ba;s/\\n/,/g",
            "/^#/!s/x/y/I",
            "s/we/ew/",
            "\\,x,d",
            "$d",
            "10q",
        ] {
            assert_eq!(sed(clean), Effect::None, "{clean}");
        }
        for runs in ["1e id", "s/x/id/e", "s/x/y/ge", "e", "p;e ls", "/x/e", "$e"] {
            assert_eq!(sed(runs), Effect::Executes, "{runs}");
        }
        assert_eq!(sed("w out"), Effect::Writes("out".into()));
        assert_eq!(sed("s/a/b/w ../out"), Effect::Writes("../out".into()));
        assert_eq!(sed("/x/r other"), Effect::Reads("other".into()));
        assert_eq!(sed("y/[/e/;1e id;#]/x/"), Effect::Executes);
        assert_eq!(sed("s/a"), Effect::Unknown);
    }

    #[test]
    fn awk_effects() {
        for clean in [
            "$3 > 5 { print $1 }",
            "{print $1}",
            "/a|b/ {n++} END {print n}",
            "{ if ($1 > 2 || $2) print \"a > b | c\" }",
            "{ print ($1 > 2) }",
            "BEGIN{FS=\"|\"} {print $2/$3}",
            "{print > \"/dev/stderr\"}",
        ] {
            assert_eq!(awk(clean), Effect::None, "{clean}");
        }
        for runs in [
            "{ print | \"sh\" }",
            "BEGIN{system(\"id\")}",
            "{\"id\" | getline x}",
            "@load \"x\"",
        ] {
            assert_eq!(awk(runs), Effect::Executes, "{runs}");
        }
        for unclear in [
            "{ if (1) /\"/; print > \"out\"; z = \"\" }",
            "{ x++ /2; print > \"f\"; y = 1/ 2 }",
            "{ if (1) x; else /\"/; \"id\" | getline; z = \"\" }",
        ] {
            assert_eq!(awk(unclear), Effect::Unknown, "{unclear}");
        }
        assert_eq!(awk("{ x = 1\n/\"/; print > \"f\" }"), Effect::Writes("f".into()));
        assert_eq!(awk("{ print ($1 + $2) / 2 }"), Effect::None);
        assert_eq!(awk("{print $1 > \"out\"}"), Effect::Writes("out".into()));
        assert_eq!(awk("{print >> $1}"), Effect::Writes(String::new()));
    }
}
