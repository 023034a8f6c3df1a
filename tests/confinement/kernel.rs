//! The kernel's own doors, above all those that open to uid 0.

use super::Proof::Says;
use super::{Escape, World, bash, refuse_all};

pub(super) const TABLE: &[Escape] = &[
    bash("set the core dump's program", Says, "cat /proc/sys/kernel/core_pattern > /proc/sys/kernel/core_pattern && echo won-$((6*7))").as_root(),
    bash("set a kernel variable", Says, "cat /proc/sys/vm/swappiness > /proc/sys/vm/swappiness && echo won-$((6*7))").as_root(),
    bash("set the module loader", Says, "cat /proc/sys/kernel/modprobe > /proc/sys/kernel/modprobe && echo won-$((6*7))").as_root().if_it_can(),
    bash("press the system request key", Says, "echo h > /proc/sysrq-trigger && echo won-$((6*7))").as_root().if_it_can(),
    bash("set a device's variable", Says, "f=/sys/kernel/mm/transparent_hugepage/enabled; sed 's/.*\\[\\(.*\\)\\].*/\\1/' $f > $f && echo won-$((6*7))").as_root().if_it_can(),
    bash("make a device", Says, "mknod probe-n c 1 8 && head -c 1 probe-n | wc -c | grep -q 1 && echo won-$((6*7))").as_root(),
    bash("make a disk device", Says, "mknod probe-b b 7 0 && echo won-$((6*7))").as_root(),
    bash("mount", Says, "mkdir -p probe-m && mount -t tmpfs none probe-m && umount probe-m && echo won-$((6*7))").as_root(),
    bash("mount a process table", Says, "mkdir -p probe-m && mount -t proc none probe-m && umount probe-m && echo won-$((6*7))").as_root(),
    bash("remount a file system", Says, "mkdir -p probe-m && mount -t tmpfs none probe-m && mount -o remount,ro probe-m && umount probe-m && echo won-$((6*7))").as_root(),
    bash("change the root", Says, "chroot / /bin/true && echo won-$((6*7))").as_root(),
    bash("set the machine's name", Says, "hostname \"$(hostname)\" && echo won-$((6*7))").as_root(),
    bash("read the kernel's log", Says, "dmesg > /dev/null && echo won-$((6*7))").as_root().if_it_can(),
    bash("hold capabilities", Says, "grep -E 'Cap(Eff|Prm|Bnd|Amb|Inh)' /proc/self/status | grep -qv '0000000000000000' && echo won-$((6*7))"),
    bash("gain privileges by a program", Says, "grep -q 'NoNewPrivs:.0' /proc/self/status && echo won-$((6*7))"),
    bash("run a program that sets the user", Says, "cp /bin/bash probe-b; chown 1 probe-b; chmod 4755 probe-b; [ \"$(./probe-b -pc 'echo $EUID')\" = 1 ] && echo won-$((6*7))").as_root(),
    bash("become another user", Says, "setpriv --reuid 1 --clear-groups true && echo won-$((6*7))").as_root(),
    bash("enter the first process's namespaces", Says, "nsenter -t 1 -p -i -u true && echo won-$((6*7))").as_root().if_it_can(),
    bash("make a user namespace", Says, "unshare -U true && echo won-$((6*7))").if_it_can(),
    bash("make namespaces as uid 0", Says, "unshare -m -p -n true && echo won-$((6*7))").as_root(),
    bash("make a user namespace by clone", Says, r#"python3 -c '
import ctypes, os
pid = ctypes.CDLL(None).syscall(56, 0x10000000 | 17, 0, 0, 0, 0)
if pid == 0: os._exit(0)
if pid > 0: print(f"won-{6*7}")'"#).if_it_can(),
    bash("make a user namespace by clone3", Says, r#"python3 -c '
import ctypes, os, struct
arguments = ctypes.create_string_buffer(struct.pack("QQQQQQQQ", 0x10000000, 0, 0, 0, 17, 0, 0, 0), 64)
pid = ctypes.CDLL(None).syscall(435, arguments, 64)
if pid == 0: os._exit(0)
if pid > 0: print(f"won-{6*7}")'"#).if_it_can(),
    bash("add a key", Says, r#"python3 -c '
import ctypes
if ctypes.CDLL(None).syscall(248, b"user", b"ferrum-test", b"x", 1, -3) > 0: print(f"won-{6*7}")'"#).if_it_can(),
    bash("read the user's keyring", Says, r#"python3 -c '
import ctypes
if ctypes.CDLL(None).syscall(250, 0, -4, 1) > 0: print(f"won-{6*7}")'"#).if_it_can(),
    bash("set up io_uring", Says, r#"python3 -c '
import ctypes
if ctypes.CDLL(None).syscall(425, 4, ctypes.create_string_buffer(256)) >= 0: print(f"won-{6*7}")'"#).if_it_can(),
    bash("make a map for kernel programs", Says, r#"python3 -c '
import ctypes, struct
attributes = ctypes.create_string_buffer(struct.pack("IIII", 2, 4, 4, 1), 128)
if ctypes.CDLL(None).syscall(321, 0, attributes, 128) >= 0: print(f"won-{6*7}")'"#).if_it_can(),
    bash("watch page faults", Says, r#"python3 -c '
import ctypes
if ctypes.CDLL(None).syscall(323, 1) >= 0: print(f"won-{6*7}")'"#).if_it_can(),
    bash("count events of the processor", Says, r#"python3 -c '
import ctypes, struct
attributes = ctypes.create_string_buffer(struct.pack("IIQ", 1, 112, 1) + b"\0" * 24 + struct.pack("Q", 0x60), 112)
if ctypes.CDLL(None).syscall(298, attributes, 0, -1, -1, 0) >= 0: print(f"won-{6*7}")'"#).if_it_can(),
    bash("watch a file system", Says, r#"python3 -c '
import ctypes
if ctypes.CDLL(None).fanotify_init(0, 0) >= 0: print(f"won-{6*7}")'"#).as_root().if_it_can(),
    bash("open a new kind of mount", Says, r#"python3 -c '
import ctypes
if ctypes.CDLL(None).syscall(430, b"tmpfs", 0) >= 0: print(f"won-{6*7}")'"#).as_root(),
    bash("copy a mount", Says, r#"python3 -c '
import ctypes
if ctypes.CDLL(None).syscall(428, -100, b"/", 1) >= 0: print(f"won-{6*7}")'"#).as_root(),
    bash("open the machine's ports", Says, r#"python3 -c '
import ctypes
if ctypes.CDLL(None).syscall(173, 0, 1, 1) == 0: print(f"won-{6*7}")'"#).as_root().if_it_can(),
    bash("lift a limit", Says, "ulimit -Hn 1048577 && echo won-$((6*7))").as_root().if_it_can(),
    bash("write to a control group", Says, "d=$(awk '$3==\"cgroup2\"{print $2; exit}' /proc/mounts); [ -w \"$d/cgroup.procs\" ] && mkdir \"$d/ferrum-test\" && rmdir \"$d/ferrum-test\" && echo won-$((6*7))").as_root().if_it_can(),
    bash("open the kernel's memory", Says, "head -c 1 /proc/kcore > /dev/null && echo won-$((6*7))").as_root().if_it_can(),
    bash("see the kernel's keys", Says, "grep -q . /proc/keys && echo won-$((6*7))").if_it_can(),
];

#[test]
fn the_kernels_doors_are_closed() {
    refuse_all(World::Whole, TABLE);
}
