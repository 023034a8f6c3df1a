//! Marks the wire: every change to its sources is another mark.

use std::path::Path;

fn main() {
    let sources = Path::new("src");
    let mut names: Vec<_> = std::fs::read_dir(sources)
        .expect("the sources of the wire")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    names.sort();
    let texts = names.iter().map(|path| std::fs::read(path).expect("a source"));
    // FNV-1a: a mark, not a secret.
    let mark = texts.flatten().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rustc-env=FERRUM_WIRE={mark:016x}");
}
