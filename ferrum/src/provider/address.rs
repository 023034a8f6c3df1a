//! Addresses of providers: which are usable, and where a credential may travel. Pure.

use reqwest::Url;
use std::net::IpAddr;

/// What is wrong with an address; `hint` says what to do and may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadAddress {
    pub what: &'static str,
    pub hint: &'static str,
}

/// Reads a `base_url`. `secret` says that a credential goes with each request.
///
/// # Errors
/// [`BadAddress`] for anything but an http(s) address without a password in it, and for a
/// credential that would travel over plain http to another machine without the user's word for it.
pub fn check(base_url: &str, secret: bool, allow_insecure_http: bool) -> Result<Url, BadAddress> {
    let bad = |what, hint| Err(BadAddress { what, hint });
    let url = match Url::parse(base_url) {
        Ok(url) if ["http", "https"].contains(&url.scheme()) && url.host().is_some() => url,
        _ => {
            return bad(
                "`base_url` is not an http(s) address",
                "for instance http://127.0.0.1:8080/v1",
            );
        }
    };
    if !url.username().is_empty() || url.password().is_some() {
        return bad(
            "`base_url` holds a password",
            "use `api_key_env` or `headers` instead",
        );
    }
    if url.scheme() == "http" && secret && !is_loopback(&url) && !allow_insecure_http {
        return bad(
            "`base_url` is plain http on another machine, so the key would travel in clear text",
            "use https, or set `allow_insecure_http = true` for this provider",
        );
    }
    Ok(url)
}

/// True for an address of this machine, judged by the address itself: a name that only begins
/// like one is not. `localhost` never leaves the machine (RFC 6761 §6.3).
#[must_use]
pub fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

/// `base` with a path below it; a query of the base stays.
#[must_use]
pub fn below(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_does_not_travel_in_clear_text() {
        for fine in [
            "http://127.0.0.1/v1",
            "http://127.9.9.9",
            "http://[::1]:80/v1",
            "http://localhost:1",
            "https://example.org/v1",
        ] {
            assert!(check(fine, true, false).is_ok(), "{fine}");
        }
        for insecure in [
            "http://example.org",
            "http://127.0.0.1.example.org",
            "http://localhost.example.org",
            "http://10.0.0.1",
        ] {
            let error = check(insecure, true, false).unwrap_err();
            assert!(error.hint.contains("allow_insecure_http"), "{insecure}");
            assert!(check(insecure, true, true).is_ok());
            assert!(check(insecure, false, false).is_ok());
        }
        for bad in [
            "",
            "localhost:8080",
            "ftp://x",
            "http://user:pw@127.0.0.1/",
            "https://u@x",
        ] {
            assert!(check(bad, false, true).is_err(), "{bad}");
        }
    }

    #[test]
    fn paths_go_below_the_base() {
        let url = |base: &str| below(&Url::parse(base).unwrap(), "/chat/completions").to_string();
        assert_eq!(url("http://a/v1"), "http://a/v1/chat/completions");
        assert_eq!(url("http://a/v1/"), "http://a/v1/chat/completions");
        assert_eq!(url("http://a"), "http://a/chat/completions");
        assert_eq!(url("https://a/d?v=1"), "https://a/d/chat/completions?v=1");
    }
}
