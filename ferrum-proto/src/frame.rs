//! Framing: `u32` little-endian length, one version byte, one bincode value.
//!
//! The length counts the version byte and the value. It is compared with the reader's cap before
//! any memory is taken for it, and the value must use it up exactly. Every error here is final
//! for the connection: the peer is broken or hostile, and there is no way to find the next frame.

use bincode::{Decode, Encode, config};

/// First byte of each frame's body.
pub const FRAME_VERSION: u8 = 1;

const LENGTH_BYTES: usize = 4;

/// Why a frame was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// The stated length is above the cap of this direction.
    TooLong { stated: usize, cap: usize },
    /// The stated length leaves no room for the version byte and a value.
    TooShort,
    /// The version byte is not [`FRAME_VERSION`].
    Version(u8),
    /// The body is not one value of the expected type.
    Malformed,
    /// Bytes were left over after the value.
    Trailing(usize),
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLong { stated, cap } => {
                write!(f, "frame of {stated} bytes, at most {cap} allowed")
            }
            Self::TooShort => write!(f, "frame too short to hold a message"),
            Self::Version(v) => write!(f, "frame version {v}, expected {FRAME_VERSION}"),
            Self::Malformed => write!(f, "frame does not hold a known message"),
            Self::Trailing(n) => write!(f, "{n} bytes left over after the message"),
        }
    }
}

impl std::error::Error for FrameError {}

/// Decoding stops here whatever the frame's own cap: bincode counts claimed bytes against it
/// before it takes memory.
const DECODE_BYTES_MAX: usize = crate::limits::SEAL_BYTES_MAX;

/// Encodes one bare value, without a frame. Used for the seal's memory file.
///
/// # Errors
/// [`FrameError::TooLong`] when the value needs more than `cap` bytes.
pub fn encode_value<T: Encode>(value: &T, cap: usize) -> Result<Vec<u8>, FrameError> {
    let bytes = bincode::encode_to_vec(value, config::standard()).map_err(|_| FrameError::Malformed)?;
    if bytes.len() > cap {
        return Err(FrameError::TooLong {
            stated: bytes.len(),
            cap,
        });
    }
    Ok(bytes)
}

/// Decodes one bare value that must use up `bytes`.
///
/// # Errors
/// [`FrameError::Malformed`] or [`FrameError::Trailing`].
pub fn decode_value<T: Decode<()>>(bytes: &[u8]) -> Result<T, FrameError> {
    let limits = config::standard().with_limit::<DECODE_BYTES_MAX>();
    let (value, used) = bincode::decode_from_slice(bytes, limits).map_err(|_| FrameError::Malformed)?;
    if used != bytes.len() {
        return Err(FrameError::Trailing(bytes.len() - used));
    }
    Ok(value)
}

/// Encodes one message as a frame.
///
/// # Errors
/// [`FrameError::TooLong`] when the message is above `cap`: the sender learns it before the
/// receiver would.
pub fn encode<T: Encode>(message: &T, cap: usize) -> Result<Vec<u8>, FrameError> {
    let mut frame = vec![0, 0, 0, 0, FRAME_VERSION];
    bincode::encode_into_std_write(message, &mut frame, config::standard())
        .map_err(|_| FrameError::Malformed)?;
    let length = frame.len() - LENGTH_BYTES;
    match u32::try_from(length) {
        Ok(stated) if length <= cap => {
            frame[..LENGTH_BYTES].copy_from_slice(&stated.to_le_bytes());
            Ok(frame)
        }
        _ => Err(FrameError::TooLong { stated: length, cap }),
    }
}

/// Collects bytes of one direction and yields its messages.
pub struct FrameReader {
    bytes: Vec<u8>,
    start: usize,
    cap: usize,
}

impl FrameReader {
    /// A reader that refuses frames above `cap` bytes.
    #[must_use]
    pub fn new(cap: usize) -> Self {
        Self {
            bytes: Vec::new(),
            start: 0,
            cap,
        }
    }

    /// Takes bytes as they came from the socket.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 && self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message, or `None` until more bytes come.
    ///
    /// # Errors
    /// Any [`FrameError`]; the connection must then be given up.
    #[expect(
        clippy::should_implement_trait,
        reason = "it is generic over the message and can fail"
    )]
    pub fn next<T: Decode<()>>(&mut self) -> Result<Option<T>, FrameError> {
        let rest = &self.bytes[self.start..];
        let Some((prefix, body)) = rest.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*prefix) as usize;
        if length > self.cap {
            return Err(FrameError::TooLong {
                stated: length,
                cap: self.cap,
            });
        }
        if length < 2 {
            return Err(FrameError::TooShort);
        }
        if body.len() < length {
            return Ok(None);
        }
        if body[0] != FRAME_VERSION {
            return Err(FrameError::Version(body[0]));
        }
        let message = decode_value(&body[1..length])?;
        self.start += LENGTH_BYTES + length;
        if self.start > (64 << 10) {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        Ok(Some(message))
    }

    /// True when bytes of an unfinished frame are held: a peer that closes now cut it.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.start < self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_one(bytes: &[u8], cap: usize) -> Result<Option<String>, FrameError> {
        let mut reader = FrameReader::new(cap);
        reader.push(bytes);
        reader.next()
    }

    #[test]
    fn a_frame_at_the_cap_passes_and_one_byte_more_is_refused() {
        let text = "x".repeat(100);
        let exact = encode(&text, 102).expect("1 version + 1 length + 100 bytes");
        assert_eq!(read_one(&exact, 102), Ok(Some(text.clone())));
        assert_eq!(
            encode(&text, 101),
            Err(FrameError::TooLong {
                stated: 102,
                cap: 101
            })
        );
        assert_eq!(
            read_one(&exact, 101),
            Err(FrameError::TooLong {
                stated: 102,
                cap: 101
            })
        );
    }

    #[test]
    fn a_huge_stated_length_takes_no_memory() {
        assert!(matches!(
            read_one(&[0xff; 8], 4096),
            Err(FrameError::TooLong { .. })
        ));
        // Inside the frame: a string that claims 2^40 bytes.
        let mut body = vec![FRAME_VERSION, 253];
        body.extend_from_slice(&(1u64 << 40).to_le_bytes());
        let mut frame = u32::try_from(body.len()).expect("small").to_le_bytes().to_vec();
        frame.extend_from_slice(&body);
        assert_eq!(read_one(&frame, 4096), Err(FrameError::Malformed));
    }

    #[test]
    fn trailing_bytes_wrong_version_and_empty_frames_are_refused() {
        assert_eq!(
            read_one(&[4, 0, 0, 0, FRAME_VERSION, 1, b'a', b'b'], 99),
            Err(FrameError::Trailing(1))
        );
        assert_eq!(
            read_one(&[3, 0, 0, 0, 9, 1, b'a'], 99),
            Err(FrameError::Version(9))
        );
        assert_eq!(read_one(&[0, 0, 0, 0], 99), Err(FrameError::TooShort));
        assert_eq!(
            read_one(&[1, 0, 0, 0, FRAME_VERSION], 99),
            Err(FrameError::TooShort)
        );
    }

    #[test]
    fn frames_split_at_every_byte_arrive_whole() {
        let one = encode(&"first".to_owned(), 99).expect("fits");
        let two = encode(&"second".to_owned(), 99).expect("fits");
        let all = [one, two].concat();
        for cut in 0..all.len() {
            let mut reader = FrameReader::new(99);
            let mut seen: Vec<String> = Vec::new();
            for part in [&all[..cut], &all[cut..]] {
                reader.push(part);
                while let Some(text) = reader.next().expect("valid") {
                    seen.push(text);
                }
            }
            assert_eq!(seen, ["first", "second"]);
            assert!(!reader.is_partial());
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            let mut reader = FrameReader::new(256);
            reader.push(&bytes);
            while let Ok(Some(_)) = reader.next::<crate::request::ToHost>() {}
            let mut reader = FrameReader::new(256);
            reader.push(&bytes);
            while let Ok(Some(_)) = reader.next::<crate::reply::FromHost>() {}
            let mut reader = FrameReader::new(256);
            reader.push(&bytes);
            while let Ok(Some(_)) = reader.next::<crate::control::ToLauncher>() {}
            let _ = decode_value::<crate::seal::Seal>(&bytes);
        }
    }
}
