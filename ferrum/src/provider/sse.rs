//! Server-sent events: bytes in, event data out. Pure, incremental, bounded.
//!
//! Follows the WHATWG rules: lines end in LF, CR or CRLF; a leading byte-order mark is skipped;
//! several `data` lines join with LF; comments and other fields carry nothing for us.

/// One line, in bytes. The longest lines seen carry a whole tool call.
pub const LINE_BYTES_MAX: usize = 1 << 20;
/// Data of one event, in bytes.
pub const EVENT_BYTES_MAX: usize = 2 << 20;
/// Events of one answer.
pub const EVENTS_MAX: usize = 100_000;

/// A stream above one of the bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    #[error("a line of the event stream is longer than 1 MiB")]
    Line,
    #[error("an event of the stream is larger than 2 MiB")]
    Event,
    #[error("the stream has more than 100000 events")]
    Count,
}

/// Collects bytes of one answer and yields the data of its events.
#[derive(Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// Start of the first unread line in `bytes`.
    start: usize,
    /// Up to here `bytes` was searched for a line end.
    searched: usize,
    data: Vec<u8>,
    has_data: bool,
    /// The last line ended in CR, so an LF that follows belongs to it.
    after_cr: bool,
    begun: bool,
    events: usize,
}

impl Decoder {
    /// Takes bytes as they came from the network.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The data of the next whole event, or `None` until more bytes come.
    ///
    /// # Errors
    /// [`SseError`] when the stream is above a bound; it must then be given up.
    pub fn next_event(&mut self) -> Result<Option<&[u8]>, SseError> {
        // What the last call handed out is cleared only now, so that it could be lent.
        if !self.has_data {
            self.data.clear();
        }
        while let Some((from, to)) = self.next_line()? {
            if from == to {
                if std::mem::take(&mut self.has_data) {
                    self.events += 1;
                    if self.events > EVENTS_MAX {
                        return Err(SseError::Count);
                    }
                    return Ok(Some(&self.data));
                }
            } else {
                self.field(from, to)?;
            }
        }
        Ok(None)
    }

    /// What is left when the stream ended without a last blank line. The standard drops it;
    /// servers that forget the blank line after their end marker make it worth a look.
    #[must_use]
    pub fn finish(mut self) -> Option<Vec<u8>> {
        if !self.has_data {
            self.data.clear();
        }
        let (from, to) = (self.start, self.bytes.len());
        if from < to && self.field(from, to).is_err() {
            return None;
        }
        self.has_data.then_some(self.data)
    }

    fn next_line(&mut self) -> Result<Option<(usize, usize)>, SseError> {
        if !self.begun {
            const MARK: &[u8] = b"\xef\xbb\xbf";
            let head = &self.bytes[self.start..];
            if head.len() < MARK.len() && MARK.starts_with(head) {
                return Ok(None);
            }
            if head.starts_with(MARK) {
                self.start += MARK.len();
            }
            self.begun = true;
        }
        if self.after_cr && self.start < self.bytes.len() {
            self.after_cr = false;
            if self.bytes[self.start] == b'\n' {
                self.start += 1;
            }
        }
        let from = self.start;
        self.searched = self.searched.max(from);
        let Some(offset) = memchr::memchr2(b'\n', b'\r', &self.bytes[self.searched..]) else {
            self.searched = self.bytes.len();
            if self.bytes.len() - from > LINE_BYTES_MAX {
                return Err(SseError::Line);
            }
            return Ok(None);
        };
        let to = self.searched + offset;
        if to - from > LINE_BYTES_MAX {
            return Err(SseError::Line);
        }
        self.after_cr = self.bytes[to] == b'\r';
        self.start = to + 1;
        self.searched = self.start;
        Ok(Some((from, to)))
    }

    fn field(&mut self, from: usize, to: usize) -> Result<(), SseError> {
        let line = &self.bytes[from..to];
        let value = if let Some(value) = line.strip_prefix(b"data:") {
            value.strip_prefix(b" ").unwrap_or(value)
        } else if line == b"data" {
            b""
        } else {
            return Ok(());
        };
        if self.data.len() + value.len() > EVENT_BYTES_MAX {
            return Err(SseError::Event);
        }
        if self.has_data {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
        self.has_data = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(chunks: &[&[u8]]) -> Vec<String> {
        let mut decoder = Decoder::default();
        let mut out = Vec::new();
        for chunk in chunks {
            decoder.push(chunk);
            while let Some(data) = decoder.next_event().unwrap() {
                out.push(String::from_utf8_lossy(data).into_owned());
            }
        }
        out.extend(
            decoder
                .finish()
                .map(|d| format!("rest:{}", String::from_utf8_lossy(&d))),
        );
        out
    }

    fn check(stream: &[u8], expected: &[&str]) {
        assert_eq!(decode(&[stream]), expected);
        for cut in 0..=stream.len() {
            let (a, b) = stream.split_at(cut);
            assert_eq!(decode(&[a, b]), expected, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(decode(&bytes), expected);
    }

    #[test]
    fn events_are_the_same_wherever_the_bytes_are_cut() {
        check(b"data: a\n\ndata: b\n\n", &["a", "b"]);
        check(b"data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]);
        check(b"data: a\r\rdata: b\r\r", &["a", "b"]);
        check(b"\xef\xbb\xbfdata:a\n\n", &["a"]);
        check(b"data: x\ndata\ndata:  y\n\n", &["x\n\n y"]);
        check(
            b": ping\n\nevent: m\nid: 7\nretry: 3\ndata: a\n\n: end\n\n",
            &["a"],
        );
        check("data: a\u{2028}b\u{85}c\n\n".as_bytes(), &["a\u{2028}b\u{85}c"]);
        check("data: wörld ☃\n\n".as_bytes(), &["wörld ☃"]);
    }

    #[test]
    fn an_unended_last_event_is_left_over() {
        check(b"data: a\n\ndata: [DONE]", &["a", "rest:[DONE]"]);
        check(b"data: a\n\ndata: [DONE]\n", &["a", "rest:[DONE]"]);
    }

    #[test]
    fn both_sides_of_the_line_limit() {
        for (extra, fits) in [(0, true), (1, false)] {
            let mut decoder = Decoder::default();
            let mut line = b"data: ".to_vec();
            line.resize(LINE_BYTES_MAX + extra, b'x');
            line.extend_from_slice(b"\n\n");
            decoder.push(&line);
            assert_eq!(decoder.next_event().is_ok(), fits);
        }
    }

    #[test]
    fn an_event_of_many_lines_is_bounded() {
        let mut decoder = Decoder::default();
        let line = [b"data: ".as_slice(), &vec![b'x'; 1 << 19], b"\n"].concat();
        let mut result = Ok(None);
        for _ in 0..5 {
            decoder.push(&line);
            result = decoder.next_event().map(|d| d.map(<[u8]>::to_vec));
        }
        assert_eq!(result, Err(SseError::Event));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..20)) {
            let mut decoder = Decoder::default();
            for chunk in &chunks {
                decoder.push(chunk);
                while let Ok(Some(_)) = decoder.next_event() {}
            }
            let _ = decoder.finish();
        }
    }
}
