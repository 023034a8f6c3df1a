//! The chain: from fields to a line that proves its place. Pure.
//!
//! A line is `{"n":N,…,"mac":"…"}`. The MAC is HMAC-SHA-256 over the MAC before it and the line's
//! own bytes up to `,"mac"`; the one before the first is made of the log's name.

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Map, Value};
use sha2::Sha256;
use std::fmt::Write as _;

/// Bytes of a MAC.
pub const MAC_BYTES: usize = 32;
const MAC_FIELD: &[u8] = b",\"mac\":\"";
/// `,"mac":"` + 64 digits + `"}`.
const TAIL_BYTES: usize = MAC_FIELD.len() + 2 * MAC_BYTES + 2;

/// A MAC as it links one record to the next.
pub type Link = [u8; MAC_BYTES];

/// What is authenticated with. No `Debug`.
#[derive(Clone)]
pub struct Keyed(Hmac<Sha256>);

impl Keyed {
    #[must_use]
    pub fn new(key: &[u8; 32]) -> Self {
        // HMAC itself fills a short key up with zeros to a block.
        let mut block = [0; 64];
        block[..key.len()].copy_from_slice(key);
        Self(Hmac::new(&block.into()))
    }

    /// Names the key without giving it away.
    #[must_use]
    pub fn name(&self) -> String {
        hex(&self.mac(&[b"ferrum audit key"])[..4])
    }

    /// The link before the first record of a log.
    #[must_use]
    pub fn genesis(&self, log: &str) -> Link {
        self.mac(&[b"ferrum audit 1\0", log.as_bytes()])
    }

    fn mac(&self, parts: &[&[u8]]) -> Link {
        let mut mac = self.0.clone();
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().into()
    }
}

/// The end of a chain, to which records are added.
#[derive(Clone)]
pub struct Chain {
    keyed: Keyed,
    pub count: u64,
    pub head: Link,
}

impl Chain {
    /// A chain that stands at `count` records, the last of which has the MAC `head`.
    #[must_use]
    pub fn at(keyed: Keyed, count: u64, head: Link) -> Self {
        Self { keyed, count, head }
    }

    /// The next record as a line with its line end. The chain moves on with it.
    pub fn seal(&mut self, fields: &Map<String, Value>) -> Vec<u8> {
        let mut line = format!("{{\"n\":{}", self.count).into_bytes();
        for (name, value) in fields {
            line.push(b',');
            // Our own values have string keys and no failing serialiser.
            let _ = serde_json::to_writer(&mut line, name);
            line.push(b':');
            let _ = serde_json::to_writer(&mut line, value);
        }
        self.head = self.keyed.mac(&[&self.head, &line]);
        self.count += 1;
        line.extend_from_slice(MAC_FIELD);
        line.extend_from_slice(hex(&self.head).as_bytes());
        line.extend_from_slice(b"\"}\n");
        line
    }

    /// Follows a line that was read, without its line end.
    ///
    /// # Errors
    /// What is wrong with it; the chain then stays where it is.
    pub fn follow(&mut self, line: &[u8]) -> Result<(), String> {
        let (number, body, mac) = split(line).ok_or("is no audit record")?;
        let expected = self.keyed.mac(&[&self.head, body]);
        if mac == expected && number == self.count {
            self.head = mac;
            self.count += 1;
            return Ok(());
        }
        Err(match number {
            n if n > self.count => {
                format!("has number {n} where {} is next: records are missing", self.count)
            }
            n if n < self.count => {
                format!(
                    "has number {n} where {} is next: it was inserted or moved",
                    self.count
                )
            }
            _ => "was changed, or what stood before it was".to_owned(),
        })
    }
}

/// Number, authenticated bytes and MAC of a line.
#[must_use]
pub fn split(line: &[u8]) -> Option<(u64, &[u8], Link)> {
    let (body, tail) = line.split_at_checked(line.len().checked_sub(TAIL_BYTES)?)?;
    let digits = tail.strip_prefix(MAC_FIELD)?.strip_suffix(b"\"}")?;
    let rest = body.strip_prefix(b"{\"n\":")?;
    let end = rest
        .iter()
        .position(|b| !b.is_ascii_digit())
        .unwrap_or(rest.len());
    let number = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    Some((number, body, unhex(digits)?))
}

/// Lower-case digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// 32 bytes from 64 lower-case digits.
#[must_use]
pub fn unhex(digits: &[u8]) -> Option<[u8; 32]> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; 32];
    if digits.len() != 64 {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn keyed() -> Keyed {
        Keyed::new(&[7; 32])
    }

    fn chain() -> Chain {
        let keyed = keyed();
        let head = keyed.genesis("s");
        Chain::at(keyed, 0, head)
    }

    fn fields(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    fn sealed(count: usize) -> Vec<Vec<u8>> {
        let mut chain = chain();
        (0..count)
            .map(|n| chain.seal(&fields(json!({"type": "call", "text": format!("☃ \" {n}")}))))
            .collect()
    }

    fn first_fault(lines: &[Vec<u8>]) -> Option<(usize, String)> {
        let mut chain = chain();
        lines.iter().enumerate().find_map(|(at, line)| {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            chain.follow(line).err().map(|what| (at, what))
        })
    }

    #[test]
    fn a_line_is_json_and_names_its_place() {
        let lines = sealed(2);
        let value: Value = serde_json::from_slice(&lines[1]).unwrap();
        assert_eq!((&value["n"], &value["text"]), (&json!(1), &json!("☃ \" 1")));
        assert_eq!(value["mac"].as_str().map(str::len), Some(64));
        assert_eq!(first_fault(&lines), None);
    }

    #[test]
    fn every_change_is_found_at_its_place() {
        let good = sealed(5);
        let mut edited = good.clone();
        edited[2] = String::from_utf8(edited[2].clone())
            .unwrap()
            .replace("☃", "x")
            .into_bytes();
        assert!(matches!(first_fault(&edited), Some((2, what)) if what.contains("changed")));
        let mut cut = good.clone();
        cut.remove(2);
        assert!(matches!(first_fault(&cut), Some((2, what)) if what.contains("missing")));
        let mut doubled = good.clone();
        doubled.insert(3, good[1].clone());
        assert!(matches!(first_fault(&doubled), Some((3, what)) if what.contains("inserted or moved")));
        let mut swapped = good.clone();
        swapped.swap(1, 2);
        assert!(matches!(first_fault(&swapped), Some((1, what)) if what.contains("missing")));
        let mut renumbered = good.clone();
        renumbered.remove(2);
        renumbered[2] = String::from_utf8(renumbered[2].clone())
            .unwrap()
            .replace("\"n\":3", "\"n\":2")
            .into();
        assert!(matches!(first_fault(&renumbered), Some((2, what)) if what.contains("changed")));
        assert_eq!(
            first_fault(&[b"{}".to_vec()]),
            Some((0, "is no audit record".to_owned()))
        );
    }

    #[test]
    fn another_key_and_another_log_do_not_fit() {
        let line = &sealed(1)[0];
        let line = line.strip_suffix(b"\n").unwrap();
        let other = Keyed::new(&[8; 32]);
        assert!(
            Chain::at(other.clone(), 0, other.genesis("s"))
                .follow(line)
                .is_err()
        );
        assert!(Chain::at(keyed(), 0, keyed().genesis("t")).follow(line).is_err());
        assert_ne!(other.name(), keyed().name());
    }

    proptest! {
        #[test]
        fn any_single_byte_counts(at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let mut lines = sealed(3);
            let line = &mut lines[1];
            let at = at.index(line.len() - 1);
            line[at] ^= 1 << bit;
            prop_assert!(first_fault(&lines).is_some());
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = chain().follow(&bytes);
        }
    }
}
