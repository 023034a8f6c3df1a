//! Other processes of the same user.

use super::Proof::{Harms, Says};
use super::{Escape, World, bash, refuse_all};

pub(super) const TABLE: &[Escape] = &[
    bash("kill", Harms, "kill -9 @VICTIM@; sleep 0.1"),
    bash("terminate", Harms, "kill @VICTIM@; sleep 0.1"),
    bash("stop", Harms, "kill -STOP @VICTIM@; sleep 0.1"),
    bash(
        "kill by another program",
        Harms,
        "python3 -c 'import os; os.kill(@VICTIM@, 9)'; sleep 0.1",
    ),
    bash(
        "kill by a descriptor",
        Harms,
        "python3 -c 'import os, signal; signal.pidfd_send_signal(os.pidfd_open(@VICTIM@), 9)'; sleep 0.1",
    ),
    bash(
        "kill one thread",
        Harms,
        "python3 -c 'import ctypes; ctypes.CDLL(None).syscall(200, @VICTIM@, 9)'; sleep 0.1",
    ),
    bash(
        "queue a signal",
        Harms,
        "/bin/kill -q 1 -s KILL @VICTIM@; sleep 0.1",
    ),
    bash("limit its time", Harms, "prlimit --pid @VICTIM@ --cpu=1:1"),
    bash("limit its files", Harms, "prlimit --pid @VICTIM@ --nofile=3:3"),
    bash("lower its priority", Harms, "renice -n 19 -p @VICTIM@"),
    bash("make it idle", Harms, "chrt --idle -p 0 @VICTIM@"),
    bash("pin it to a processor", Harms, "taskset -pc 0 @VICTIM@").if_it_can(),
    bash(
        "offer it to the killer",
        Harms,
        "echo 900 > /proc/@VICTIM@/oom_score_adj",
    ),
    bash(
        "limit it through its files",
        Harms,
        "echo 1 > /proc/@VICTIM@/autogroup; echo 901 > /proc/@VICTIM@/oom_score_adj",
    ),
    bash(
        "attach to it",
        Says,
        r#"python3 -c '
import ctypes
libc = ctypes.CDLL(None)
if libc.ptrace(16, @VICTIM@, 0, 0) == 0:
    print(f"won-{6*7}"); libc.ptrace(17, @VICTIM@, 0, 0)'"#,
    )
    .if_it_can(),
    bash(
        "seize it",
        Says,
        r#"python3 -c '
import ctypes
if ctypes.CDLL(None).ptrace(0x4206, @VICTIM@, 0, 0) == 0: print(f"won-{6*7}")'"#,
    )
    .if_it_can(),
    bash(
        "read its memory",
        Says,
        r#"python3 -c '
for line in open("/proc/@VICTIM@/maps"):
    if "[stack]" in line:
        memory = open("/proc/@VICTIM@/mem", "rb", 0); memory.seek(int(line.split("-")[0], 16))
        if memory.read(8) is not None: print(f"won-{6*7}")'"#,
    )
    .if_it_can(),
    bash(
        "take its descriptor",
        Says,
        r#"python3 -c '
import ctypes, os
if ctypes.CDLL(None).syscall(438, os.pidfd_open(@VICTIM@), 0, 0) >= 0: print(f"won-{6*7}")'"#,
    )
    .if_it_can(),
    bash(
        "list its descriptors",
        Says,
        "ls /proc/@VICTIM@/fd | grep -q 0 && echo won-$((6*7))",
    ),
    bash(
        "see it",
        Says,
        "tr '\\0' ' ' < /proc/@VICTIM@/cmdline | grep -q 'sleep 1000' && echo won-$((6*7))",
    )
    .by_mounts(),
    bash(
        "see it in the list",
        Says,
        "ps -eo args | grep -q '[s]leep 1000' && echo won-$((6*7))",
    )
    .by_mounts(),
    bash(
        "join its namespaces",
        Says,
        "nsenter -t @VICTIM@ -m -n -i -u true && echo won-$((6*7))",
    )
    .as_root(),
];

#[test]
fn no_process_outside_can_be_touched() {
    refuse_all(World::Whole, TABLE);
}
