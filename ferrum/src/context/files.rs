//! AGENTS.md and agents.md: the user's own, then from the file system's root down to the working
//! directory. The most specific file gets its share of the budget first and stands last.

use super::regular::{Place, Regular, invisible, text_of};
use super::{Instruction, Sources, Texts, cwd, shown, shown_from, top};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Bytes of the whole block, with its headings.
const CONTEXT_BYTES_MAX: usize = 128 << 10;

pub(super) const NAMES: [&str; 2] = ["AGENTS.md", "agents.md"];

const PREAMBLE: &str = "Instructions from files of the user and the project, from general to specific; where two disagree, the later one holds.";

const RULE: &str = "\n\n---\n\n";

/// Below this a piece of a file says nothing; the file is left out and named.
const PIECE_BYTES_MIN: usize = 200;

struct Candidate<'a> {
    path: PathBuf,
    place: Place<'a>,
    of_user: bool,
}

struct Section {
    text: String,
    trusted: bool,
}

/// Reads the files and renders them.
pub(super) fn find(sources: &Sources<'_>, notices: &mut Vec<String>) -> Texts {
    let (cwd, top) = (cwd(sources.granted), top(sources.granted));
    let mut room = CONTEXT_BYTES_MAX - PREAMBLE.len();
    let mut seen = BTreeSet::new();
    let (mut sections, mut instructions) = (Vec::new(), Vec::new());
    let candidates = candidates(sources, &cwd, &top);
    for candidate in candidates.iter().rev() {
        let Some(file) = candidate.open(notices) else {
            continue;
        };
        if !seen.insert(file.id) {
            continue;
        }
        let text = match section(&file, &shown_from(&cwd, &candidate.path), room) {
            Ok((text, told)) => {
                notices.extend(told.map(|what| candidate.remark(&what)));
                text
            }
            Err(why) => {
                notices.push(candidate.left_out(&why));
                continue;
            }
        };
        if text.is_empty() {
            continue;
        }
        room -= text.len() + RULE.len();
        let mut trusted = true;
        if !candidate.of_user {
            let instruction = Instruction::new(&candidate.path, &file);
            trusted = sources.believes(&instruction, notices);
            instructions.push(instruction);
        }
        sections.push(Section { text, trusted });
    }
    sections.reverse();
    Texts {
        trusted: render(PREAMBLE, &sections, true),
        untrusted: render("", &sections, false),
        instructions,
    }
}

impl Candidate<'_> {
    fn open(&self, notices: &mut Vec<String>) -> Option<Regular> {
        let opened = Regular::open(&self.path, self.place);
        opened.unwrap_or_else(|why| {
            notices.push(self.left_out(&why));
            None
        })
    }

    fn remark(&self, what: &str) -> String {
        format!("context file {}: {what}", shown(&self.path))
    }

    fn left_out(&self, why: &str) -> String {
        self.remark(&format!("{why}; it is left out"))
    }
}

/// From general to specific.
fn candidates<'a>(sources: &'a Sources<'_>, cwd: &'a Path, top: &'a Path) -> Vec<Candidate<'a>> {
    let mut all = Vec::new();
    let mut add = |directory: &Path, place: Place<'a>, of_user: bool| {
        all.extend(NAMES.map(|name| Candidate {
            path: directory.join(name),
            place,
            of_user,
        }));
    };
    add(&sources.dirs.config, Place::Own, true);
    let mut ancestors: Vec<&Path> = cwd.ancestors().collect();
    ancestors.reverse();
    for directory in ancestors {
        let place = if directory.starts_with(top) {
            Place::Inside(top)
        } else {
            Place::Outside(directory)
        };
        add(directory, place, false);
    }
    all
}

/// Heading and text within `room`, the rule included; empty for a file without text. The second
/// value is what the operator should know.
fn section(file: &Regular, title: &str, room: usize) -> Result<(String, Option<String>), String> {
    let heading = format!("# {title}\n\n");
    let Some(most) = room
        .checked_sub(heading.len() + RULE.len())
        .filter(|most| *most >= PIECE_BYTES_MIN)
    else {
        return Err(format!(
            "the {} KiB for such files are used up by more specific ones",
            CONTEXT_BYTES_MAX >> 10
        ));
    };
    // Twice what fits: line ends may shrink.
    let bytes = file.read(most as u64 * 2)?;
    let is_whole = file.bytes <= bytes.len() as u64;
    let (text, bad) = text_of(&bytes, is_whole);
    let text = text.trim_end();
    if text.trim().is_empty() {
        return Ok((String::new(), None));
    }
    if text.len() <= most && is_whole {
        return Ok((format!("{heading}{text}"), oddity(text, bad)));
    }
    let marker = |kept: usize| format!("\n[truncated: {kept} of {} bytes are shown]", file.bytes);
    let kept = text.floor_char_boundary(most - marker(most).len());
    let (text, marker) = (&text[..kept], marker(kept));
    let told = format!(
        "only the first {kept} of {} bytes fit into the {} KiB for such files",
        file.bytes,
        CONTEXT_BYTES_MAX >> 10
    );
    Ok((format!("{heading}{text}{marker}"), Some(told)))
}

/// What is odd about a text that is given as a whole.
fn oddity(text: &str, bad: Option<usize>) -> Option<String> {
    if let Some(at) = bad {
        return Some(format!("byte {at} is not UTF-8 text; such bytes are replaced"));
    }
    let hidden = invisible(text);
    (hidden > 0).then(|| format!("it holds {hidden} characters that nobody sees"))
}

fn render(preamble: &str, sections: &[Section], trusted: bool) -> String {
    let texts: Vec<&str> = sections
        .iter()
        .filter(|section| section.trusted == trusted)
        .map(|section| section.text.as_str())
        .collect();
    if texts.is_empty() {
        return String::new();
    }
    let blank = if preamble.is_empty() { "" } else { "\n\n" };
    format!("{preamble}{blank}{}", texts.join(RULE))
}
