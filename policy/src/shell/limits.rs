//! Bounds on one command text. Exceeding any is a refusal, never "not judged".

/// Bytes of one text. A `bash -c` string cannot exceed 131,071 bytes on Linux (`MAX_ARG_STRLEN`).
pub(super) const TEXT_BYTES_MAX: usize = 65_536;

/// Nodes of the syntax tree; about 210 a KiB in real scripts.
pub(super) const NODES_MAX: usize = 20_000;

/// Depth of the syntax tree; real files reach 29. The walks below it recurse, so it bounds the stack.
pub(super) const DEPTH_MAX: usize = 128;

/// Milliseconds of parsing.
pub(super) const PARSE_MS_MAX: u64 = 250;

/// Shell texts inside shell texts (`bash -c`, `eval`, `trap`), and wrappers around wrappers.
pub(super) const PAYLOAD_DEPTH_MAX: usize = 8;

/// Simple commands of one text, payloads included.
pub(super) const COMMANDS_MAX: usize = 512;

/// Here-documents of one text that the grammar cannot read by itself.
pub(super) const HEREDOCS_MAX: usize = 32;

/// Words that one brace expression may stand for; beyond it the word counts as dynamic.
pub(super) const BRACE_WORDS_MAX: usize = 64;

/// `|` characters in one text, wherever they stand. The grammar's time for a long pipeline grows with
/// its square and its progress is not told meanwhile; bash itself takes at most 3,000 stages.
pub(super) const BARS_MAX: usize = 2_048;
