//! Text policy for bash: is every command in this text known to be within the tier?
//!
//! bytes and characters → syntax tree within limits → leaf audit → small tree of decoded words →
//! hard denials → the tier's table. Nothing here looks anything up, and the text judged is the
//! text that is run.

mod argv;
mod assemble;
mod audit;
mod authority;
mod brace;
mod builtin;
mod catastrophe;
mod chars;
mod codes;
mod crude;
mod deny;
mod expansion;
mod git;
mod hard;
mod heredoc;
mod high;
mod inspection;
mod interpreter;
mod limits;
mod lower;
mod medium;
mod numbers;
mod options;
mod parse;
mod pattern;
mod payload;
mod pipes;
mod place;
mod privilege;
mod programs;
mod quote;
mod rewrite;
mod script;
mod values;
mod walk;
mod word;
mod wrapper;
mod writes;

use crate::{Grant, Ground, Isolation, ShellMode, Tier, Verdict};
pub use codes::{CODES, Code};
use deny::{Check, Deny};
use hard::Hard;
use high::High;
use limits::DEPTH_MAX;
use medium::Medium;
use numbers::Integers;
use place::Place;
use script::Node;
use values::Values;

/// Judges one command text, complete: bytes, characters, tree, leaves, words, table.
///
/// The host runs `bash -n` beside this and refuses what bash itself cannot read.
///
/// With `shell = "auto"` at medium and full isolation, only what no tier runs is refused: the
/// kernel walls bound everything else. That includes text which the grammar cannot read
/// (`unreadable`) but bash can: the hard denials are searched in what could be read, and a wall
/// that refuses ordinary work would be switched off. At low, high and in static mode it stays
/// refused.
pub fn judge(command: &str, grant: &Grant, ground: &Ground) -> Verdict {
    let trusts_walls = grant.tier() == Tier::Medium
        && grant.shell() == ShellMode::Auto
        && ground.isolation == Isolation::Full;
    match check(command, grant.tier(), trusts_walls, ground) {
        Ok(()) => Verdict::Allow,
        Err(deny) => Verdict::Refuse(deny.at(command)),
    }
}

fn check(text: &str, tier: Tier, trusts_walls: bool, ground: &Ground) -> Check {
    chars::check_control(text)?;
    let (script, unreadable) = understand(text, DEPTH_MAX)?;
    let mut hard = Hard {
        ground,
        strict: !trusts_walls,
        commands: 0,
        values: Values::default(),
        read_again: 0,
    };
    hard.script(&script, &Place::start(ground))?;
    if trusts_walls {
        return match unreadable {
            Ok(()) => Ok(()),
            Err(deny) => hard.crude(text, &deny.span, &Place::start(ground)),
        };
    }
    unreadable?;
    if tier >= Tier::Medium {
        chars::check_invisible(text)?;
    }
    // high ⊆ medium by construction: what high admits is judged by medium too.
    if tier == Tier::High {
        walk::statements(&mut High { ground }, &script, &mut Place::start(ground))?;
    }
    if tier >= Tier::Medium {
        let integers = Integers::of(&script);
        let mut medium = Medium { ground, integers };
        walk::statements(&mut medium, &script, &mut Place::start(ground))?;
    }
    Ok(())
}

/// The script as far as it can be read, and why it cannot be read with certainty.
#[inline(never)]
fn understand(text: &str, depth_max: usize) -> Result<(Vec<Node>, Check), Deny> {
    let parsed = parse::parse(text, depth_max)?;
    let root = parsed.tree.root_node();
    audit::check_carriage_returns(root, text)?;
    let readable = match &parsed.gap {
        None => audit::audit(root, text),
        Some(gap) => Err(describe_gap(gap, text)),
    };
    if readable.is_err()
        && let Some(script) = rewritten(text, depth_max)?
    {
        return Ok((script, Ok(())));
    }
    Ok((lower::lower(root, text, &[]), readable))
}

/// The script in a form that the grammar can read, where that means the same to bash.
#[inline(never)]
fn rewritten(text: &str, depth_max: usize) -> Result<Option<Vec<Node>>, Deny> {
    let (original, mut heredocs) = match heredoc::extract(text) {
        Some(extracted) => (extracted.text, extracted.heredocs),
        None => (text.to_owned(), Vec::new()),
    };
    let mut plain = original.clone();
    let mut rewrites = rewrite::all(&mut plain);
    let mut parsed = parse::parse(&plain, depth_max)?;
    let (held, others): (Vec<_>, Vec<_>) = rewrites
        .into_iter()
        .partition(|rewrite| rewrite.holds(parsed.tree.root_node()));
    rewrites = held;
    if heredocs.is_empty() && rewrites.is_empty() {
        return Ok(None);
    }
    if !others.is_empty() {
        plain = rewrite::take_back(&plain, &original, &others);
        parsed = parse::parse(&plain, depth_max)?;
    }
    let root = parsed.tree.root_node();
    let holds = parsed.gap.is_none()
        && audit::audit(root, &plain).is_ok()
        && rewrites.iter().all(|rewrite| rewrite.holds(root))
        && heredocs
            .iter()
            .all(|one| rewrite::starts_redirect(root, one.operator.start));
    if !holds {
        return Ok(None);
    }
    for heredoc in &mut heredocs {
        if heredoc.read(text, depth_max).is_err() || heredoc.word.is_none() {
            return Ok(None);
        }
    }
    let words = rewrite::for_words(&plain, &original, &rewrites);
    Ok(Some(lower::lower(root, &words, &heredocs)))
}

/// Reads a text that stands inside `outer` others, for the hard rules. The deeper it lies, the
/// flatter it must be: the walks of all of them stand on one stack.
fn read(text: &str, outer: usize) -> Result<Vec<Node>, Deny> {
    chars::check_control(text)?;
    let (script, unreadable) = understand(text, DEPTH_MAX / (outer + 1))?;
    unreadable?;
    Ok(script)
}

fn describe_gap(gap: &parse::Gap, text: &str) -> Deny {
    let (code, message) = if gap.missing {
        ("malformed", "something that bash needs is missing here")
    } else {
        ("unreadable", "cannot be read with certainty from here on")
    };
    let rest = text.get(gap.span.start..).unwrap_or("");
    let line = rest.lines().next().unwrap_or("");
    let hint = if line.starts_with("for ") && !line.contains(" in ") {
        "use for i in \"$@\"; do … done"
    } else if text.contains("<<") {
        "put { … ; } around the command with the here-document, or write the text to a file first"
    } else {
        "write it to a script file and run that"
    };
    Deny::new(code, &gap.span, message).hint(hint)
}
