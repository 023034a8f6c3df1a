//! Any bytes as a seal: no panic, and what decodes encodes to the same value again.
#![no_main]

use ferrum_proto::frame::{decode_value, encode_value};
use ferrum_proto::limits::SEAL_BYTES_MAX;
use ferrum_proto::seal::Seal;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(seal) = decode_value::<Seal>(bytes) {
        let again = encode_value(&seal, SEAL_BYTES_MAX).expect("what was decoded can be encoded");
        assert_eq!(decode_value::<Seal>(&again), Ok(seal));
    }
});
