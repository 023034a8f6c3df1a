//! What the probes aim at: a directory of Ferrum's own, listeners on the loopback, this process.
//! And what is to be seen of their success from outside.

use crate::exit::{Failure, Kind};
use ferrum_proto::seal::Granted;
use ferrum_proto::terms::PathBytes;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Removed at the end.
pub(super) struct Scene {
    token: String,
    dir: PathBuf,
    tcp: Option<TcpListener>,
    tcp6: Option<TcpListener>,
    udp: Option<UdpSocket>,
    abstract_socket: Option<UnixListener>,
    /// Keeps the socket in the directory alive.
    _socket: Option<UnixListener>,
    /// Writable roots in which names may be left.
    roots: Mutex<Vec<PathBuf>>,
}

impl Scene {
    /// In the data directory, which no session sees: the front can write there and nowhere else.
    ///
    /// # Errors
    /// Where the directory cannot be made.
    pub(super) fn make(data: &Path) -> Result<Self, Failure> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.map_or(0, |now| now.subsec_nanos());
        let token = format!("ferrum-probe-{}-{now}", std::process::id());
        let dir = data.join(&token);
        let made = DirBuilder::new()
            .mode(0o700)
            .create(&dir)
            .and_then(|()| fill(&dir));
        made.map_err(|error| Failure::new(Kind::Error, format!("{}: {error}", dir.display())))?;
        let name = SocketAddr::from_abstract_name(&token);
        Ok(Self {
            tcp: TcpListener::bind("127.0.0.1:0").ok(),
            tcp6: TcpListener::bind("[::1]:0").ok(),
            udp: UdpSocket::bind("127.0.0.1:0").ok(),
            abstract_socket: name.and_then(|name| UnixListener::bind_addr(&name)).ok(),
            _socket: UnixListener::bind(dir.join("socket")).ok(),
            roots: Mutex::default(),
            token,
            dir,
        })
    }

    /// For the prober: one `key=value` a line.
    pub(super) fn targets(&self, granted: &Granted) -> String {
        let root = granted.writable_roots.first().map(PathBytes::to_path_buf);
        let root = root.unwrap_or_default();
        if let Ok(mut roots) = self.roots.lock()
            && !roots.contains(&root)
        {
            roots.push(root.clone());
        }
        let port = |listener: &Option<TcpListener>| {
            let address = listener.as_ref().and_then(|listener| listener.local_addr().ok());
            address.map_or(0, |address| address.port())
        };
        let udp = self.udp.as_ref().and_then(|socket| socket.local_addr().ok());
        let name = if self.abstract_socket.is_some() {
            self.token.as_str()
        } else {
            ""
        };
        format!(
            "dir={}\nroot={}\npid={}\ntcp={}\ntcp6={}\nudp={}\nabstract={name}\ntoken={}\n",
            self.dir.display(),
            root.display(),
            std::process::id(),
            port(&self.tcp),
            port(&self.tcp6),
            udp.map_or(0, |address| address.port()),
            self.token,
        )
    }

    /// Whether the success of a probe is to be seen from here; none where only the prober can tell.
    pub(super) fn seen(&self, probe: &str, granted: &Granted) -> Option<bool> {
        let root = granted.writable_roots.first().map(PathBytes::to_path_buf)?;
        match probe {
            "send a datagram outside" => Some(self.was_reached()),
            "plant a hook" => Some(exists(&root.join(".git/hooks").join(&self.token))),
            "plant a policy" => Some(exists(&root.join(".ferrum").join(&self.token))),
            "leave a process behind" => Some(is_running(&self.token)),
            _ => None,
        }
    }

    fn was_reached(&self) -> bool {
        let Some(udp) = &self.udp else { return false };
        let _ = udp.set_nonblocking(true);
        let mut buffer = [0; 256];
        let came = udp
            .recv(&mut buffer)
            .map(|count| buffer[..count] == *self.token.as_bytes());
        came.unwrap_or(false)
    }

    /// Between two tiers: what a probe that got through has taken away is put back.
    pub(super) fn settle(&self) {
        let _ = fill(&self.dir);
    }

    /// Takes everything down. Returns what is left in the roots, where this process may not write.
    pub(super) fn end(&self) -> Vec<String> {
        let mut left = Vec::new();
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            left.push(format!("{}: {error}", self.dir.display()));
        }
        let roots = self.roots.lock().map(|roots| roots.clone()).unwrap_or_default();
        for root in roots.iter().filter(|root| !root.as_os_str().is_empty()) {
            let places = ["", ".git/hooks", ".ferrum"].map(|place| root.join(place).join(&self.token));
            let there = places.iter().filter(|path| exists(path));
            left.extend(there.map(|path| path.display().to_string()));
        }
        if is_running(&self.token) {
            left.push(format!("a process named {}", self.token));
        }
        left
    }

    #[cfg(test)]
    pub(super) fn empty() -> Self {
        Self {
            token: "x".into(),
            dir: PathBuf::new(),
            tcp: None,
            tcp6: None,
            udp: None,
            abstract_socket: None,
            _socket: None,
            roots: Mutex::default(),
        }
    }
}

fn fill(dir: &Path) -> std::io::Result<()> {
    let put = |name: &str, mode: u32, text: &str| -> std::io::Result<File> {
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .open(dir.join(name))?;
        file.write_all(text.as_bytes())?;
        Ok(file)
    };
    put("canary", 0o600, "what no session reads\n")?;
    put("victim", 0o600, "what no session changes\n")?;
    put("tool", 0o700, "#!/bin/sh\nexit 0\n").map(drop)
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// By the name that it gave itself.
fn is_running(token: &str) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.into_iter().any(|line| {
        line.strip_prefix(token.as_bytes())
            .is_some_and(|rest| rest.starts_with(&[0]))
    })
}
