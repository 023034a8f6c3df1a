//! The listener that a browser is sent back to: loopback only, for the length of one attempt.

use super::paste::{Pasted, of_query};
use reqwest::Url;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// The ports that the issuer sends browsers to.
const PORTS: [u16; 2] = [1455, 1457];
const PATH: &str = "/auth/callback";
const HEAD_BYTES_MAX: usize = 32 << 10;
/// For one connection: browsers open some that they never use.
const CONNECTION: Duration = Duration::from_secs(10);
/// Connections that wait for their turn.
const QUEUE: usize = 16;

/// A bound port.
pub struct Callback {
    listener: TcpListener,
    port: u16,
}

impl Callback {
    /// The first port that is free.
    ///
    /// # Errors
    /// When none is: another login is under way.
    pub async fn bind() -> Result<Self, std::io::Error> {
        let mut last = std::io::Error::from(std::io::ErrorKind::AddrInUse);
        for port in PORTS {
            match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
                Ok(listener) => return Ok(Self { listener, port }),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Where the browser is to be sent.
    #[must_use]
    pub fn redirect(&self) -> String {
        redirect(self.port)
    }

    /// Answers browsers until one brings the code of this attempt, or the issuer's refusal.
    /// Anything else is answered and waited over.
    pub async fn answer(&self, state: &str) -> Pasted {
        let (found, mut finding) = mpsc::channel(QUEUE);
        loop {
            tokio::select! {
                Some(answer) = finding.recv() => return answer,
                accepted = self.listener.accept() => {
                    let Ok((stream, _)) = accepted else {
                        // Out of descriptors, say: not at full speed.
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    };
                    let (found, state) = (found.clone(), state.to_owned());
                    tokio::spawn(async move {
                        let served = tokio::time::timeout(CONNECTION, serve(stream, &state)).await;
                        if let Ok(Some(answer @ (Pasted::Code(_) | Pasted::Refused(_)))) = served {
                            // Nobody listens once another connection was first.
                            let _ = found.send(answer).await;
                        }
                    });
                }
            }
        }
    }
}

/// Where a browser is sent on port 1455, whether somebody listens there or not.
#[must_use]
pub fn unheard_redirect() -> String {
    redirect(PORTS[0])
}

fn redirect(port: u16) -> String {
    format!("http://localhost:{port}{PATH}")
}

async fn serve(mut stream: TcpStream, state: &str) -> Option<Pasted> {
    let target = target(&mut stream).await?;
    let found = match Url::parse(&format!("http://localhost{target}")) {
        Ok(url) if url.path() == PATH => of_query(&url, state),
        _ => Pasted::Nothing,
    };
    let (status, text) = match &found {
        Pasted::Code(_) => ("200 OK", "Ferrum has its code. You may close this page."),
        Pasted::Refused(_) => ("200 OK", "The login was refused. See the terminal."),
        Pasted::OtherAttempt => ("400 Bad Request", "This page belongs to another login."),
        Pasted::Nothing => ("404 Not Found", "There is nothing here."),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{text}",
        text.len()
    );
    // The code counts, whether the page arrives or not.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
    Some(found)
}

/// What is asked for in the first line of a GET request; `None` for anything else.
async fn target(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut part = [0; 4096];
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let count = stream.read(&mut part).await.ok().filter(|count| *count > 0)?;
        head.extend_from_slice(&part[..count]);
        if head.len() > HEAD_BYTES_MAX {
            return None;
        }
    }
    let line = head.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    (method == "GET" && target.starts_with('/')).then(|| target.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn get(port: u16, request: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
            .await
            .expect("connected");
        stream.write_all(request.as_bytes()).await.expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        answer
    }

    #[tokio::test]
    async fn strangers_are_answered_and_the_right_code_ends_the_wait() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let callback = Callback { listener, port };
        let visits = async {
            // A connection that says nothing holds nobody up.
            let _silent = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
                .await
                .expect("connected");
            for (request, status) in [
                ("GET / HTTP/1.1\r\n\r\n", "404"),
                ("GET /favicon.ico HTTP/1.1\r\n\r\n", "404"),
                ("GET /auth/callback?code=x&state=other HTTP/1.1\r\n\r\n", "400"),
                ("GET /auth/callback?state=st HTTP/1.1\r\n\r\n", "404"),
                (
                    "GET /auth/callback?code=good%2B&state=st HTTP/1.1\r\nHost: localhost\r\n\r\n",
                    "200",
                ),
            ] {
                let answer = get(port, request).await;
                assert!(
                    answer.starts_with(&format!("HTTP/1.1 {status}")),
                    "{request}: {answer}"
                );
            }
        };
        let (found, ()) = tokio::join!(callback.answer("st"), visits);
        assert_eq!(found, Pasted::Code("good+".into()));
    }
}
