//! Pictures that the operator attaches: read as regular files, looked through from their first
//! byte to their last, and passed on as they are. Nothing is decoded here: a cut or damaged file
//! is found by its structure, a huge one by its header.

mod jpeg;
mod png;
mod source;
mod webp;

pub use source::read;

use crate::agent::message::{ContentBlock, Message};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Pictures of one turn.
pub const IMAGES_MAX: usize = 8;
/// Bytes of one turn's pictures.
pub const TURN_BYTES_MAX: usize = 20 << 20;
/// Bytes of one picture: as text it must fit a session record of 16 MiB.
pub const PICTURE_BYTES_MAX: usize = 11 << 20;
/// Pictures of a session, and their bytes: all of them are sent with each request.
pub const SESSION_IMAGES_MAX: usize = 32;
pub const SESSION_BYTES_MAX: usize = 64 << 20;
/// Pixels of a side. More is refused by providers, and once it is in a session, every later
/// request would be.
const SIDE_MAX: u32 = 8_000;

/// What a picture is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    pub mime: &'static str,
    /// In pixels, as stored; a stated orientation is not applied.
    pub width: u32,
    pub height: u32,
}

/// Why a picture is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    #[error("{0}: {1}")]
    Read(String, String),
    #[error("{0} is empty, so it is not an image")]
    Empty(String),
    #[error("{0} is {1}; an image must be PNG, JPEG or WebP")]
    Format(String, &'static str),
    #[error("{0} is truncated or damaged, so it is not sent: {1}")]
    Damaged(String, &'static str),
    #[error("{0} is an animation, and only stills are taken")]
    Moving(String),
    #[error("{0} has {1} x {2} pixels; a side may have {SIDE_MAX} at most")]
    TooLarge(String, u32, u32),
    #[error("{0} images; a turn takes {IMAGES_MAX} at most")]
    TooMany(usize),
    #[error("{0} is larger than {mib} MiB", mib = PICTURE_BYTES_MAX >> 20)]
    PictureTooHeavy(String),
    #[error("the images of this turn are larger than {} MiB together", TURN_BYTES_MAX >> 20)]
    TooHeavy,
    #[error("the session would hold more than {SESSION_IMAGES_MAX} images or {} MiB of them; begin a new one",
        SESSION_BYTES_MAX >> 20)]
    SessionFull,
}

/// What is wrong inside a file.
type Damage = &'static str;

/// What the bytes are, whatever their file is called.
///
/// # Errors
/// [`ImageError`] for anything but a whole picture of the three formats.
pub fn examine(name: &str, bytes: &[u8]) -> Result<Facts, ImageError> {
    let found = match bytes {
        [] => return Err(ImageError::Empty(name.to_owned())),
        [0x89, b'P', b'N', b'G', ..] => png::facts(bytes),
        [0xff, 0xd8, 0xff, ..] => jpeg::facts(bytes),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => webp::facts(bytes),
        [b'G', b'I', b'F', b'8', ..] => return Err(ImageError::Format(name.to_owned(), "a GIF")),
        [b'B', b'M', ..] => return Err(ImageError::Format(name.to_owned(), "a BMP")),
        _ => {
            return Err(ImageError::Format(
                name.to_owned(),
                "not an image of a known kind",
            ));
        }
    };
    match found {
        Ok(facts) => Ok(facts),
        Err(Fault::Sides(width, height)) => Err(ImageError::TooLarge(name.to_owned(), width, height)),
        Err(Fault::Moves) => Err(ImageError::Moving(name.to_owned())),
        Err(Fault::Damage(what)) => Err(ImageError::Damaged(name.to_owned(), what)),
    }
}

/// What a reader of one format finds wrong.
#[derive(Debug, PartialEq, Eq)]
enum Fault {
    Damage(Damage),
    Sides(u32, u32),
    Moves,
}

impl From<Damage> for Fault {
    fn from(what: Damage) -> Self {
        Self::Damage(what)
    }
}

/// Refuses by the header alone, before anything else is looked at.
fn sides(mime: &'static str, width: u32, height: u32) -> Result<Facts, Fault> {
    if width == 0 || height == 0 {
        return Err("it states no size".into());
    }
    if width > SIDE_MAX || height > SIDE_MAX {
        return Err(Fault::Sides(width, height));
    }
    Ok(Facts { mime, width, height })
}

/// A picture that was taken.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    pub block: ContentBlock,
    /// What it is, for the operator.
    pub told: String,
}

/// Reads all of them, or none: files, or `data:` addresses.
///
/// # Errors
/// The first [`ImageError`].
pub fn attach(sources: &[String]) -> Result<Vec<Picture>, ImageError> {
    if sources.len() > IMAGES_MAX {
        return Err(ImageError::TooMany(sources.len()));
    }
    let mut total = 0;
    let mut pictures = Vec::new();
    for source in sources {
        let (name, bytes) = read(source)?;
        total += bytes.len();
        if total > TURN_BYTES_MAX {
            return Err(ImageError::TooHeavy);
        }
        let facts = examine(&name, &bytes)?;
        let Facts { mime, width, height } = facts;
        pictures.push(Picture {
            told: format!(
                "attached {name}: {mime}, {width} x {height} pixels, {} bytes",
                bytes.len()
            ),
            block: ContentBlock::Image {
                mime_type: mime.to_owned(),
                data_base64: STANDARD.encode(&bytes),
                sha256: Some(hex(&Sha256::digest(&bytes))),
                source: Some(name),
            },
        });
    }
    Ok(pictures)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Whether `message` can follow what the session holds.
///
/// # Errors
/// [`ImageError::SessionFull`].
pub fn fits(messages: &[Message], message: &Message) -> Result<(), ImageError> {
    let all = messages
        .iter()
        .chain([message])
        .flat_map(|message| &message.content);
    let sizes: Vec<usize> = all
        .filter_map(|block| match block {
            ContentBlock::Image { data_base64, .. } => Some(data_base64.len() / 4 * 3),
            _ => None,
        })
        .collect();
    let new = message
        .content
        .iter()
        .any(|block| matches!(block, ContentBlock::Image { .. }));
    if new && (sizes.len() > SESSION_IMAGES_MAX || sizes.iter().sum::<usize>() > SESSION_BYTES_MAX) {
        return Err(ImageError::SessionFull);
    }
    Ok(())
}

/// Words in the place of pictures, for a model that takes none.
pub fn leave_out(messages: &mut [Message]) {
    for block in messages.iter_mut().flat_map(|message| &mut message.content) {
        if let ContentBlock::Image {
            mime_type, source, ..
        } = block
        {
            let name = source.as_deref().unwrap_or("without a name");
            *block = ContentBlock::Text {
                text: format!("[an image that this model cannot take: {name}, {mime_type}]\n"),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0usize..4) {
            let heads: [&[u8]; 4] = [b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF\x20\0\0\0WEBP"];
            let _ = examine("x", &[heads[kind], &bytes].concat());
        }
    }

    #[test]
    fn what_is_none_of_the_three_is_named() {
        let why = |bytes: &[u8]| examine("x.png", bytes).expect_err("refused").to_string();
        assert!(why(b"").contains("empty"));
        assert!(why(b"GIF89a").contains("a GIF") && why(b"GIF89a").contains("WebP"));
        assert!(why(b"<svg xmlns=").contains("not an image"));
        assert!(why(b"\xff\xd8\xff\xe0").contains("truncated"));
    }

    #[test]
    fn a_session_takes_so_many_and_no_more() {
        let image = || ContentBlock::Image {
            mime_type: "image/png".into(),
            data_base64: "AAAA".into(),
            sha256: None,
            source: None,
        };
        let with = |count: usize| Message {
            role: crate::agent::message::Role::User,
            content: (0..count).map(|_| image()).collect(),
            usage: None,
        };
        assert_eq!(fits(&[with(24)], &with(8)), Ok(()));
        assert_eq!(fits(&[with(25)], &with(8)), Err(ImageError::SessionFull));
        // A session that is full already goes on without more.
        assert_eq!(fits(&[with(40)], &with(0)), Ok(()));
        let mut messages = [with(1)];
        leave_out(&mut messages);
        assert!(messages[0].visible_text().contains("image/png"));
    }
}
