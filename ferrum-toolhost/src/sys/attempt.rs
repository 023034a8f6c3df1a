//! System calls that should be refused, for the prober.

use std::ffi::CStr;
use std::io;

/// One argument of an attempted call. There is no kind by which the kernel could write anywhere
/// but into the bytes that are lent to it.
pub enum Argument<'a> {
    Number(i64),
    Null,
    Text(&'a CStr),
    Bytes(&'a mut [u8]),
}

/// Makes the call.
///
/// # Errors
/// The kernel's.
pub fn attempt(call: libc::c_long, arguments: &mut [Argument<'_>]) -> io::Result<libc::c_long> {
    let mut raw = [0; 6];
    for (slot, argument) in raw.iter_mut().zip(arguments) {
        *slot = match argument {
            Argument::Number(number) => *number,
            Argument::Null => 0,
            Argument::Text(text) => text.as_ptr() as i64,
            Argument::Bytes(bytes) => bytes.as_mut_ptr() as i64,
        };
    }
    // SAFETY: pointers come from live references; numbers are of calls and places of calls that
    // take numbers: the table of the prober is the only caller.
    let done = unsafe { libc::syscall(call, raw[0], raw[1], raw[2], raw[3], raw[4], raw[5]) };
    super::check(done)
}
