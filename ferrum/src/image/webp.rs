//! WebP: one RIFF container of chunks (RFC 9649), whole to its stated length.

use super::{Facts, Fault, sides};

const MIME: &str = "image/webp";
/// In the flags of an extended file.
const ANIMATED: u8 = 0x02;

pub(super) fn facts(bytes: &[u8]) -> Result<Facts, Fault> {
    let stated = number(bytes, 4, 4).ok_or("its header is cut")? as usize;
    let whole = bytes
        .get(12..stated.saturating_add(8))
        .ok_or("it ends before its stated length")?;
    let mut rest = whole;
    let mut canvas = None;
    let mut has_pixels = false;
    while !rest.is_empty() {
        let kind = rest.get(..4).ok_or("it ends in the middle of a chunk")?;
        let length = number(rest, 4, 4).ok_or("it ends in the middle of a chunk")? as usize;
        let data = rest
            .get(8..length.saturating_add(8))
            .ok_or("it ends in the middle of a chunk")?;
        let found = match kind {
            b"VP8X" => extended(data)?,
            b"VP8 " => Some(lossy(data)?),
            b"VP8L" => Some(lossless(data)?),
            _ => None,
        };
        has_pixels |= kind == b"VP8 " || kind == b"VP8L";
        if canvas.is_none() {
            canvas = found;
        }
        // Chunks are padded to an even length; the last padding byte is often left out.
        rest = rest.get(8 + length.next_multiple_of(2)..).unwrap_or_default();
    }
    canvas
        .filter(|_| has_pixels)
        .ok_or(Fault::Damage("it holds no pixels"))
}

fn extended(data: &[u8]) -> Result<Option<Facts>, Fault> {
    if data.first().is_some_and(|flags| flags & ANIMATED != 0) {
        return Err(Fault::Moves);
    }
    let side = |at| {
        number(data, at, 3)
            .map(|value| value + 1)
            .ok_or("its header is cut")
    };
    sides(MIME, side(4)?, side(7)?).map(Some)
}

fn lossy(data: &[u8]) -> Result<Facts, Fault> {
    if data.get(3..6) != Some(&[0x9d, 0x01, 0x2a]) {
        return Err("its first frame is damaged".into());
    }
    let side = |at| {
        number(data, at, 2)
            .map(|value| value & 0x3fff)
            .ok_or("its first frame is cut")
    };
    sides(MIME, side(6)?, side(8)?)
}

fn lossless(data: &[u8]) -> Result<Facts, Fault> {
    if data.first() != Some(&0x2f) {
        return Err("its first frame is damaged".into());
    }
    let bits = number(data, 1, 4).ok_or("its first frame is cut")?;
    sides(MIME, (bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1)
}

/// `count` bytes, lowest first.
fn number(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + count)?;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |value, byte| value << 8 | u32::from(*byte)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
        let length = u32::try_from(data.len()).expect("small").to_le_bytes();
        let padding = &[0][..data.len() % 2];
        [&kind[..], &length, data, padding].concat()
    }

    fn webp(chunks: &[Vec<u8>]) -> Vec<u8> {
        let body = chunks.concat();
        let length = u32::try_from(body.len() + 4).expect("small").to_le_bytes();
        [b"RIFF", &length[..], b"WEBP", &body].concat()
    }

    /// 24 x 16 in each form.
    fn lossy() -> Vec<u8> {
        chunk(b"VP8 ", &[0, 0, 0, 0x9d, 0x01, 0x2a, 24, 0, 16, 0, 7])
    }

    fn lossless() -> Vec<u8> {
        let bits: u32 = 23 | 15 << 14;
        chunk(b"VP8L", &[&[0x2f][..], &bits.to_le_bytes(), b"pixels"].concat())
    }

    fn extended(flags: u8) -> Vec<u8> {
        chunk(b"VP8X", &[flags, 0, 0, 0, 23, 0, 0, 15, 0, 0])
    }

    #[test]
    fn each_form_has_its_size_and_a_cut_one_has_none() {
        for whole in [
            webp(&[lossy()]),
            webp(&[lossless()]),
            webp(&[extended(0), chunk(b"ICCP", b"x"), lossless()]),
        ] {
            let found = facts(&whole).expect("whole");
            assert_eq!((found.mime, found.width, found.height), (MIME, 24, 16));
            for length in 12..whole.len() {
                assert!(facts(&whole[..length]).is_err(), "cut at {length}");
            }
        }
        assert!(facts(&webp(&[extended(0)])).is_err(), "no pixels");
        assert!(
            facts(&webp(&[extended(ANIMATED), lossless()])).is_err(),
            "an animation"
        );
        let wide = chunk(b"VP8X", &[0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(facts(&webp(&[wide, lossless()])), Err(Fault::Sides(65_537, 1)));
    }
}
