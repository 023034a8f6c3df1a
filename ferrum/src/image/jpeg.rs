//! JPEG: marker segments and entropy-coded data (ITU-T T.81, annex B), up to the end marker.

use super::{Facts, Fault, sides};

pub(super) fn facts(bytes: &[u8]) -> Result<Facts, Fault> {
    const CUT: &str = "it ends before its end marker";
    let mut rest = bytes.get(2..).ok_or(CUT)?;
    let mut facts = None;
    let mut has_data = false;
    loop {
        let (marker, after) = marker(rest).ok_or(CUT)?;
        match marker {
            // End of image.
            0xd9 => {
                let facts = facts.filter(|_| has_data);
                return facts.ok_or(Fault::Damage("it holds no pixels"));
            }
            // Stand-alone markers.
            0x01 | 0xd0..=0xd7 => {
                rest = after;
                continue;
            }
            0x00 | 0xd8 => return Err("a marker is where none may be".into()),
            _ => {}
        }
        let length = after.first_chunk::<2>().ok_or(CUT)?;
        let length = usize::from(u16::from_be_bytes(*length));
        let segment = after.get(2..length).ok_or("it ends in the middle of a segment")?;
        rest = &after[length..];
        match marker {
            // A frame header; c4, c8 and cc are something else.
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                let frame = segment.get(1..5).ok_or("its frame header is cut")?;
                let height = u16::from_be_bytes([frame[0], frame[1]]);
                let width = u16::from_be_bytes([frame[2], frame[3]]);
                facts = Some(sides("image/jpeg", u32::from(width), u32::from(height))?);
            }
            // A scan: data up to the next marker that is not part of it.
            0xda => {
                let data = scan(rest);
                has_data |= data > 0;
                rest = &rest[data..];
            }
            _ => {}
        }
    }
}

/// The next marker, after any number of fill bytes, and what follows it.
fn marker(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let fill = bytes.iter().take_while(|byte| **byte == 0xff).count();
    let marker = *bytes.get(fill)?;
    (fill > 0).then(|| (marker, &bytes[fill + 1..]))
}

/// Length of the entropy-coded data. Inside it `ff` is followed by 0 or a restart marker.
fn scan(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(found) = bytes[at..].iter().position(|byte| *byte == 0xff) {
        match bytes.get(at + found + 1) {
            Some(0x00 | 0xd0..=0xd7) => at += found + 2,
            _ => return at + found,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jpeg(width: u16, height: u16) -> Vec<u8> {
        let [h1, h0] = height.to_be_bytes();
        let [w1, w0] = width.to_be_bytes();
        [
            &b"\xff\xd8"[..],
            // A thumbnail with an end marker of its own, inside a segment.
            b"\xff\xe1\x00\x06\xff\xd8\xff\xd9",
            &[0xff, 0xc0, 0, 11, 8, h1, h0, w1, w0, 1, 1, 0x11, 0],
            b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00",
            b"data\xff\x00\xff\xd0more",
            b"\xff\xff\xd9",
        ]
        .concat()
    }

    #[test]
    fn a_whole_file_has_its_size_and_a_cut_one_has_none() {
        let whole = jpeg(24, 16);
        let found = facts(&whole).expect("whole");
        assert_eq!((found.mime, found.width, found.height), ("image/jpeg", 24, 16));
        for length in 2..whole.len() {
            assert!(facts(&whole[..length]).is_err(), "cut at {length}");
        }
        assert!(facts(&[whole, b"a second picture".to_vec()].concat()).is_ok());
        assert_eq!(facts(&jpeg(8_001, 2)), Err(Fault::Sides(8_001, 2)));
        assert!(facts(&jpeg(0, 2)).is_err());
    }

    #[test]
    fn segments_must_be_where_they_are_stated() {
        assert!(facts(b"\xff\xd8\xff\xd9").is_err());
        assert!(facts(b"\xff\xd8junk\xff\xd9").is_err());
        assert!(facts(b"\xff\xd8\xff\xe0\x00\x01\xff\xd9").is_err());
        assert!(facts(b"\xff\xd8\xff\xe0\xff\xff\xff\xd9").is_err());
    }
}
