//! Bounded capture of one output stream: head and tail in memory, the rest in a spool file.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// Bytes of a stream that the model sees at most.
pub const SHOWN_BYTES_MAX: usize = 50 << 10;
/// Of these, the bytes from the stream's beginning.
const HEAD_BYTES_MAX: usize = 12 << 10;
const TAIL_BYTES_MAX: usize = SHOWN_BYTES_MAX - HEAD_BYTES_MAX;
/// Characters of a byte that is shown as `\xNN`.
const ESCAPED_WIDTH: usize = 4;
/// Bytes of a stream that are spooled at most.
pub const SPOOL_BYTES_MAX: u64 = 64 << 20;

/// Collects one stream at constant memory.
pub struct Capture {
    /// Everything while the stream is short, its beginning afterwards.
    head: Vec<u8>,
    tail: VecDeque<u8>,
    pub total: u64,
    spool_path: PathBuf,
    spool: Option<File>,
    spooled: u64,
    pub error: Option<String>,
}

impl Capture {
    /// `spool_path` is used only when the stream is too long to be shown whole.
    #[must_use]
    pub fn new(spool_path: PathBuf) -> Self {
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            total: 0,
            spool_path,
            spool: None,
            spooled: 0,
            error: None,
        }
    }

    /// Takes the next bytes. `budget` is what all spools of the session may still take.
    pub fn push(&mut self, bytes: &[u8], budget: &mut u64) {
        self.total += bytes.len() as u64;
        if self.spool.is_none() && self.tail.is_empty() && self.head.len() + bytes.len() <= SHOWN_BYTES_MAX {
            self.head.extend_from_slice(bytes);
            return;
        }
        if self.spool.is_none() && self.tail.is_empty() {
            self.start_spool(budget);
        }
        self.write_spool(bytes, budget);
        let keep = &bytes[bytes.len().saturating_sub(TAIL_BYTES_MAX)..];
        self.tail.extend(keep);
        let excess = self.tail.len().saturating_sub(TAIL_BYTES_MAX);
        self.tail.drain(..excess);
    }

    /// The stream outgrew memory: what was kept moves to the spool, its end to the tail.
    fn start_spool(&mut self, budget: &mut u64) {
        let opened = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&self.spool_path);
        match opened {
            Ok(file) => self.spool = Some(file),
            Err(e) => self.error = Some(format!("cannot spool to {}: {e}", self.spool_path.display())),
        }
        let head = std::mem::take(&mut self.head);
        self.write_spool(&head, budget);
        let (head, tail) = head.split_at(head.len().min(HEAD_BYTES_MAX));
        self.head = head.to_vec();
        self.tail.extend(tail);
    }

    fn write_spool(&mut self, bytes: &[u8], budget: &mut u64) {
        let Some(file) = &mut self.spool else { return };
        let room = (SPOOL_BYTES_MAX - self.spooled).min(*budget);
        let take = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        match file.write_all(&bytes[..take]) {
            Ok(()) => {
                self.spooled += take as u64;
                *budget -= take as u64;
            }
            Err(e) => {
                self.error = Some(format!("cannot spool to {}: {e}", self.spool_path.display()));
                self.spool = None;
            }
        }
    }

    /// The stream as text: whole, or head and tail with a line between that says what is left out
    /// and where it is.
    #[must_use]
    pub fn text(&self) -> String {
        let kept: Vec<u8> = self.head.iter().chain(&self.tail).copied().collect();
        if self.tail.is_empty() && widths(&kept).iter().sum::<usize>() <= SHOWN_BYTES_MAX {
            return escaped(&kept);
        }
        let (head, tail) = if self.tail.is_empty() {
            // Short, but of bytes that take four characters each.
            kept.split_at(kept.len().min(HEAD_BYTES_MAX))
        } else {
            kept.split_at(self.head.len())
        };
        let head = &head[..fitting(widths(head).iter(), HEAD_BYTES_MAX)];
        let head = &head[..text_end(head)];
        let tail = &tail[tail.len() - fitting(widths(tail).iter().rev(), TAIL_BYTES_MAX)..];
        let tail = &tail[text_start(tail)..];
        let left_out = self.total - head.len() as u64 - tail.len() as u64;
        format!(
            "{}\n[{left_out} bytes left out; {}]\n{}",
            escaped(head),
            self.place(),
            escaped(tail)
        )
    }

    /// Where the whole stream is.
    fn place(&self) -> String {
        if self.spooled == self.total {
            format!("full output: {}", self.spool_path.display())
        } else if self.spooled > 0 {
            format!("the first {} bytes: {}", self.spooled, self.spool_path.display())
        } else {
            "not kept".to_owned()
        }
    }

    /// The last bytes, for reading what a program complained about.
    #[must_use]
    pub fn last(&self, count: usize) -> String {
        let all: Vec<u8> = self.head.iter().chain(&self.tail).copied().collect();
        String::from_utf8_lossy(&all[all.len().saturating_sub(count)..]).into_owned()
    }
}

/// How many bytes, by their widths in order, are at most `room` characters when they are shown.
fn fitting<'a>(widths: impl Iterator<Item = &'a usize>, room: usize) -> usize {
    let mut used = 0;
    widths
        .take_while(|width| {
            used += **width;
            used <= room
        })
        .count()
}

/// The width of each byte when it is shown: an escaped one takes four characters.
fn widths(bytes: &[u8]) -> Vec<usize> {
    let mut widths = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid().bytes();
        widths.extend(valid.map(|byte| if byte == 0 { ESCAPED_WIDTH } else { 1 }));
        widths.extend(chunk.invalid().iter().map(|_| ESCAPED_WIDTH));
    }
    widths
}

/// Where to cut the head: after its last line, or at least not inside a character or an escape
/// sequence.
fn text_end(bytes: &[u8]) -> usize {
    let recent = bytes.len().saturating_sub(1024);
    if let Some(at) = bytes[recent..].iter().rposition(|b| *b == b'\n') {
        return recent + at + 1;
    }
    let mut end = bytes.len();
    while end > recent && bytes[end - 1] & 0xC0 == 0x80 {
        end -= 1;
    }
    if end > recent && bytes[end - 1] >= 0xC0 {
        end -= 1;
    }
    match bytes[recent..end].iter().rposition(|b| *b == 0x1b) {
        Some(at) if end - recent - at < 64 => recent + at,
        _ => end,
    }
}

/// Where to begin the tail: after its first line end, or at least at a character.
fn text_start(bytes: &[u8]) -> usize {
    if let Some(at) = bytes.iter().take(1024).position(|b| *b == b'\n') {
        return at + 1;
    }
    bytes.iter().position(|b| b & 0xC0 != 0x80).unwrap_or(0)
}

/// Bytes as text: NUL and what is not UTF-8 are shown as `\xNN`, so nothing is lost, nothing is
/// invented, and no provider is sent a NUL.
#[must_use]
pub fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(&chunk.valid().replace('\0', "\\x00"));
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(chunks: &[&[u8]]) -> (Capture, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let mut capture = Capture::new(dir.path().join("s"));
        let mut budget = 1 << 30;
        chunks.iter().for_each(|c| capture.push(c, &mut budget));
        (capture, dir)
    }

    #[test]
    fn a_stream_at_the_limit_is_whole_and_one_byte_more_is_cut_and_spooled() {
        let exact = vec![b'a'; SHOWN_BYTES_MAX];
        let (c, dir) = capture(&[&exact]);
        assert_eq!(c.text().len(), SHOWN_BYTES_MAX);
        assert!(!dir.path().join("s").exists());
        let (c, dir) = capture(&[&exact, b"b"]);
        assert!(
            c.text().contains("bytes left out; full output: "),
            "{}",
            &c.text()[..200]
        );
        assert!(c.text().ends_with('b'));
        assert_eq!(
            std::fs::read(dir.path().join("s")).unwrap().len(),
            SHOWN_BYTES_MAX + 1
        );
    }

    #[test]
    fn lines_are_cut_whole_and_the_count_is_exact() {
        let line = "0123456789abcdef\n".repeat(10_000);
        let (c, _dir) = capture(&[line.as_bytes()]);
        let text = c.text();
        let shown: usize = text.lines().filter(|l| *l == "0123456789abcdef").count();
        let left_out: usize = text
            .split("[")
            .nth(1)
            .unwrap()
            .split(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!(shown * 17 + left_out, line.len());
        assert_eq!(text.lines().filter(|l| !l.is_empty()).count(), shown + 1);
    }

    #[test]
    fn a_character_split_between_writes_is_whole_and_bad_bytes_are_shown() {
        let (c, _dir) = capture(&[b"\xc3", b"\xa9\n", b"a\xffb"]);
        assert_eq!(c.text(), "é\na\\xffb");
        let (c, _dir) = capture(&[b"a\0b"]);
        assert_eq!(c.text(), "a\\x00b");
    }

    #[test]
    fn bytes_that_are_escaped_do_not_outgrow_the_bound() {
        for count in [SHOWN_BYTES_MAX, SHOWN_BYTES_MAX + 1, 1 << 20] {
            for byte in [0, 0x80, 0xe9] {
                let (c, _dir) = capture(&[&vec![byte; count]]);
                let text = c.text();
                assert!(text.len() < SHOWN_BYTES_MAX + 200, "{count}: {}", text.len());
                assert!(text.contains("bytes left out"));
            }
        }
    }

    #[test]
    fn no_cut_falls_into_a_character() {
        let (c, _dir) = capture(&["é".repeat(100_000).as_bytes()]);
        assert!(!c.text().contains("\\x"), "split character");
    }
}
