//! Which words of a command name files that it changes.

use super::argv::{self, Arg, Valued};
use super::script::Word;

/// One file that a command changes.
#[derive(Debug, Clone)]
pub(super) struct Write {
    pub(super) word: Word,
    /// The change takes in everything below the path.
    pub(super) recursive: bool,
    /// The path itself goes away or is overwritten.
    pub(super) destroys: bool,
    /// It comes from an option of a command that mainly reads.
    pub(super) by_option: bool,
}

impl Write {
    /// One file, written as such.
    pub(super) fn of(word: Word) -> Self {
        Self {
            word,
            recursive: false,
            destroys: false,
            by_option: false,
        }
    }
}

/// Which operands are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operands {
    None,
    First,
    Second,
    Last,
    All,
    AllButFirst,
}

struct Row {
    names: &'static [&'static str],
    valued: Valued,
    operands: Operands,
    /// Options whose value is written: letters and long names.
    letters: &'static str,
    long: &'static [&'static str],
    /// The command mainly reads: refused as `arg-write`.
    reads: bool,
}

const fn row(
    names: &'static [&'static str],
    short: &'static str,
    long_valued: &'static [&'static str],
    operands: Operands,
    letters: &'static str,
    long: &'static [&'static str],
    reads: bool,
) -> Row {
    Row {
        names,
        valued: Valued {
            short,
            long: long_valued,
        },
        operands,
        letters,
        long,
        reads,
    }
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row(&["rm", "rmdir", "unlink", "shred", "mkfifo"], "ns", &[], Operands::All, "", &[], false),
    row(&["mkdir"], "m", &["mode"], Operands::All, "", &[], false),
    row(&["mknod"], "m", &["mode"], Operands::First, "", &[], false),
    row(&["mktemp"], "p", &["suffix"], Operands::First, "p", &["tmpdir"], false),
    row(&["touch"], "dtr", &["date", "reference", "time"], Operands::All, "", &[], false),
    row(&["truncate"], "sr", &["size", "reference"], Operands::All, "", &[], false),
    row(&["tee"], "", &[], Operands::All, "", &[], false),
    row(&["cp"], "tS", &["target-directory", "suffix"], Operands::Last, "t", &["target-directory"], false),
    row(&["mv"], "tS", &["target-directory", "suffix"], Operands::Last, "t", &["target-directory"], false),
    row(&["ln"], "tS", &["target-directory", "suffix"], Operands::Last, "t", &["target-directory"], false),
    row(&["install", "ginstall"], "tSmogT", &["target-directory", "suffix", "mode", "owner", "group"], Operands::Last, "t", &["target-directory"], false),
    row(&["chmod", "chown", "chgrp"], "", &["from", "reference"], Operands::AllButFirst, "", &[], false),
    row(&["setfacl"], "mxMX", &["modify", "remove"], Operands::All, "", &[], false),
    row(&["rsync"], "efBTMp", &["rsh", "exclude", "include", "filter", "exclude-from", "files-from", "backup-dir", "temp-dir", "partial-dir", "link-dest"], Operands::Last, "T", &["backup-dir", "temp-dir", "log-file"], false),
    row(&["unzip"], "dxP", &[], Operands::None, "d", &[], false),
    row(&["zip"], "xinbtTP", &["out", "exclude"], Operands::First, "b", &["out"], false),
    row(&["patch"], "piodBDFrVYz", &["strip", "input", "output", "directory", "reject-file"], Operands::First, "odr", &["output", "directory", "reject-file"], false),
    row(&["sort"], "koStT", &["key", "output", "buffer-size", "temporary-directory", "field-separator", "parallel"], Operands::None, "oT", &["output", "temporary-directory"], true),
    row(&["uniq"], "fsw", &["skip-fields", "skip-chars", "check-chars"], Operands::Second, "", &[], true),
    row(&["split"], "abCln", &["suffix-length", "bytes", "lines", "number", "additional-suffix"], Operands::Second, "", &[], true),
    row(&["csplit"], "bfn", &["prefix", "suffix-format", "digits"], Operands::None, "f", &["prefix"], true),
    row(&["tree"], "LPIoTH", &["filelimit", "charset"], Operands::None, "o", &["output"], true),
    row(&["xxd"], "cglosRne", &[], Operands::Second, "", &[], true),
    row(&["shuf"], "ion", &["output", "head-count", "input-range"], Operands::None, "o", &["output"], true),
    row(&["iconv"], "fto", &["output", "from-code", "to-code"], Operands::None, "o", &["output"], true),
    row(&["curl"], "oXHdFuAbceKmTwxyY", &["output", "output-dir", "header", "data", "request", "user", "cookie-jar", "dump-header", "trace", "trace-ascii", "stderr"], Operands::None, "ocD", &["output", "output-dir", "cookie-jar", "dump-header", "trace", "trace-ascii", "stderr"], false),
    row(&["wget"], "OPoatTeUQ", &["output-document", "directory-prefix", "output-file", "append-output", "header"], Operands::None, "OPoa", &["output-document", "directory-prefix", "output-file", "append-output"], false),
    row(&["gcc", "g++", "cc", "c++", "clang", "clang++", "tcc", "ld", "as", "gfortran", "nvcc"], "oIDLlxUTf", &["output"], Operands::None, "o", &["output"], false),
    row(&["rustc"], "oLlCAWDZ", &["out-dir", "edition", "crate-type", "emit", "target"], Operands::None, "o", &["out-dir"], false),
    row(&["javac"], "d", &[], Operands::None, "d", &[], false),
    row(&["pandoc", "dot", "protoc", "bison", "flex", "rst2html"], "oftTKGNE", &["output"], Operands::None, "o", &["output"], false),
    row(&["time"], "of", &["output", "format"], Operands::None, "o", &["output"], true),
    row(&["gawk"], "FvfileWodp", &[], Operands::None, "odp", &["pretty-print", "profile", "dump-variables"], true),
    row(&["strip"], "oNKR", &[], Operands::All, "o", &[], false),
];

#[rustfmt::skip]
const COMPRESSORS: &[&str] = &[
    "gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz", "lzma", "unlzma", "zstd", "unzstd", "compress",
    "uncompress", "lz4", "pigz",
];

/// The files that `words` (name first) change, as far as the tables know the command.
pub(super) fn of(name: &str, words: &[Word]) -> Vec<Write> {
    let rest = words.get(1..).unwrap_or(&[]);
    match name {
        "dd" => dd(rest),
        "sed" | "gsed" => sed(rest),
        "tar" | "gtar" | "bsdtar" => tar(rest),
        "find" => find(rest),
        _ if COMPRESSORS.contains(&name) => compress(rest),
        _ => ROWS
            .iter()
            .find(|row| row.names.contains(&name))
            .map_or(Vec::new(), |row| by_row(name, row, rest)),
    }
}

fn by_row(name: &str, row: &Row, rest: &[Word]) -> Vec<Write> {
    let args = argv::read(rest, &row.valued);
    let operands = argv::operands(&args);
    let recursive = match name {
        "rm" => argv::has(&args, "rR", &["recursive"]),
        "chmod" | "chown" | "chgrp" => argv::has(&args, "R", &["recursive"]),
        _ => false,
    };
    let mut out = Vec::new();
    for arg in &args {
        let value = match arg {
            Arg::Short(letter, Some(value), _) if row.letters.contains(*letter) => value,
            Arg::Long(given, Some(value), _) if row.long.iter().any(|long| argv::means(given, long)) => value,
            _ => continue,
        };
        out.push(write(value, false, false, row.reads));
    }
    // With an explicit target directory the operands are sources only.
    let directed = !out.is_empty() && matches!(row.operands, Operands::Last);
    // What is moved goes away as a whole; where it is moved to only gets a new name.
    if name == "mv" {
        let sources = operands.len() - usize::from(!directed && operands.len() > 1);
        out.extend(
            operands[..sources]
                .iter()
                .map(|word| write(word, true, true, false)),
        );
    }
    let makes_directories = name == "install" && argv::has(&args, "d", &["directory"]);
    let chosen: Vec<&Word> = match row.operands {
        Operands::None => Vec::new(),
        Operands::First => operands.into_iter().take(1).collect(),
        Operands::Second => operands.into_iter().skip(1).take(1).collect(),
        Operands::AllButFirst if argv::has(&args, "", &["reference"]) => operands,
        Operands::AllButFirst => operands.into_iter().skip(1).collect(),
        Operands::Last if makes_directories => operands,
        Operands::Last if directed => Vec::new(),
        // `ln TARGET` writes into the working directory.
        Operands::Last if operands.len() < 2 => Vec::new(),
        Operands::Last => {
            let last = operands.last().copied();
            let into: Vec<Word> =
                last.map_or(Vec::new(), |last| joined(last, &operands[..operands.len() - 1]));
            out.extend(into.iter().map(|word| write(word, false, false, false)));
            last.into_iter().collect()
        }
        Operands::All => operands,
    };
    if out.is_empty() && fetches(name, &args) {
        out.push(Write::of(here(rest)));
    }
    let destroys = matches!(name, "rm" | "shred" | "rmdir");
    let remote = |word: &Word| {
        name == "rsync"
            && word
                .prefix()
                .0
                .split('/')
                .next()
                .is_some_and(|host| host.contains(':'))
    };
    let local = chosen.into_iter().filter(|word| !remote(word));
    out.extend(local.map(|word| write(word, recursive, destroys, row.reads)));
    out
}

/// Unpacks or downloads under names of its own into the working directory.
fn fetches(name: &str, args: &[Arg<'_>]) -> bool {
    match name {
        "unzip" => !argv::has(args, "lptvZ", &[]),
        "wget" => !argv::has(args, "hV", &["version", "help", "spider"]),
        "curl" => argv::has(args, "OJ", &["remote-name", "remote-name-all"]),
        _ => false,
    }
}

/// What arises when the destination is a directory: its path with each source's name.
fn joined(destination: &Word, sources: &[&Word]) -> Vec<Word> {
    let with_name = |source: &&Word| {
        let text = source.literal()?;
        let name = text.rsplit('/').find(|name| !name.is_empty())?;
        (name != ".." && name != ".").then(|| {
            let mut word = destination.clone();
            word.push_literal(&format!("/{name}"), true);
            word
        })
    };
    sources.iter().filter_map(with_name).collect()
}

fn write(word: &Word, recursive: bool, destroys: bool, by_option: bool) -> Write {
    Write {
        word: word.clone(),
        recursive,
        destroys,
        by_option,
    }
}

fn dd(rest: &[Word]) -> Vec<Write> {
    let outputs = rest.iter().filter(|word| word.prefix().0.starts_with("of="));
    outputs
        .map(|word| write(&word.without_prefix(3), false, true, false))
        .collect()
}

fn sed(rest: &[Word]) -> Vec<Write> {
    let valued = Valued {
        short: "efl",
        long: &["expression", "file", "line-length"],
    };
    let args = argv::read(rest, &valued);
    if !argv::has(&args, "i", &["in-place"]) {
        return Vec::new();
    }
    let has_script = argv::has(&args, "ef", &["expression", "file"]);
    let files = argv::operands(&args).into_iter().skip(usize::from(!has_script));
    files.map(|word| write(word, false, false, false)).collect()
}

/// Options of tar that take a value.
pub(super) const TAR_VALUED: Valued = Valued {
    short: "CfbgKNTXIFHLV",
    long: &["directory", "file", "exclude", "files-from", "index-file"],
};

fn tar(rest: &[Word]) -> Vec<Write> {
    let rest = &argv::dashed(rest, TAR_VALUED.short);
    let (mode, valued) = (tar_mode(rest), TAR_VALUED);
    let mut out = Vec::new();
    for arg in argv::read(rest, &valued) {
        match arg {
            Arg::Short('C', Some(word), _) if mode == Some('x') => {
                out.push(write(&word, false, false, false))
            }
            Arg::Short('f', Some(word), _) if mode == Some('c') && word.literal().as_deref() != Some("-") => {
                out.push(write(&word, false, false, false));
            }
            Arg::Long(name, Some(word), _) if name == "directory" && mode == Some('x') => {
                out.push(write(&word, false, false, false));
            }
            Arg::Long(name, Some(word), _) if name == "file" && mode == Some('c') => {
                out.push(write(&word, false, false, false));
            }
            Arg::Long(name, Some(word), _) if name == "index-file" => {
                out.push(write(&word, false, false, true))
            }
            _ => {}
        }
    }
    // Without a directory it extracts into the working directory.
    if mode == Some('x') && out.iter().all(|write| write.by_option) {
        out.push(Write::of(here(rest)));
    }
    out
}

/// The working directory, for a command that writes into it without saying so.
fn here(rest: &[Word]) -> Word {
    let span = rest.first().map_or(0..0, |word| word.span.clone());
    Word::from_literal(".", span)
}

fn tar_mode(rest: &[Word]) -> Option<char> {
    for word in rest {
        let text = word.literal().unwrap_or_default();
        if matches!(text.as_str(), "--extract" | "--get") {
            return Some('x');
        }
        if matches!(text.as_str(), "--create" | "--append" | "--update") {
            return Some('c');
        }
        let letters = match text.strip_prefix('-') {
            Some(letters) if !letters.starts_with('-') => letters,
            _ => continue,
        };
        if letters.contains('x') {
            return Some('x');
        }
        if letters.contains(['c', 'r', 'u']) {
            return Some('c');
        }
    }
    None
}

fn compress(rest: &[Word]) -> Vec<Write> {
    let valued = Valued {
        short: "SoT",
        long: &["suffix", "threads"],
    };
    let args = argv::read(rest, &valued);
    if argv::has(&args, "ctl", &["stdout", "to-stdout", "test", "list"]) {
        return Vec::new();
    }
    argv::operands(&args)
        .into_iter()
        .map(|word| write(word, false, false, false))
        .collect()
}

/// `-delete` changes below the start folders; `-fprint FILE` and `-fls FILE` write.
fn find(rest: &[Word]) -> Vec<Write> {
    let text = |word: &Word| word.literal().unwrap_or_default();
    let mut out = Vec::new();
    for pair in rest.windows(2) {
        if matches!(
            text(&pair[0]).as_str(),
            "-fprint" | "-fprint0" | "-fprintf" | "-fls"
        ) {
            out.push(write(&pair[1], false, false, true));
        }
    }
    if rest.iter().any(|word| text(word) == "-delete") {
        let starts = find_starts(rest);
        if starts.is_empty() {
            out.push(write(&here(rest), true, true, false));
        }
        out.extend(starts.into_iter().map(|word| write(word, true, true, false)));
    }
    out
}

/// The start folders of `find`.
pub(super) fn find_starts(rest: &[Word]) -> Vec<&Word> {
    let is_option = |word: &&Word| {
        let (text, _) = word.prefix();
        matches!(text.as_str(), "-H" | "-L" | "-P" | "--") || text.starts_with("-O")
    };
    let begins_test = |word: &&Word| {
        let (text, _) = word.prefix();
        text.starts_with('-') || matches!(text.as_str(), "(" | "!" | ")")
    };
    rest.iter()
        .skip_while(is_option)
        .take_while(|word| !begins_test(word))
        .collect()
}
