//! Listeners outside: whatever reaches them has left the sandbox.

use crate::scene::Scene;
use nix::poll::{PollFd, PollFlags, poll};
use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// One listener of each kind on the machine, and how often any was reached.
pub struct Listeners {
    pub tcp: u16,
    pub tcp6: u16,
    pub udp: u16,
    /// Inside the writable root.
    pub unix_in_root: PathBuf,
    /// In the machine's `/tmp`.
    pub unix_in_tmp: PathBuf,
    /// Where agents and buses have theirs.
    pub unix_in_run: PathBuf,
    /// Where logs are taken.
    pub datagrams_in_run: PathBuf,
    pub abstract_name: String,
    reached: Arc<AtomicUsize>,
}

impl Listeners {
    /// # Panics
    /// When the machine has no loopback.
    #[must_use]
    pub fn start(scene: &Scene) -> Self {
        let reached = Arc::new(AtomicUsize::new(0));
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a TCP listener");
        let tcp_port = tcp.local_addr().expect("its address").port();
        serve_tcp(tcp, &reached);
        let tcp6_port = TcpListener::bind("[::1]:0").map_or(0, |listener| {
            let port = listener.local_addr().expect("its address").port();
            serve_tcp(listener, &reached);
            port
        });
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a UDP socket");
        let udp_port = udp.local_addr().expect("its address").port();
        let weak = Arc::downgrade(&reached);
        std::thread::spawn(move || {
            while comes(&udp, &weak) && udp.recv(&mut [0; 64]).is_ok() {
                count(&weak);
            }
        });
        let name = format!("ferrum-test-{}", crate::scene::unique());
        let tmp = std::env::temp_dir().join(format!("{name}.sock"));
        let root = scene.root().join("probe.sock");
        let run = scene.base().join("run/agent.sock");
        for path in [&tmp, &root, &run] {
            let listener = UnixListener::bind(path).expect("a unix listener");
            let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o777);
            std::fs::set_permissions(path, mode).expect("a listener for everyone");
            serve_unix(listener, &reached);
        }
        let log = scene.base().join("run/log.sock");
        serve_datagrams(
            UnixDatagram::bind(&log).expect("a datagram socket"),
            &log,
            &reached,
        );
        let address = SocketAddr::from_abstract_name(&name).expect("an abstract name");
        serve_unix(
            UnixListener::bind_addr(&address).expect("an abstract listener"),
            &reached,
        );
        Self {
            tcp: tcp_port,
            tcp6: tcp6_port,
            udp: udp_port,
            unix_in_root: root,
            unix_in_tmp: tmp,
            unix_in_run: run,
            datagrams_in_run: log,
            abstract_name: name,
            reached,
        }
    }

    /// How often a listener was reached so far. Waits a moment for what is on its way.
    #[must_use]
    pub fn reached(&self) -> usize {
        std::thread::sleep(Duration::from_millis(30));
        self.reached.load(Ordering::SeqCst)
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.unix_in_tmp);
    }
}

/// How often a waiting listener looks whether it is still wanted, in milliseconds.
const LOOK_MS: u16 = 100;

/// Waits for something to come; false once nobody holds the [`Listeners`] any more.
fn comes(socket: &impl AsFd, reached: &Weak<AtomicUsize>) -> bool {
    loop {
        if reached.strong_count() == 0 {
            return false;
        }
        let mut polled = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        if poll(&mut polled, LOOK_MS).is_ok_and(|count| count > 0) {
            return true;
        }
    }
}

fn count(reached: &Weak<AtomicUsize>) {
    if let Some(reached) = reached.upgrade() {
        reached.fetch_add(1, Ordering::SeqCst);
    }
}

fn serve_tcp(listener: TcpListener, reached: &Arc<AtomicUsize>) {
    let reached = Arc::downgrade(reached);
    std::thread::spawn(move || {
        while comes(&listener, &reached) {
            let Ok((mut stream, _)) = listener.accept() else {
                return;
            };
            count(&reached);
            let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
            let _ = stream.read(&mut [0; 64]);
        }
    });
}

fn serve_unix(listener: UnixListener, reached: &Arc<AtomicUsize>) {
    let reached = Arc::downgrade(reached);
    std::thread::spawn(move || {
        while comes(&listener, &reached) {
            let Ok((mut stream, _)) = listener.accept() else {
                return;
            };
            count(&reached);
            let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
            let _ = stream.read(&mut [0; 64]);
        }
    });
}

fn serve_datagrams(socket: UnixDatagram, path: &std::path::Path, reached: &Arc<AtomicUsize>) {
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o777);
    std::fs::set_permissions(path, mode).expect("a listener for everyone");
    let reached = Arc::downgrade(reached);
    std::thread::spawn(move || {
        while comes(&socket, &reached) && socket.recv(&mut [0; 64]).is_ok() {
            count(&reached);
        }
    });
}
