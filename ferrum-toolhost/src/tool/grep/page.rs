//! The result as it grows: lines of many files up to the limits, then the notes.

use crate::fs::gaps::Gaps;
use crate::tool::grep::hits::Line;
use crate::tool::{TEXT_BYTES_MAX, limit_note};

pub(super) struct Page {
    text: String,
    limit: usize,
    /// Groups of lines are set apart.
    grouped: bool,
    matches: usize,
    /// Why nothing more is taken.
    full: Option<String>,
}

impl Page {
    pub(super) fn new(limit: usize, grouped: bool) -> Self {
        Self {
            text: String::new(),
            limit,
            grouped,
            matches: 0,
            full: None,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.full.is_some()
    }

    /// Adds the lines of one file, `path:number:match` or `path-number-context`.
    pub(super) fn add(&mut self, path: &str, lines: Vec<Line>) {
        if self.grouped && !self.text.is_empty() && !lines.is_empty() {
            self.text.push_str("--\n");
        }
        for line in lines {
            let line = match line {
                Line::Match { .. } if self.matches == self.limit => {
                    self.full = Some(limit_note(self.limit, "matching lines"));
                    return;
                }
                Line::Match { number, text } => {
                    self.matches += 1;
                    format!("{path}:{number}:{text}\n")
                }
                Line::Context { number, text } => format!("{path}-{number}-{text}\n"),
                Line::Break => "--\n".to_owned(),
            };
            if self.text.len() + line.len() > TEXT_BYTES_MAX {
                let why = "[output limit of 50 KiB reached; use a narrower path, glob or pattern]";
                self.full = Some(why.to_owned());
                return;
            }
            self.text.push_str(&line);
        }
    }

    pub(super) fn finish(mut self, gaps: &Gaps) -> String {
        if self.matches == 0 {
            self.text = "no matches\n".to_owned();
        }
        for note in self.full.iter().chain(&gaps.notes(self.matches == 0)) {
            self.text.push_str(note);
            self.text.push('\n');
        }
        self.text.truncate(self.text.trim_end_matches('\n').len());
        self.text
    }
}
