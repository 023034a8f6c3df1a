//! PNG: chunks with length, type and checksum (ISO/IEC 15948), from the header to the end chunk.

use super::{Facts, Fault, sides};

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
/// Length and type before a chunk's data, checksum behind.
const AROUND: usize = 12;

pub(super) fn facts(bytes: &[u8]) -> Result<Facts, Fault> {
    let mut rest = bytes.strip_prefix(SIGNATURE).ok_or("its signature is wrong")?;
    let mut facts = None;
    let mut has_data = false;
    loop {
        let head = rest.first_chunk::<8>().ok_or("it ends before its end chunk")?;
        let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let kind = &rest[4..8];
        if facts.is_none() {
            let header = rest.get(8..16).filter(|_| kind == b"IHDR" && length == 13);
            let header = header.ok_or("it does not begin with its header")?;
            let number =
                |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
            facts = Some(sides("image/png", number(0), number(4))?);
        }
        let chunk = rest
            .get(..length.saturating_add(AROUND))
            .ok_or("it ends in the middle of a chunk")?;
        let (body, stated) = chunk.split_at(chunk.len() - 4);
        if crc(&body[4..]).to_be_bytes() != *stated {
            return Err("a checksum is wrong".into());
        }
        has_data |= kind == b"IDAT" && length > 0;
        match (kind == b"IEND", facts) {
            (true, Some(facts)) if has_data => return Ok(facts),
            (true, _) => return Err("it holds no pixels".into()),
            (false, _) => rest = &rest[chunk.len()..],
        }
    }
}

/// CRC-32 as PNG has it, by a table of 256 entries.
fn crc(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    let mut crc = u32::MAX;
    for byte in bytes {
        crc = TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8);
    }
    !crc
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut n: u32 = 0;
    while n < 256 {
        let mut value = n;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 {
                0xedb8_8320 ^ (value >> 1)
            } else {
                value >> 1
            };
            bit += 1;
        }
        table[n as usize] = value;
        n += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
        let body = [&kind[..], data].concat();
        let length = u32::try_from(data.len()).expect("small").to_be_bytes();
        [&length[..], &body, &crc(&body).to_be_bytes()].concat()
    }

    fn png(width: u32, height: u32) -> Vec<u8> {
        let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 2, 0, 0, 0]].concat();
        [
            SIGNATURE,
            &chunk(b"IHDR", &header),
            &chunk(b"IDAT", b"pixels"),
            &chunk(b"IEND", b""),
        ]
        .concat()
    }

    #[test]
    fn the_checksum_is_the_one_of_the_standard() {
        assert_eq!(crc(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn a_whole_file_has_its_size_and_a_cut_one_has_none() {
        let whole = png(24, 16);
        let facts_of = facts(&whole).expect("whole");
        assert_eq!(
            (facts_of.mime, facts_of.width, facts_of.height),
            ("image/png", 24, 16)
        );
        for length in 8..whole.len() {
            assert!(facts(&whole[..length]).is_err(), "cut at {length}");
        }
        let mut wrong = whole.clone();
        let at = whole.len() - 20;
        wrong[at] ^= 1;
        assert!(facts(&wrong).is_err());
        assert!(facts(&[whole, b"more".to_vec()].concat()).is_ok());
    }

    #[test]
    fn sides_are_judged_by_the_header_alone() {
        assert!(facts(&png(8_000, 8_000)).is_ok());
        assert_eq!(facts(&png(8_001, 1)), Err(Fault::Sides(8_001, 1)));
        assert_eq!(
            facts(&png(60_000, 60_000)[..40]),
            Err(Fault::Sides(60_000, 60_000))
        );
        assert!(facts(&png(0, 5)).is_err());
    }
}
