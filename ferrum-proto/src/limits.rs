//! Every bound on the wire, with its unit and the reason for its size.

/// Largest frame from the front to a host, in bytes. A `write` call carries a whole file: the
/// provider layer bounds tool arguments to 2 MiB, and the host's own limit stands above it.
pub const TO_HOST_FRAME_BYTES_MAX: usize = 4 << 20;

/// Largest frame from a host to the front, in bytes. Results travel in chunks, so no frame is
/// ever near this; `Granted` and `Ready` with a few thousand view entries are the largest.
pub const FROM_HOST_FRAME_BYTES_MAX: usize = 1 << 20;

/// Largest control frame in either direction, in bytes. The charter is the largest: it carries
/// the user's environment, which the kernel itself bounds to about 2 MiB at exec.
pub const CONTROL_FRAME_BYTES_MAX: usize = 4 << 20;

/// Largest seal (the memory file that a host receives), in bytes: one charter and one wish.
pub const SEAL_BYTES_MAX: usize = CONTROL_FRAME_BYTES_MAX + (64 << 10);

/// Payload of one `Chunk`, in bytes. Small enough to keep the pipe moving, large enough that a
/// 50 KiB result needs two.
pub const CHUNK_BYTES_MAX: usize = 32 << 10;

/// Whole text of one result, in bytes. Far above what any tool produces (about 110 KiB) and far
/// below the 16 MiB of a session record.
pub const RESULT_BYTES_MAX: usize = 4 << 20;

/// Calls that may be unanswered at once. The front runs at most 8 in parallel; the rest is room.
pub const PENDING_CALLS_MAX: usize = 64;

/// Text of one progress frame, in bytes.
pub const PROGRESS_BYTES_MAX: usize = 1 << 10;

/// Least time between two progress frames of one call, in milliseconds (20 a second).
pub const PROGRESS_INTERVAL_MS_MIN: u64 = 50;

/// Denial lines that one reply carries.
pub const DENIALS_MAX: usize = 10;

/// Files that one survey names: with paths of 4 KiB they fill less than half a frame.
pub const SURVEY_FILES_MAX: usize = 100;

/// Findings of one survey, and bytes of each.
pub const SURVEY_FINDINGS_MAX: usize = 100;
pub const FINDING_BYTES_MAX: usize = 1 << 10;

/// Remarks of one preflight: with paths of 4 KiB they leave room for the rest of the grant.
pub const PREFLIGHT_MAX: usize = 100;

/// Hosts that one launcher keeps at once.
pub const HOSTS_MAX: usize = 32;

/// How long one side waits for the other's `Hello`, in milliseconds. A silent peer is a fault.
pub const HELLO_MS_MAX: u64 = 10_000;

/// How long the front waits for `Ready` after `Granted`, in milliseconds. Setting up the walls
/// takes single milliseconds; a very large tree with many repositories takes some hundreds.
pub const SEAL_MS_MAX: u64 = 30_000;
