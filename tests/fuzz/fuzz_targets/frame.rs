//! Any bytes as frames of every direction: no panic, no memory beyond the cap, and what decodes
//! encodes to the same message again.
#![no_main]

use ferrum_proto::control::{FromLauncher, ToLauncher};
use ferrum_proto::frame::{FrameReader, encode};
use ferrum_proto::reply::FromHost;
use ferrum_proto::request::ToHost;
use libfuzzer_sys::fuzz_target;

const CAP: usize = 1 << 16;

macro_rules! read_all {
    ($message:ty, $bytes:expr) => {{
        let mut reader = FrameReader::new(CAP);
        reader.push($bytes);
        while let Ok(Some(message)) = reader.next::<$message>() {
            let again = encode(&message, CAP * 2).expect("what was decoded can be encoded");
            let mut second = FrameReader::new(CAP * 2);
            second.push(&again);
            assert_eq!(second.next::<$message>(), Ok(Some(message)));
        }
    }};
}

fuzz_target!(|bytes: &[u8]| {
    read_all!(ToHost, bytes);
    read_all!(FromHost, bytes);
    read_all!(ToLauncher, bytes);
    read_all!(FromLauncher, bytes);
});
