//! System V objects of the caller's ipc namespace, which outlive the processes that made them.

/// `SHM_INFO`, `SEM_INFO`, `MSG_INFO`, and the requests that tell an id whatever its mode.
const INFO: [libc::c_int; 3] = [14, 19, 12];
const STAT_ANY: [libc::c_int; 3] = [15, 20, 13];

/// Room for the largest structure that the requests fill.
type Buffer = [u64; 64];

/// Removes all of them that are the caller's own. Only for a namespace that nobody else is in.
pub fn remove_all() {
    for kind in 0..3 {
        let mut buffer: Buffer = [0; 64];
        // With nothing there the highest index is 0 as well, and tells no id.
        for index in 0..=control(kind, 0, INFO[kind], &mut buffer) {
            let id = control(kind, index, STAT_ANY[kind], &mut buffer);
            if id >= 0 {
                control(kind, id, libc::IPC_RMID, &mut buffer);
            }
        }
    }
}

fn control(kind: usize, id: libc::c_int, request: libc::c_int, buffer: &mut Buffer) -> libc::c_int {
    // SAFETY: the buffer is larger than any structure of these requests and outlives the call.
    unsafe {
        match kind {
            0 => libc::shmctl(id, request, buffer.as_mut_ptr().cast()),
            1 => libc::semctl(id, 0, request, buffer.as_mut_ptr()),
            _ => libc::msgctl(id, request, buffer.as_mut_ptr().cast()),
        }
    }
}
