//! `read`: lines of one text file, as they stand in it.
//!
//! At most 50 KiB of text come back, also from one giant line. The file is streamed, so its size
//! does not matter. A byte order mark is not shown; bytes that are not UTF-8 come as `\xNN`.

use crate::admit::Permit;
use crate::from_wire::Read;
use crate::fs::budget::{Budget, Stop, WALK_TIME_MAX};
use crate::fs::gaps::count;
use crate::fs::name::{escape_into, shown};
use crate::fs::resolve::{Found, errno_of};
use crate::fs::{FsError, text::BOM};
use crate::tool::{Bench, TEXT_BYTES_MAX, ToolError, ToolOutput, cancelled};
use std::fs::File;
use std::io::{BufRead, BufReader};

/// Bytes at the start in which a NUL makes a file binary; git looks at as many.
const BINARY_PROBE_BYTES: usize = 8000;
/// Block of one read, in bytes.
const BLOCK_BYTES: usize = 64 << 10;
/// Bytes after the shown lines that are read only to say how many lines there are.
const COUNT_BYTES_MAX: usize = 16 << 20;

/// # Errors
/// No regular text file, or an offset after its end.
pub fn run(call: &Read, permit: &Permit<Found>, bench: &Bench<'_>) -> Result<ToolOutput, ToolError> {
    let found = permit.subject();
    if found.is_directory() {
        return Err(ToolError::failed(format!(
            "{} is a directory; use ls",
            shown(found.asked())
        )));
    }
    let file = found.open_file().map_err(|error| bench.failure(&error))?;
    let budget = Budget::new(WALK_TIME_MAX, bench.cancel);
    let window = Window::read(file, call, &budget).map_err(|error| match error {
        Fault::Io(error) => bench.failure(&FsError::system("read", found.asked(), errno_of(&error))),
        Fault::Binary(what) => ToolError::failed(format!("{} is {what}", shown(found.asked()))),
    })?;
    cancelled(window.stop)?;
    if window.stop.is_some() && window.first_missing() {
        let seconds = WALK_TIME_MAX.as_secs();
        return Err(ToolError::failed(format!(
            "line {} is too far into the file: not reached in {seconds} seconds",
            call.offset
        )));
    }
    if window.first_missing() && (call.offset > 1 || window.lines > 0) {
        let lines = count(window.lines, "line");
        return Err(ToolError::failed(format!(
            "offset {} is past the end: the file has {lines}",
            call.offset
        )));
    }
    if window.first_missing() {
        return Ok(ToolOutput::text("(empty file)"));
    }
    Ok(ToolOutput::text(window.render()))
}

enum Fault {
    Io(std::io::Error),
    Binary(String),
}

/// The lines that were asked for, and what is known of the rest.
struct Window {
    bytes: Vec<u8>,
    first: usize,
    /// Lines that are shown in whole.
    whole: usize,
    /// Bytes of the first line that were left out, where it alone is over the limit.
    cut: usize,
    /// Lines seen so far; of the whole file if `counted`.
    lines: usize,
    counted: bool,
    more: bool,
    stop: Option<Stop>,
}

impl Window {
    fn read(file: File, call: &Read, budget: &Budget<'_>) -> Result<Self, Fault> {
        let mut reader = BufReader::with_capacity(BLOCK_BYTES, file);
        probe(&mut reader)?;
        let first = usize::try_from(call.offset).unwrap_or(usize::MAX);
        let last = call.limit.map_or(usize::MAX, |limit| {
            first
                .saturating_add(usize::try_from(limit).unwrap_or(usize::MAX))
                .saturating_sub(1)
        });
        let mut window = Self {
            bytes: Vec::new(),
            first,
            whole: 0,
            cut: 0,
            lines: 0,
            counted: false,
            more: false,
            stop: None,
        };
        window.skip_to_first(&mut reader, budget)?;
        while window.stop.is_none() && window.lines + 1 >= first && window.lines < last {
            if !window.take_line(&mut reader, budget)? {
                break;
            }
        }
        window.count_rest(&mut reader, budget)?;
        window.more |= window.stop.is_some();
        Ok(window)
    }

    fn skip_to_first(&mut self, reader: &mut BufReader<File>, budget: &Budget<'_>) -> Result<(), Fault> {
        while self.lines + 1 < self.first && self.stop.is_none() {
            if pass_line(reader, budget, &mut self.stop, |_| {})? == 0 {
                break;
            }
            self.lines += 1;
        }
        Ok(())
    }

    /// Takes one line; false at the end of the file or of the room.
    fn take_line(&mut self, reader: &mut BufReader<File>, budget: &Budget<'_>) -> Result<bool, Fault> {
        let start = self.bytes.len();
        let room = TEXT_BYTES_MAX - start;
        let bytes = &mut self.bytes;
        let length = pass_line(reader, budget, &mut self.stop, |part| {
            let kept = bytes.len() - start;
            // One byte over the room tells a line that fits from one that does not.
            bytes.extend_from_slice(&part[..part.len().min((room + 1).saturating_sub(kept))]);
        })?;
        if length == 0 {
            return Ok(false);
        }
        self.lines += 1;
        if length <= room {
            self.whole += 1;
            return Ok(true);
        }
        self.more = true;
        if self.whole > 0 {
            self.bytes.truncate(start);
        } else {
            self.bytes.truncate(floor_char(&self.bytes, TEXT_BYTES_MAX));
            self.cut = length - self.bytes.len();
        }
        Ok(false)
    }

    fn count_rest(&mut self, reader: &mut BufReader<File>, budget: &Budget<'_>) -> Result<(), Fault> {
        let mut read = 0;
        while self.stop.is_none() && read < COUNT_BYTES_MAX {
            let length = pass_line(reader, budget, &mut self.stop, |_| {})?;
            if length == 0 {
                self.counted = true;
                return Ok(());
            }
            self.more = true;
            self.lines += 1;
            read += length;
        }
        Ok(())
    }

    fn first_missing(&self) -> bool {
        self.whole == 0 && self.cut == 0
    }

    fn render(&self) -> String {
        let bytes = match self.bytes.strip_prefix(BOM.as_bytes()) {
            Some(rest) if self.first == 1 => rest,
            _ => &self.bytes,
        };
        let (mut text, odd) = decode(bytes);
        let mut notes = Vec::new();
        if odd > 0 {
            let bytes = count(odd, "byte");
            notes.push(format!("[not plain UTF-8 text: {bytes} shown as \\xNN]"));
        }
        if text.len() > TEXT_BYTES_MAX {
            text.truncate(floor_char(text.as_bytes(), TEXT_BYTES_MAX));
            notes
                .push("[the end of these lines is left out: with the escapes they exceed 50 KiB]".to_owned());
        }
        notes.extend(self.position());
        if !notes.is_empty() {
            if !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&notes.join("\n"));
        }
        text
    }

    /// Where in the file this is, if anything of it is not shown.
    fn position(&self) -> Option<String> {
        let total = if self.counted {
            format!(" of {}", self.lines)
        } else {
            String::new()
        };
        let next = self.first + self.whole.max(1);
        let go_on = if self.counted && next > self.lines {
            String::new()
        } else {
            format!("; continue with offset={next}")
        };
        if self.cut > 0 {
            return Some(format!(
                "[line {}{total} is longer than 50 KiB: {} bytes of it left out{go_on}]",
                self.first, self.cut
            ));
        }
        if !self.more {
            return None;
        }
        Some(format!("[lines {}-{}{total}{go_on}]", self.first, next - 1))
    }
}

/// Refuses a binary file before anything of it is shown.
fn probe(reader: &mut BufReader<File>) -> Result<(), Fault> {
    let head = reader.fill_buf().map_err(Fault::Io)?;
    let head = &head[..head.len().min(BINARY_PROBE_BYTES)];
    if matches!(head, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) {
        return Err(Fault::Binary(
            "not UTF-8; it looks like UTF-16 (convert it with iconv)".to_owned(),
        ));
    }
    match head.iter().position(|byte| *byte == 0) {
        Some(at) => Err(Fault::Binary(format!(
            "a binary file: it has a NUL byte at offset {at}"
        ))),
        None => Ok(()),
    }
}

/// Passes one line with its end to `each` in parts; gives its length, 0 at the end of the file.
fn pass_line(
    reader: &mut BufReader<File>,
    budget: &Budget<'_>,
    stop: &mut Option<Stop>,
    mut each: impl FnMut(&[u8]),
) -> Result<usize, Fault> {
    let mut length = 0;
    loop {
        let fresh = reader.buffer().is_empty();
        if fresh {
            *stop = budget.stop();
            if stop.is_some() {
                return Ok(length);
            }
        }
        let block = reader.fill_buf().map_err(Fault::Io)?;
        if block.is_empty() {
            return Ok(length);
        }
        let end = block.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        let used = end.unwrap_or(block.len());
        each(&block[..used]);
        reader.consume(used);
        length += used;
        if end.is_some() {
            return Ok(length);
        }
    }
}

/// The largest place up to `at` that does not split a character.
fn floor_char(bytes: &[u8], at: usize) -> usize {
    let is_inside = |place: usize| bytes.get(place).is_some_and(|byte| byte & 0xc0 == 0x80);
    // A character has at most four bytes; what is longer is no UTF-8 and may be split anywhere.
    (at.saturating_sub(3)..=at)
        .rev()
        .find(|place| !is_inside(*place))
        .unwrap_or(at)
}

/// Text with its odd bytes escaped, within the limit, and how many there were.
fn decode(bytes: &[u8]) -> (String, usize) {
    let nuls = bytes.iter().filter(|byte| **byte == 0).count();
    let invalid: usize = bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    if nuls + invalid == 0 {
        return (String::from_utf8_lossy(bytes).into_owned(), 0);
    }
    let mut text = String::with_capacity(bytes.len() + 3 * (nuls + invalid));
    escape_into(&mut text, bytes, |c| c == '\0');
    (text, nuls + invalid)
}
