//! Everything that listens outside, on every kind of socket.

use super::Proof::{Reaches, Says};
use super::{Escape, World, bash, refuse_all};

pub(super) const TABLE: &[Escape] = &[
    bash("connect by bash", Reaches, "echo x > /dev/tcp/127.0.0.1/@TCP@"),
    bash("connect by name", Reaches, "echo x > /dev/tcp/localhost/@TCP@"),
    bash("send a datagram", Reaches, "echo x > /dev/udp/127.0.0.1/@UDP@"),
    bash("connect over IPv6", Reaches, "echo x > /dev/tcp/::1/@TCP6@").if_it_can(),
    bash(
        "connect by a mapped address",
        Reaches,
        r#"python3 -c 'import socket; socket.socket(socket.AF_INET6).connect(("::ffff:127.0.0.1", @TCP@))'"#,
    )
    .if_it_can(),
    bash("connect by git", Reaches, "timeout 5 git ls-remote git://127.0.0.1:@TCP@/x"),
    bash(
        "connect over multipath TCP",
        Reaches,
        r#"python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).connect(("127.0.0.1", @TCP@))'"#,
    )
    .if_it_can(),
    bash(
        "connect by a first packet with data",
        Reaches,
        r#"python3 -c 'import socket; socket.socket().sendto(b"x", socket.MSG_FASTOPEN, ("127.0.0.1", @TCP@))'"#,
    )
    .if_it_can(),
    bash(
        "send a datagram from a connected socket",
        Reaches,
        r#"python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("127.0.0.1", @UDP@)); s.send(b"x")'"#,
    ),
    bash("reach a unix socket in the root", Reaches, UNIX_IN_ROOT),
    bash("reach a unix socket of the machine's /tmp", Reaches, UNIX_IN_TMP),
    bash("reach an agent's socket", Reaches, UNIX_IN_RUN),
    bash(
        "reach an agent's socket by the environment",
        Reaches,
        r#"python3 -c 'import os, socket; socket.socket(socket.AF_UNIX).connect(os.environ["SSH_AUTH_SOCK"])'"#,
    ),
    bash("reach a unix socket through a link", Reaches, "ln -s @INRUN@ probe-s; python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"probe-s\")'"),
    bash("reach a unix socket through a hard link", Reaches, "ln @INRUN@ probe-s2; python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"probe-s2\")'").if_it_can(),
    bash(
        "reach an abstract socket",
        Reaches,
        r#"python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect("\0@ABSTRACT@")'"#,
    ),
    bash(
        "send a datagram to a log's socket",
        Reaches,
        r#"python3 -c 'import socket; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", "@DGRAM@")'"#,
    ),
    bash(
        "send a datagram from one end of a pair",
        Reaches,
        r#"python3 -c 'import socket; socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", "@DGRAM@")'"#,
    ),
    bash(
        "connect one end of a raw pair anew",
        Reaches,
        r#"python3 -c '
import socket
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW); a.connect("@DGRAM@"); a.send(b"x")'"#,
    ),
    bash(
        "connect in the first process's network",
        Reaches,
        "nsenter -t 1 -n bash -c 'echo x > /dev/tcp/127.0.0.1/@TCP@'",
    )
    .as_root()
    .if_it_can(),
    bash(
        "connect in another process's network",
        Reaches,
        "nsenter -t @VICTIM@ -n bash -c 'echo x > /dev/tcp/127.0.0.1/@TCP@'",
    )
    .as_root(),
    bash(
        "connect after the call",
        Reaches,
        "setsid nohup bash -c 'sleep 0.2; echo x > /dev/tcp/127.0.0.1/@TCP@' > /dev/null 2>&1 & sleep 0.5",
    ),
    bash("open a raw socket", Says, "python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); print(f\"won-{6*7}\")'").as_root(),
    bash("open a packet socket", Says, "python3 -c 'import socket; socket.socket(17, socket.SOCK_RAW, 0); print(f\"won-{6*7}\")'").as_root().if_it_can(),
    bash("open a virtual machine socket", Says, "python3 -c 'import socket; socket.socket(40, socket.SOCK_STREAM); print(f\"won-{6*7}\")'").if_it_can(),
    bash("open a crypto socket", Says, "python3 -c 'import socket; socket.socket(38, socket.SOCK_SEQPACKET); print(f\"won-{6*7}\")'").if_it_can(),
    bash("open a socket on the machine's sockets", Says, "python3 -c 'import socket; socket.socket(16, socket.SOCK_RAW, 4); print(f\"won-{6*7}\")'").if_it_can(),
    bash("open an audit socket", Says, "python3 -c 'import socket; socket.socket(16, socket.SOCK_RAW, 9); print(f\"won-{6*7}\")'").if_it_can(),
    bash(
        "see the machine's listeners",
        Says,
        "port=$(printf ':%04X' @TCP@); cat /proc/net/tcp | grep -q \"$port\" && echo won-$((6*7))",
    )
    .by_mounts(),
    bash("see the machine's interfaces", Says, "[ $(ls /sys/class/net | wc -l) -gt 1 ] && echo won-$((6*7))").if_it_can().by_mounts(),
    bash(
        "make a socket by io_uring",
        Says,
        r#"python3 -c '
import ctypes
if ctypes.CDLL(None).syscall(425, 4, ctypes.create_string_buffer(256)) >= 0: print(f"won-{6*7}")'"#,
    )
    .if_it_can(),
];

const UNIX_IN_ROOT: &str = r#"python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect("@INROOT@")'"#;
const UNIX_IN_TMP: &str = r#"python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect("@INTMP@")'"#;
const UNIX_IN_RUN: &str = r#"python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect("@INRUN@")'"#;

#[test]
fn no_network_outside_can_be_reached() {
    refuse_all(World::Whole, TABLE);
}
