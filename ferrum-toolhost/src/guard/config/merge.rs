//! Merging a session's changes back, key by key.
//!
//! Only harmless keys ever reach the real file. Everything else that a session wrote is dropped
//! and reported.

use super::{Config, Entry, Key, header, is_harmless, key, shown};
use std::collections::BTreeMap;

/// What came of a session's copy of a config file.
#[derive(Debug, PartialEq, Eq)]
pub struct Merged {
    /// The text for the real file; equal to the old one when nothing is to be written.
    pub text: String,
    /// Keys whose change was dropped.
    pub dropped: Vec<String>,
}

/// Takes the harmless changes from `old` to `new`.
#[must_use]
pub fn merge(old: &str, new: &str) -> Merged {
    merge_by(old, new, &is_harmless)
}

/// Takes all changes from `old` to `new` but those of addresses that lead to a bad place. `None`
/// where there is none such, or a text cannot be read.
#[must_use]
pub fn without_addresses(old: &str, new: &str, is_bad: &dyn Fn(&str) -> bool) -> Option<Merged> {
    let is_address = |entry: &Entry| {
        matches!(
            (entry.section.as_str(), entry.name.as_str()),
            ("remote", "url" | "pushurl") | ("branch", "remote" | "pushremote")
        )
    };
    let is_odd = [old, new].iter().any(|text| Config::parse(text).odd.is_some());
    let merged = (!is_odd).then(|| merge_by(old, new, &|e| !(is_address(e) && is_bad(&e.value))))?;
    (!merged.dropped.is_empty()).then_some(merged)
}

fn merge_by(old: &str, new: &str, is_harmless: &dyn Fn(&Entry) -> bool) -> Merged {
    let unchanged = |dropped| Merged {
        text: old.to_owned(),
        dropped,
    };
    if old == new {
        return unchanged(Vec::new());
    }
    let (before, after) = (Config::parse(old), Config::parse(new));
    if after.odd.is_some() {
        return unchanged(vec!["the whole change (a line that cannot be read)".into()]);
    }
    let (had, has) = (before.values(), after.values());
    let guarded = |key: &Key, map: &BTreeMap<Key, Vec<&str>>, config: &Config| {
        map.contains_key(key)
            && config
                .entries
                .iter()
                .any(|e| self::key(e) == *key && !is_harmless(e))
    };
    let changed: Vec<Key> = had
        .keys()
        .chain(has.keys())
        .filter(|k| had.get(*k) != has.get(*k))
        .cloned()
        .collect();
    let mut dropped: Vec<Key> = changed
        .into_iter()
        .filter(|k| guarded(k, &had, &before) || guarded(k, &has, &after))
        .collect();
    dropped.sort();
    dropped.dedup();
    if dropped.is_empty() {
        return Merged {
            text: new.to_owned(),
            dropped: Vec::new(),
        };
    }
    let mut text = without(new, &after, |e| dropped.contains(&key(e)));
    for entry in before.entries.iter().filter(|e| dropped.contains(&key(e))) {
        end_line(&mut text);
        text.push_str(&rendered(entry));
    }
    if Config::parse(&text).values() == had {
        // Nothing but dropped changes: the file stays as it is, byte for byte.
        return unchanged(dropped.iter().map(shown).collect());
    }
    // Whatever the cutting did to the text: what git would obey must be what it was.
    if Config::parse(&text).but(is_harmless) != before.but(is_harmless) {
        return unchanged(vec!["the whole change".into()]);
    }
    Merged {
        text,
        dropped: dropped.iter().map(shown).collect(),
    }
}

/// Settings of a sparse checkout. git switches `extensions.worktreeConfig` on to keep them in
/// `config.worktree`, a file that could hold any other key.
const SPARSE: [(&str, &str); 3] = [
    ("core", "sparsecheckout"),
    ("core", "sparsecheckoutcone"),
    ("index", "sparse"),
];

/// Moves the settings of a sparse checkout from a session's new `config.worktree` into its
/// `config`, so that the file may stay absent and the extension off. False where the file says
/// more than that.
#[must_use]
pub fn fold_worktree(old: &str, new: &str, worktree: &str) -> (String, bool) {
    let (before, after, own) = (Config::parse(old), Config::parse(new), Config::parse(worktree));
    if after.odd.is_some() || own.odd.is_some() {
        return (new.to_owned(), false);
    }
    let is_switch = |e: &Entry| e.section == "extensions" && e.name == "worktreeconfig";
    let mut text = if before.entries.iter().any(is_switch) {
        new.to_owned()
    } else {
        without(new, &after, is_switch)
    };
    let mut whole = true;
    for entry in &own.entries {
        let value = before.value(&entry.section, entry.subsection.as_deref(), &entry.name);
        let is_sparse = entry.subsection.is_none()
            && SPARSE.contains(&(entry.section.as_str(), entry.name.as_str()))
            && matches!(entry.value.as_str(), "true" | "false");
        // What git moved over from the shared file is put back there by the merge.
        whole &= is_sparse || value.as_ref() == Some(&entry.value);
        if is_sparse {
            text = with_value(&text, entry);
        }
    }
    (text, whole)
}

/// The text with the entry's value for its key: in the place of the last one, or at the end.
fn with_value(text: &str, entry: &Entry) -> String {
    let line = format!("\t{} = {}\n", entry.name, entry.value);
    let config = Config::parse(text);
    let Some(last) = config.entries.iter().rfind(|e| key(e) == key(entry)) else {
        let mut text = text.to_owned();
        end_line(&mut text);
        return format!("{text}[{}]\n{line}", entry.section);
    };
    let (head, old, tail) = (
        &text[..last.lines.start],
        &text[last.lines.clone()],
        &text[last.lines.end..],
    );
    if last.value == entry.value {
        return text.to_owned();
    }
    format!("{head}{}{line}{tail}", kept_header(old))
}

/// The text without some entries.
fn without(text: &str, config: &Config, is_out: impl Fn(&Entry) -> bool) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut at = 0;
    for entry in config.entries.iter().filter(|e| is_out(e)) {
        if entry.lines.start >= at {
            kept.push_str(&text[at..entry.lines.start]);
            kept.push_str(&kept_header(&text[entry.lines.clone()]));
            at = entry.lines.end;
        }
    }
    kept.push_str(&text[at..]);
    kept
}

fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

/// A section header that stands on the same line as a dropped assignment stays.
fn kept_header(line: &str) -> String {
    match line.trim_start().strip_prefix('[').and_then(header) {
        Some((_, tail)) => format!("{}\n", &line[..line.len() - tail.len()].trim_end()),
        None => String::new(),
    }
}

fn rendered(entry: &Entry) -> String {
    let quoted = |s: &str| {
        s.replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
            .replace('\t', "\\t")
    };
    let head = match &entry.subsection {
        Some(sub) => format!(
            "[{} \"{}\"]",
            entry.section,
            sub.replace('\\', "\\\\").replace('"', "\\\"")
        ),
        None => format!("[{}]", entry.section),
    };
    format!("{head}\n\t{} = \"{}\"\n", entry.name, quoted(&entry.value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = ../o.git\n";

    fn check(new: &str, text: &str, dropped: &[&str]) {
        assert_eq!(
            merge(BASE, new),
            Merged {
                text: text.into(),
                dropped: dropped.iter().map(|s| (*s).into()).collect()
            }
        );
    }

    #[test]
    fn harmless_changes_are_taken_whole() {
        let new = format!(
            "{BASE}[user]\n\tname = A B\n[branch \"x\"]\n\tremote = origin\n\tmerge = refs/heads/x\n"
        );
        check(&new, &new, &[]);
    }

    #[test]
    fn a_backslash_in_a_comment_does_not_hide_the_next_line() {
        for comment in ["# x \\", "; x \\", "name = A # x \\", "[color] # x \\"] {
            let new = format!("{BASE}[user]\n{comment}\n[core]\n\tfsmonitor = ./x\n");
            assert_eq!(merge(BASE, &new).dropped, ["core.fsmonitor"], "{comment}");
            let text = merge(BASE, &new).text;
            assert!(!text.contains("fsmonitor"), "{text}");
        }
    }

    #[test]
    fn this_reader_and_git_read_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config");
        for text in [
            "[a]\nb = c \\\n d\n",
            "[a] # \\\n[d]\ne = f\n",
            "[a]\nb = \"x # y\" ; \\\nc = d\n",
            "[a \"b\\\\\"]\nc = d\n[e \"#\"]\nf = g\n",
            "[A \"B=[\"]\nC = d\n",
            "[a.B]\nc\nd =\ne = \\t\\n\\b\\\\\\\"\n",
            "[a]b=c\n[d]e=\"f\\\n g\"h\n",
            "[a]\r\nb = c\\\r\nd\r\n",
            "; \\\n[a]\nb = [c] = d\n",
        ] {
            std::fs::write(&file, text).unwrap();
            let git = std::process::Command::new("git")
                .args(["config", "--list", "--null", "--file"])
                .arg(&file)
                .output()
                .unwrap();
            let git = String::from_utf8(git.stdout).unwrap();
            let config = Config::parse(text);
            assert_eq!(config.odd, None, "{text}");
            let ours: String = config
                .entries
                .iter()
                .map(|e| format!("{}\n{}\0", shown(&key(e)), e.value))
                .collect();
            // A key without `=` has no value in git's list.
            assert_eq!(ours.replace("a.b.c\ntrue", "a.b.c"), git, "{text}");
        }
    }

    #[test]
    fn a_sparse_checkout_moves_into_the_shared_file_and_nothing_else_does() {
        let new = format!("{BASE}[extensions]\n\tworktreeConfig = true\n");
        let own = "[core]\n\tsparseCheckout = true\n\tsparseCheckoutCone = true\n";
        let (text, whole) = fold_worktree(BASE, &new, own);
        assert!(whole);
        let merged = merge(BASE, &text);
        assert_eq!(merged.dropped, Vec::<String>::new());
        let config = Config::parse(&merged.text);
        assert_eq!(
            config.value("core", None, "sparsecheckout").as_deref(),
            Some("true")
        );
        assert_eq!(config.value("extensions", None, "worktreeconfig"), None);
        // Once more: nothing is added twice.
        assert_eq!(fold_worktree(&merged.text, &merged.text, own).0, merged.text);

        let (text, whole) = fold_worktree(BASE, &new, &format!("{own}\tfsmonitor = ./x\n"));
        assert!(!whole);
        assert!(!merge(BASE, &text).text.contains("fsmonitor"));
    }

    #[test]
    fn keys_that_run_something_are_dropped_and_the_good_ones_stay() {
        let new = format!("{BASE}[core]\n\tfsmonitor = ./x\n[user]\n\tname = A\n[alias]\n\tst = !./x\n");
        check(
            &new,
            &format!("{BASE}[core]\n[user]\n\tname = A\n[alias]\n"),
            &["alias.st", "core.fsmonitor"],
        );
    }

    #[test]
    fn every_spelling_of_a_dangerous_key_is_dropped() {
        for bad in [
            "[CORE] hooksPath = x",
            "[core]\n\thooksPATH\n",
            "[include]\n\tpath = ../evil",
            "[includeIf \"gitdir:.\"]\n\tpath = e",
            "[remote \"origin\"]\n\tuploadpack = ./x",
            "[remote \"origin\"]\n\turl = ext::./x",
            "[filter.x]\n\tclean = ./x",
            "[submodule \"m\"]\n\tupdate = !./x",
            "[core]\n\teditor = \"./x\" ; c",
            "[core] sshCommand = a\\\n b",
            "[extensions]\n\tworktreeConfig = true",
            "[commit]\n\tgpgsign = true",
        ] {
            let merged = merge(BASE, &format!("{BASE}{bad}\n"));
            assert!(!merged.dropped.is_empty(), "{bad}");
            assert_eq!(
                Config::parse(&merged.text).values(),
                Config::parse(BASE).values(),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_dangerous_key_of_the_user_is_neither_changed_nor_removed() {
        let old = format!("{BASE}[core]\n\tpager = less # mine\n");
        assert_eq!(merge(&old, BASE).dropped, ["core.pager"]);
        assert_eq!(
            Config::parse(&merge(&old, BASE).text)
                .value("core", None, "pager")
                .as_deref(),
            Some("less")
        );
        let changed = merge(&old, &old.replace("less # mine", "./x"));
        assert_eq!(
            Config::parse(&changed.text)
                .value("core", None, "pager")
                .as_deref(),
            Some("less")
        );
    }

    #[test]
    fn a_line_that_cannot_be_read_drops_the_whole_change() {
        let merged = merge(BASE, &format!("{BASE}[user]\n\tname = \"open\n"));
        assert_eq!(merged.text, BASE);
        assert_eq!(merged.dropped.len(), 1);
    }
}
