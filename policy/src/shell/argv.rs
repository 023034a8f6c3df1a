//! Arguments of one command, read as getopt would: clusters, glued values, `--`, abbreviations.

use super::script::Word;

/// Which options of a command take a value in the next word.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Valued {
    /// Letters, as in `-o FILE` and `-oFILE`.
    pub(super) short: &'static str,
    /// Names without dashes, as in `--output FILE`. `--name=value` needs no entry.
    pub(super) long: &'static [&'static str],
}

/// One argument.
#[derive(Debug, Clone)]
pub(super) enum Arg<'a> {
    Short(char, Option<Word>, &'a Word),
    Long(String, Option<Word>, &'a Word),
    Operand(&'a Word),
}

/// Splits the words after the command name. Options after operands count, as GNU permutes.
pub(super) fn read<'a>(words: &'a [Word], valued: &Valued) -> Vec<Arg<'a>> {
    let mut out = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let (text, whole) = word.prefix();
        if text == "--" && whole {
            out.extend(rest.map(Arg::Operand));
            return out;
        }
        if let Some(long) = text.strip_prefix("--") {
            out.push(read_long(long, whole, word, &mut rest, valued));
        } else if text.len() > 1 && text.starts_with('-') {
            read_cluster(&text[1..], whole, word, &mut rest, valued, &mut out);
        } else {
            out.push(Arg::Operand(word));
        }
    }
    out
}

/// Options in the manner of `tar xzf FILE`: the first word without a dash is a bundle whose valued
/// letters take the next words in turn. As one option a word.
pub(super) fn dashed(words: &[Word], valued: &str) -> Vec<Word> {
    let Some(bundle) = words.first().and_then(Word::literal) else {
        return words.to_vec();
    };
    if bundle.starts_with('-') || bundle.is_empty() {
        return words.to_vec();
    }
    let span = &words[0].span;
    let mut rest = words[1..].iter();
    let mut out = Vec::new();
    for letter in bundle.chars() {
        out.push(Word::from_literal(&format!("-{letter}"), span.clone()));
        if valued.contains(letter) {
            out.extend(rest.next().cloned());
        }
    }
    out.extend(rest.cloned());
    out
}

fn read_long<'a>(
    long: &str,
    whole: bool,
    word: &'a Word,
    rest: &mut std::slice::Iter<'a, Word>,
    valued: &Valued,
) -> Arg<'a> {
    if let Some((name, _)) = long.split_once('=') {
        let value = word.without_prefix(2 + name.len() + 1);
        return Arg::Long(name.to_owned(), Some(value), word);
    }
    let value = if !whole {
        None
    } else if valued.long.contains(&long) {
        rest.next().cloned()
    } else if valued.long.iter().any(|name| means(long, name)) {
        // Abbreviated. It may as well be the whole name of another option that takes no value, so
        // the next word is looked at both ways.
        rest.as_slice().first().cloned()
    } else {
        None
    };
    Arg::Long(long.to_owned(), value, word)
}

fn read_cluster<'a>(
    letters: &str,
    whole: bool,
    word: &'a Word,
    rest: &mut std::slice::Iter<'a, Word>,
    valued: &Valued,
    out: &mut Vec<Arg<'a>>,
) {
    for (at, letter) in letters.char_indices() {
        let after = at + letter.len_utf8();
        if !valued.short.contains(letter) {
            out.push(Arg::Short(letter, None, word));
            continue;
        }
        let value = if after < letters.len() || !whole {
            Some(word.without_prefix(1 + after))
        } else {
            rest.next().cloned()
        };
        out.push(Arg::Short(letter, value, word));
        return;
    }
}

/// True when `given` is `name`, or an abbreviation of it that GNU's getopt would take.
pub(super) fn means(given: &str, name: &str) -> bool {
    !given.is_empty() && name.starts_with(given)
}

/// The operands.
pub(super) fn operands<'a>(args: &[Arg<'a>]) -> Vec<&'a Word> {
    let words = args.iter().filter_map(|arg| match arg {
        Arg::Operand(word) => Some(*word),
        Arg::Short(..) | Arg::Long(..) => None,
    });
    words.collect()
}

/// True when one of the letters or long names (without dashes, abbreviations included) is given.
pub(super) fn has(args: &[Arg<'_>], letters: &str, names: &[&str]) -> bool {
    args.iter().any(|arg| match arg {
        Arg::Short(letter, ..) => letters.contains(*letter),
        Arg::Long(given, ..) => names.iter().any(|name| means(given, name)),
        Arg::Operand(_) => false,
    })
}
