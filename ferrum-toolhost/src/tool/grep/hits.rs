//! What one file gives: its lines, bounded, or why there are none.

use crate::fs::FsError;
use crate::fs::budget::Stop;
use crate::fs::gaps::Gaps;
use crate::tool::TEXT_BYTES_MAX;
use crate::tool::grep::line;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkMatch};

/// The outcome of one file.
#[derive(Default)]
pub(super) struct Hits {
    pub(super) lines: Vec<Line>,
    pub(super) binary: bool,
    pub(super) refused: bool,
    pub(super) stop: Option<Stop>,
    pub(super) error: Option<FsError>,
}

/// One line of a result, or the gap between two groups.
pub(super) enum Line {
    Match { number: u64, text: String },
    Context { number: u64, text: String },
    Break,
}

impl Hits {
    /// The lines; everything else goes to the gaps.
    pub(super) fn noted(self, relative: &[u8], gaps: &mut Gaps) -> Vec<Line> {
        gaps.binary += usize::from(self.binary);
        gaps.stop = gaps.stop.or(self.stop);
        if self.refused {
            gaps.refused();
        }
        if let Some(error) = self.error {
            gaps.unreadable(relative, error);
        }
        self.lines
    }
}

/// Takes the lines of one file.
pub(super) struct Taker<'a> {
    matcher: &'a RegexMatcher,
    limit: usize,
    hits: Hits,
    matches: usize,
    bytes: usize,
}

impl<'a> Taker<'a> {
    /// One match more than `limit` is taken: it shows that there are more.
    pub(super) fn new(matcher: &'a RegexMatcher, limit: usize) -> Self {
        Self {
            matcher,
            limit,
            hits: Hits::default(),
            matches: 0,
            bytes: 0,
        }
    }

    pub(super) fn into_hits(self) -> Hits {
        self.hits
    }

    fn push(&mut self, line: Line) -> bool {
        self.bytes += match &line {
            Line::Match { text, .. } | Line::Context { text, .. } => text.len(),
            Line::Break => 0,
        };
        self.hits.lines.push(line);
        self.bytes <= TEXT_BYTES_MAX
    }
}

impl Sink for Taker<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        self.matches += 1;
        let number = found.line_number().unwrap_or(0);
        let text = line::around_match(found.bytes(), self.matcher);
        Ok(self.push(Line::Match { number, text }) && self.matches <= self.limit)
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> Result<bool, Self::Error> {
        debug_assert!(*found.kind() != SinkContextKind::Other, "passthru is off");
        let number = found.line_number().unwrap_or(0);
        Ok(self.push(Line::Context {
            number,
            text: line::from_start(found.bytes()),
        }))
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, Self::Error> {
        Ok(self.push(Line::Break))
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, Self::Error> {
        self.hits = Hits {
            binary: true,
            ..Hits::default()
        };
        Ok(false)
    }
}
