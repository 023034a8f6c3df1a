//! Where pictures come from: files, as the operator names or a terminal pastes them, and `data:`
//! addresses.

use super::{ImageError, PICTURE_BYTES_MAX};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The picture's name, for messages and the session, and its bytes.
///
/// # Errors
/// [`ImageError`] for what cannot be read, is no regular file, or is larger than a turn takes.
pub fn read(source: &str) -> Result<(String, Vec<u8>), ImageError> {
    if source.starts_with("data:") {
        return decode(source).map(|bytes| ("the data: address".to_owned(), bytes));
    }
    let pasted = unquote(source);
    // A file may be called anything, so the words as they are come first.
    let name = match pasted {
        Some(pasted) if !Path::new(source).exists() => pasted,
        _ => source.to_owned(),
    };
    let bytes = file(&name)?;
    Ok((name, bytes))
}

fn file(name: &str) -> Result<Vec<u8>, ImageError> {
    let fail = |what: String| ImageError::Read(name.to_owned(), what);
    // Non-blocking, so that a pipe cannot hold us up.
    let opened = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(name);
    let file = opened.map_err(|error| match error.kind() {
        ErrorKind::NotFound => fail("there is no such image file".to_owned()),
        _ => fail(format!("the image cannot be opened: {error}")),
    })?;
    let meta = file
        .metadata()
        .map_err(|error| fail(format!("the image cannot be examined: {error}")))?;
    if !meta.is_file() {
        return Err(fail(
            "is not a regular file, so no image is read from it".to_owned(),
        ));
    }
    let mut bytes = Vec::new();
    let read = file.take(PICTURE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| fail(format!("the image cannot be read: {error}")))?;
    if bytes.len() > PICTURE_BYTES_MAX {
        return Err(ImageError::PictureTooHeavy(name.to_owned()));
    }
    Ok(bytes)
}

/// The stated type is not believed: the bytes say what they are.
fn decode(address: &str) -> Result<Vec<u8>, ImageError> {
    let fail = |what: &str| ImageError::Read("the data: address".to_owned(), what.to_owned());
    let (head, data) = address.split_once(',').ok_or_else(|| fail("it holds no data"))?;
    if !head.starts_with("data:image/") || !head.ends_with(";base64") {
        return Err(fail("it is not of the form data:image/...;base64,..."));
    }
    if data.len() / 4 * 3 > PICTURE_BYTES_MAX {
        return Err(ImageError::PictureTooHeavy("the data: address".to_owned()));
    }
    STANDARD
        .decode(data.trim())
        .map_err(|_| fail("its base64 is damaged"))
}

/// A path as a terminal pastes a dropped file: in quotes, or with backslashes. `None` where the
/// text is neither.
fn unquote(text: &str) -> Option<String> {
    for quote in ['\'', '"'] {
        let inner = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        if let Some(inner) = inner {
            return (!inner.contains(quote)).then(|| inner.to_owned());
        }
    }
    if !text.contains('\\') {
        return None;
    }
    let mut out = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        out.push(if letter == '\\' { letters.next()? } else { letter });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pasted_paths_lose_their_quotes() {
        for (text, found) in [
            ("'my pic (1).png'", Some("my pic (1).png")),
            ("\"my pic.png\"", Some("my pic.png")),
            ("my\\ pic\\ \\(1\\).png", Some("my pic (1).png")),
            ("a.png", None),
            ("'a' 'b'", None),
            ("a\\", None),
        ] {
            assert_eq!(unquote(text).as_deref(), found, "{text}");
        }
    }

    #[test]
    fn only_regular_files_of_a_size_are_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let name = |name: &str| dir.path().join(name).display().to_string();
        nix::unistd::mkfifo(name("pipe").as_str(), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        for (name, word) in [
            (name("pipe"), "regular"),
            (name(""), "regular"),
            (name("absent"), "no such"),
        ] {
            let error = read(&name).expect_err(&name);
            assert!(error.to_string().contains(word), "{error}");
        }
        let large = File::create(name("large")).expect("a file");
        large.set_len(PICTURE_BYTES_MAX as u64).expect("its size");
        assert!(read(&name("large")).is_ok());
        large.set_len(PICTURE_BYTES_MAX as u64 + 1).expect("its size");
        let too_heavy = ImageError::PictureTooHeavy(name("large"));
        assert_eq!(read(&name("large")), Err(too_heavy));
    }

    #[test]
    fn data_addresses_are_decoded() {
        assert_eq!(
            read("data:image/png;base64,aGk=").map(|(_, bytes)| bytes),
            Ok(b"hi".to_vec())
        );
        for bad in [
            "data:image/png,aGk=",
            "data:text/plain;base64,aGk=",
            "data:image/png;base64,a",
            "data:",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = unquote(&text);
        }
    }
}
