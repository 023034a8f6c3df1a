//! `edit`: exact replacements in one file.
//!
//! Each old text must stand exactly once in the file as it was read; all edits are matched
//! against that text, none against the outcome of another. The one equivalence is the line end.
//! Bytes outside the matches never change, and nothing is ever applied approximately.

mod nearest;

use crate::admit::Permit;
use crate::from_wire::{Edit, Replacement};
use crate::fs::FsError;
use crate::fs::atomic::{self, Old};
use crate::fs::name::shown;
use crate::fs::place::{Parent, Place};
use crate::fs::resolve::errno_of;
use crate::fs::text::{BOM, Unified, utf8};
use crate::tool::{Bench, ToolError, ToolOutput};
use policy::Target;
use std::io::Read as _;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Largest file that is edited, in bytes: it is held in memory once, with CRLF twice.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Occurrences that an error counts.
const COUNTED_MAX: usize = 100;

/// Reading, changing and writing one file must not interleave with another change of it.
static TURN: Mutex<()> = Mutex::new(());

/// Waits for the turn to change a file; `write` and `edit` of one process take turns.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// # Errors
/// The edit that does not apply, by its index and with what was found instead, or the step that
/// failed. The file is then what it was before.
pub fn run(call: &Edit, permit: Permit<Place>, bench: &Bench<'_>) -> Result<ToolOutput, ToolError> {
    let _turn = turn();
    let place = permit.into_subject();
    let (judged, canonical) = (place.target(), place.canonical().to_path_buf());
    let asked = shown(place.asked()).into_owned();
    if judged == Target::Absent {
        return Err(ToolError::failed(format!(
            "{asked} does not exist; use write to create it"
        )));
    }
    let parent = place.into_parent().map_err(|error| bench.failure(&error))?;
    let old = Old::open(&parent, judged).map_err(|error| bench.failure(&error))?;
    let old = old.ok_or_else(|| ToolError::failed(format!("{asked} does not exist")))?;
    let text = read(&old, &parent).map_err(|error| bench.failure(&error))?;
    let patches =
        patches(&text, &call.edits).map_err(|what| ToolError::failed(format!("{asked}: {what}")))?;
    atomic::commit(&parent, Some(&old), &parts(&text, &patches)).map_err(|error| bench.failure(&error))?;
    Ok(ToolOutput {
        text: format!("applied {} edit(s) to {asked}", call.edits.len()),
        changed: vec![canonical],
        denials: Vec::new(),
    })
}

fn read(old: &Old, parent: &Parent) -> Result<String, FsError> {
    let asked = parent.asked();
    let too_large = || {
        let mebibytes = FILE_BYTES_MAX >> 20;
        FsError::other(
            asked,
            format!("larger than {mebibytes} MiB, the limit of edit; use bash"),
        )
    };
    if old.size() > FILE_BYTES_MAX {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(usize::try_from(old.size()).unwrap_or(0) + 1)
        .map_err(|_| FsError::other(asked, "not enough memory for this file"))?;
    old.file()
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| FsError::system("read", asked, errno_of(&error)))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(too_large());
    }
    utf8(bytes).map_err(|what| FsError::other(asked, format!("{what}; edit changes UTF-8 text only")))
}

/// One replacement at its place in the original.
#[derive(Debug)]
struct Patch {
    index: usize,
    range: Range<usize>,
    new: String,
}

/// The places of all edits, sorted.
fn patches(original: &str, edits: &[Replacement]) -> Result<Vec<Patch>, String> {
    let body = original.strip_prefix(BOM).unwrap_or(original);
    let skipped = original.len() - body.len();
    let unified = Unified::new(body);
    let mut patches = Vec::with_capacity(edits.len());
    for (index, edit) in edits.iter().enumerate() {
        let mut patch = patch(&unified, index, edit, skipped > 0)?;
        if body[patch.range.clone()] == patch.new {
            return Err(format!(
                "edits[{index}] makes no change: the text is identical but for line ends, which edit keeps"
            ));
        }
        patch.range = patch.range.start + skipped..patch.range.end + skipped;
        patches.push(patch);
    }
    patches.sort_by_key(|patch| patch.range.start);
    for pair in patches.windows(2) {
        if let [first, second] = pair
            && second.range.start < first.range.end
        {
            let (a, b) = (first.index.min(second.index), first.index.max(second.index));
            return Err(format!(
                "edits[{a}] and edits[{b}] overlap at line {}; join them into one edit",
                line_of(original, second.range.start)
            ));
        }
    }
    Ok(patches)
}

fn patch(unified: &Unified<'_>, index: usize, edit: &Replacement, has_bom: bool) -> Result<Patch, String> {
    // The mark at the start of a file is kept by itself, whether the model repeats it or not.
    let bare = |text| {
        if has_bom {
            str::strip_prefix(text, BOM).unwrap_or(text)
        } else {
            text
        }
    };
    let (old, new) = (Unified::new(bare(&edit.old)), Unified::new(bare(&edit.new)));
    if old.text().is_empty() {
        return Err(format!(
            "edits[{index}].old_text is empty but for a byte order mark"
        ));
    }
    let places = occurrences(unified.text(), old.text());
    match places.as_slice() {
        [] => Err(format!(
            "edits[{index}].old_text was not found: {}",
            nearest::help(unified.text(), old.text())
        )),
        [start] => {
            let range = *start..start + old.text().len();
            let new = unified.with_ends_of(&range, new.text());
            Ok(Patch {
                index,
                range: unified.original(&range),
                new,
            })
        }
        many => Err(ambiguous(unified.text(), index, many)),
    }
}

/// Starts of all occurrences, overlapping ones too, up to a bound.
fn occurrences(text: &str, old: &str) -> Vec<usize> {
    let step = old.chars().next().map_or(1, char::len_utf8);
    let mut places = Vec::new();
    let mut from = 0;
    while places.len() < COUNTED_MAX
        && let Some(at) = text[from..].find(old)
    {
        places.push(from + at);
        from += at + step;
    }
    places
}

fn ambiguous(text: &str, index: usize, places: &[usize]) -> String {
    let at_least = if places.len() == COUNTED_MAX {
        "at least "
    } else {
        ""
    };
    let lines: Vec<String> = places
        .iter()
        .take(5)
        .map(|place| line_of(text, *place).to_string())
        .collect();
    let more = if places.len() > 5 { ", …" } else { "" };
    format!(
        "edits[{index}].old_text matches {at_least}{} times (lines {}{more}), more than once; add the lines around it to make it unique",
        places.len(),
        lines.join(", ")
    )
}

fn line_of(text: &str, place: usize) -> usize {
    1 + text.as_bytes()[..place]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
}

/// The new file as a sequence of slices, so that a large file is not copied.
fn parts<'a>(original: &'a str, patches: &'a [Patch]) -> Vec<&'a [u8]> {
    let mut parts = Vec::with_capacity(2 * patches.len() + 1);
    let mut from = 0;
    for patch in patches {
        parts.push(&original.as_bytes()[from..patch.range.start]);
        parts.push(patch.new.as_bytes());
        from = patch.range.end;
    }
    parts.push(&original.as_bytes()[from..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(original: &str, edits: &[(&str, &str)]) -> Result<String, String> {
        let edits: Vec<Replacement> = edits
            .iter()
            .map(|(old, new)| Replacement {
                old: (*old).into(),
                new: (*new).into(),
            })
            .collect();
        let patches = patches(original, &edits)?;
        Ok(String::from_utf8(parts(original, &patches).concat()).unwrap())
    }

    #[track_caller]
    fn gives(original: &str, edits: &[(&str, &str)], expected: &str) {
        assert_eq!(apply(original, edits).as_deref(), Ok(expected));
    }

    #[track_caller]
    fn fails(original: &str, edits: &[(&str, &str)], mention: &str) {
        let error = apply(original, edits).unwrap_err();
        assert!(error.contains(mention), "{error}");
    }

    const CALC: &str = "def add(a, b):\r\n    total = a + b\r\n    return total\r\n\r\ndef sub(a, b):\r\n";

    #[test]
    fn line_ends_are_the_one_equivalence() {
        let old = "    total = a + b\n    return total\n";
        let new = "    return a + b\n";
        let expected = "def add(a, b):\r\n    return a + b\r\n\r\ndef sub(a, b):\r\n";
        gives(CALC, &[(old, new)], expected);
        gives(
            CALC,
            &[(&old.replace('\n', "\r\n"), &new.replace('\n', "\r\n"))],
            expected,
        );
        gives("a\nb\n", &[("a\r\nb\r\n", "c\r\n")], "c\n");
        gives(
            "one\r\ntwo\nthree\r\nfour\n",
            &[("three\n", "THREE\n")],
            "one\r\ntwo\nTHREE\r\nfour\n",
        );
        gives(
            "alpha\rbeta\rgamma\r",
            &[("beta", "BETA")],
            "alpha\rBETA\rgamma\r",
        );
        fails("a\r\nb", &[("a\r\nb", "a\nb")], "makes no change");
    }

    #[test]
    fn the_end_of_the_file_and_the_byte_order_mark_stay() {
        gives("a = 1\nend = yes", &[("a = 1", "a = 2")], "a = 2\nend = yes");
        let unit = "\u{feff}[Unit]\r\nName=café\r\nMode=slow\r\n";
        let expected = "\u{feff}[Unit]\r\nName=thé\r\nMode=slow\r\n";
        gives(unit, &[("[Unit]\nName=café\n", "[Unit]\nName=thé\n")], expected);
        gives(
            unit,
            &[("\u{feff}[Unit]\nName=café\n", "[Unit]\nName=thé\n")],
            expected,
        );
        gives(
            "MAGIC\0\u{1}\u{2} name=old \0 tail\n",
            &[("name=old", "name=new")],
            "MAGIC\0\u{1}\u{2} name=new \0 tail\n",
        );
    }

    #[test]
    fn edits_match_the_original_and_may_touch_but_not_overlap() {
        gives(
            "red\ngreen\n",
            &[("red", "green"), ("green", "blue")],
            "green\nblue\n",
        );
        gives("leftright\n", &[("left", "L"), ("right", "R")], "LR\n");
        gives("leftright\n", &[("right", "R"), ("left", "L")], "LR\n");
        fails(
            "alpha beta gamma\n",
            &[("alpha beta", "A"), ("beta gamma", "B")],
            "edits[0] and edits[1] overlap",
        );
        fails("one\ntwo\n", &[("one", "ONE"), ("missing", "X")], "edits[1]");
    }

    #[test]
    fn every_occurrence_counts() {
        fails(
            "foo\nfoo\nfoo\n",
            &[("foo\nfoo\n", "bar\n")],
            "matches 2 times (lines 1, 2), more than once",
        );
        fails(&"ab ".repeat(101), &[("ab", "c")], "at least 100 times");
        fails(&"ab ".repeat(99), &[("ab", "c")], "matches 99 times");
        fails("éé é", &[("é", "e")], "matches 3 times");
    }

    #[test]
    fn lookalikes_do_not_match() {
        fails("msg = “hello”\n", &[("msg = \"hello\"", "x")], "not found");
        fails("cafe\u{301} = 1\n", &[("café = 1", "x")], "not found");
        fails("if x:\n\tgo()\n", &[("    go()", "    run()")], "not found");
    }

    proptest::proptest! {
        #[test]
        fn nothing_outside_the_match_changes(before in "[a-c\r\n]{0,20}", after in "[a-c\r\n]{0,20}", new in "[x\n]{0,5}") {
            let original = format!("{before}NEEDLE{after}");
            let result = apply(&original, &[("NEEDLE", &new)]).unwrap();
            proptest::prop_assert!(result.starts_with(&before) && result.ends_with(&after));
        }
    }
}
