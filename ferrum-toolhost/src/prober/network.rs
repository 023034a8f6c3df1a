//! Listeners outside, and kinds of sockets that lead around the walls.

use super::{Outcome, Probe, Targets, outcome, probe};
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

const NETWORK: &str = "network";

#[rustfmt::skip]
pub(super) const TABLE: &[Probe] = &[
    probe("connect to a listener outside", NETWORK, |t| connect((Ipv4Addr::LOCALHOST, t.tcp).into())),
    probe("connect over IPv6", NETWORK, |t| connect((Ipv6Addr::LOCALHOST, t.tcp6).into())),
    probe("connect by a mapped address", NETWORK, |t| connect((Ipv4Addr::LOCALHOST.to_ipv6_mapped(), t.tcp).into())),
    probe("send a datagram outside", "network by arrival", datagram),
    probe("reach a socket by its path", "sockets", |t| outcome(UnixStream::connect(t.dir.join("socket")))),
    probe("reach an abstract socket", "sockets", abstract_socket),
    probe("see the machine's listeners", "listeners", listeners),
    probe("open a raw socket", "system", |_| made(AddressFamily::Inet, SockType::Raw, 1)).by_root(),
    probe("open a packet socket", "system", |_| made(AddressFamily::Packet, SockType::Raw, 0)).by_root(),
    probe("open a virtual machine socket", "system", |_| made(AddressFamily::Vsock, SockType::Stream, 0)),
    probe("open a socket of the kernel's ciphers", "system", |_| made(AddressFamily::Alg, SockType::SeqPacket, 0)),
    probe("ask for the machine's sockets", "system", |_| made(AddressFamily::Netlink, SockType::Raw, libc::NETLINK_SOCK_DIAG)),
    probe("listen to the kernel's events", "system", |_| made(AddressFamily::Netlink, SockType::Raw, libc::NETLINK_KOBJECT_UEVENT)),
];

/// The private loopback answers at once, so a short while is enough.
const WAIT: Duration = Duration::from_millis(200);

fn connect(address: SocketAddr) -> Outcome {
    if address.port() == 0 {
        return Outcome::Absent("no listener could be made");
    }
    outcome(TcpStream::connect_timeout(&address, WAIT))
}

/// Sending succeeds where nobody is: whether it came is seen from outside.
fn datagram(targets: &Targets) -> Outcome {
    if targets.udp == 0 {
        return Outcome::Absent("no listener could be made");
    }
    let sent = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        .and_then(|socket| socket.send_to(targets.token.as_bytes(), (Ipv4Addr::LOCALHOST, targets.udp)));
    outcome(sent)
}

fn abstract_socket(targets: &Targets) -> Outcome {
    if targets.abstract_name.is_empty() {
        return Outcome::Absent("no listener could be made");
    }
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&targets.abstract_name);
    outcome(address.and_then(|address| UnixStream::connect_addr(&address)))
}

fn listeners(targets: &Targets) -> Outcome {
    let port = format!(":{:04X} ", targets.tcp);
    match std::fs::read_to_string("/proc/net/tcp") {
        Ok(table) if table.contains(&port) => Outcome::Through,
        Ok(_) => Outcome::Refused("not in the list".to_owned()),
        Err(error) => Outcome::Refused(error.to_string()),
    }
}

fn made(family: AddressFamily, kind: SockType, protocol: i32) -> Outcome {
    let protocol = match protocol {
        1 => Some(SockProtocol::Icmp),
        libc::NETLINK_SOCK_DIAG => Some(SockProtocol::NetlinkSockDiag),
        libc::NETLINK_KOBJECT_UEVENT => Some(SockProtocol::NetlinkKObjectUEvent),
        _ => None,
    };
    match socket(family, kind, SockFlag::SOCK_CLOEXEC, protocol) {
        Err(nix::Error::EAFNOSUPPORT) if !is_filtered() => Outcome::Absent("this kernel has no such socket"),
        made => outcome(made.map_err(io::Error::from)),
    }
}

/// The filter and a kernel without the family say the same.
fn is_filtered() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("Seccomp:\t2"))
}
