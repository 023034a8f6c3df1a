//! The issuer of tokens over HTTP: code, refresh and device flow.

use super::pkce::Attempt;
use crate::provider::address;
use crate::provider::http;
use crate::provider::transport::{SendError, Transport};
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Request, Response, Url};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use std::time::Duration;

/// Where accounts are.
pub const ISSUER: &str = "https://auth.openai.com";
/// The public client that the issuer knows; there is no secret to it.
const CLIENT: &str = "app_EMoamEEZ73f0CkXaXp7hrann";
const SCOPE: &str = "openid profile email offline_access";
/// For one request as a whole. A refresh that the operator cancels is waited for so long at most.
const REQUEST: Duration = Duration::from_secs(20);
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Characters of the issuer's own message that are shown.
const MESSAGE_CHARS_MAX: usize = 300;
const DEVICE_START: &str = "/api/accounts/deviceauth/usercode";
const DEVICE_POLL: &str = "/api/accounts/deviceauth/token";
/// Bounds of the pause that the issuer asks for, in seconds.
const INTERVAL: std::ops::RangeInclusive<u64> = 1..=60;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IssuerError {
    /// It will say the same the next time.
    #[error("the issuer refuses: {0}")]
    Refused(String),
    /// It may work later.
    #[error("{0}")]
    Failed(String),
    /// A device code that is not confirmed yet.
    #[error("not confirmed yet")]
    Pending,
}

/// A device code to be confirmed in a browser, on whatever machine.
pub struct Device {
    pub user_code: String,
    pub interval: Duration,
    id: String,
}

/// A code that was given, with what it takes to redeem it.
pub struct Given {
    pub code: String,
    pub verifier: String,
    pub redirect: String,
}

/// One issuer. Cheap to make, to be used within the runtime that it is made in.
pub struct Issuer {
    base: Url,
    transport: Transport,
}

impl Issuer {
    /// `base` without a path, for instance [`ISSUER`].
    ///
    /// # Errors
    /// An address that is none, or that would let tokens travel in clear text.
    pub fn new(base: &str) -> Result<Self, IssuerError> {
        let failed = |what: String| IssuerError::Refused(format!("{base}: {what}"));
        let base = address::check(base, true, false).map_err(|bad| failed(bad.what.to_owned()))?;
        let transport = Transport::to(&base).map_err(|error| failed(error.to_string()))?;
        Ok(Self { base, transport })
    }

    /// What the operator opens in a browser.
    #[must_use]
    pub fn authorize(&self, attempt: &Attempt, redirect: &str) -> Url {
        let mut url = address::below(&self.base, "/oauth/authorize");
        url.query_pairs_mut().extend_pairs([
            ("response_type", "code"),
            ("client_id", CLIENT),
            ("redirect_uri", redirect),
            ("scope", SCOPE),
            ("code_challenge", &attempt.challenge()),
            ("code_challenge_method", "S256"),
            ("state", &attempt.state),
            ("id_token_add_organizations", "true"),
            ("codex_cli_simplified_flow", "true"),
            ("originator", "ferrum"),
        ]);
        url
    }

    /// Where a device code is confirmed.
    #[must_use]
    pub fn device_page(&self) -> Url {
        address::below(&self.base, "/codex/device")
    }

    /// Redeems a code; the body is for [`super::tokens::login`].
    ///
    /// # Errors
    /// [`IssuerError`].
    pub async fn redeem(&self, given: &Given) -> Result<Vec<u8>, IssuerError> {
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", &given.code),
            ("redirect_uri", &given.redirect),
            ("client_id", CLIENT),
            ("code_verifier", &given.verifier),
        ];
        self.token(&fields).await
    }

    /// Gives a refresh token back for new ones; it may be good for this once only.
    ///
    /// # Errors
    /// [`IssuerError`].
    pub async fn refresh(&self, token: &SecretString) -> Result<Vec<u8>, IssuerError> {
        let fields = [
            ("grant_type", "refresh_token"),
            ("refresh_token", token.expose_secret()),
            ("client_id", CLIENT),
            ("scope", SCOPE),
        ];
        self.token(&fields).await
    }

    async fn token(&self, fields: &[(&str, &str)]) -> Result<Vec<u8>, IssuerError> {
        let mut form = self.base.clone();
        form.query_pairs_mut().clear().extend_pairs(fields);
        let body = form.query().unwrap_or_default().to_owned();
        let (status, body) = self
            .post("/oauth/token", "application/x-www-form-urlencoded", body)
            .await?;
        if (200..300).contains(&status) {
            return Ok(body);
        }
        let (code, message) = reason(&body);
        let text = format!("{message} (status {status})");
        // `invalid_grant` is how other issuers say it.
        let lasting = [
            "refresh_token_expired",
            "refresh_token_reused",
            "refresh_token_invalidated",
            "invalid_grant",
        ];
        Err(if status == 401 || lasting.contains(&code.as_str()) {
            IssuerError::Refused(text)
        } else {
            IssuerError::Failed(text)
        })
    }

    /// Begins the device flow.
    ///
    /// # Errors
    /// [`IssuerError::Refused`] where the flow is not enabled.
    pub async fn device(&self) -> Result<Device, IssuerError> {
        let (status, body) = self
            .post_json(DEVICE_START, &json!({ "client_id": CLIENT }))
            .await?;
        if status == 404 {
            return Err(IssuerError::Refused(
                "device codes are not enabled for it".to_owned(),
            ));
        }
        let answer = accepted(status, &body)?;
        let text = |names: &[&str]| {
            names
                .iter()
                .find_map(|name| answer[*name].as_str())
                .map(str::to_owned)
        };
        let interval = match &answer["interval"] {
            Value::String(text) => text.trim().parse().ok(),
            number => number.as_u64(),
        };
        let missing = || IssuerError::Failed("the answer holds no device code".to_owned());
        Ok(Device {
            user_code: text(&["user_code", "usercode"]).ok_or_else(missing)?,
            id: text(&["device_auth_id"]).ok_or_else(missing)?,
            interval: Duration::from_secs(interval.unwrap_or(5).clamp(*INTERVAL.start(), *INTERVAL.end())),
        })
    }

    /// Asks whether the device code was confirmed.
    ///
    /// # Errors
    /// [`IssuerError::Pending`] while it is not.
    pub async fn confirmed(&self, device: &Device) -> Result<Given, IssuerError> {
        let question = json!({ "device_auth_id": device.id, "user_code": device.user_code });
        let (status, body) = self.post_json(DEVICE_POLL, &question).await?;
        if matches!(status, 403 | 404) {
            return Err(IssuerError::Pending);
        }
        let answer = accepted(status, &body)?;
        let text = |name: &str| {
            answer[name]
                .as_str()
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        match (text("authorization_code"), text("code_verifier")) {
            (Some(code), Some(verifier)) => Ok(Given {
                code,
                verifier,
                redirect: address::below(&self.base, "/deviceauth/callback").to_string(),
            }),
            _ => Err(IssuerError::Failed("the answer holds no code".to_owned())),
        }
    }

    async fn post_json(&self, path: &str, body: &Value) -> Result<(u16, Vec<u8>), IssuerError> {
        self.post(path, "application/json", body.to_string()).await
    }

    async fn post(
        &self,
        path: &str,
        form: &'static str,
        body: String,
    ) -> Result<(u16, Vec<u8>), IssuerError> {
        let url = address::below(&self.base, path);
        let mut request = Request::new(Method::POST, url.clone());
        request
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static(form));
        *request.body_mut() = Some(body.into());
        let exchange = async {
            let response = self.transport.send(request).await?;
            let status = response.status().as_u16();
            Ok::<_, SendError>((status, bounded(response).await?))
        };
        match tokio::time::timeout(REQUEST, exchange).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(IssuerError::Failed(format!("{url}: {}", http::causes(&error)))),
            Err(_) => Err(IssuerError::Failed(format!(
                "{url}: no answer within {} s",
                REQUEST.as_secs()
            ))),
        }
    }
}

/// At most the bound; what is cut is no JSON any more and told as such.
async fn bounded(mut response: Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await? {
        let room = ANSWER_BYTES_MAX - body.len();
        body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if bytes.len() > room {
            break;
        }
    }
    Ok(body)
}

fn accepted(status: u16, body: &[u8]) -> Result<Value, IssuerError> {
    if !(200..300).contains(&status) {
        return Err(IssuerError::Failed(format!(
            "{} (status {status})",
            reason(body).1
        )));
    }
    serde_json::from_slice(body).map_err(|_| IssuerError::Failed("the answer is not JSON".to_owned()))
}

/// Code and message of an error answer in any of its forms.
fn reason(body: &[u8]) -> (String, String) {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let error = &answer["error"];
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let code = text(&error["code"])
        .or_else(|| text(error))
        .or_else(|| text(&answer["code"]));
    let message = text(&error["message"])
        .or_else(|| text(&answer["error_description"]))
        .or_else(|| text(&answer["message"]))
        .or_else(|| code.clone())
        .unwrap_or_else(|| "no reason given".to_owned());
    let message: String = message
        .chars()
        .filter(|c| !c.is_control())
        .take(MESSAGE_CHARS_MAX)
        .collect();
    (code.unwrap_or_default(), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_holds_what_the_issuer_asks_for() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let _guard = runtime.enter();
        let issuer = Issuer::new(ISSUER).expect("an address");
        let attempt = Attempt::new();
        let url = issuer.authorize(&attempt, "http://localhost:1455/auth/callback");
        assert_eq!(
            (url.host_str(), url.path()),
            (Some("auth.openai.com"), "/oauth/authorize")
        );
        let value = |name: &str| {
            url.query_pairs()
                .find(|(key, _)| key == name)
                .map(|(_, value)| value.into_owned())
                .unwrap_or_default()
        };
        assert_eq!(value("redirect_uri"), "http://localhost:1455/auth/callback");
        assert_eq!(
            (value("state"), value("code_challenge")),
            (attempt.state.clone(), attempt.challenge())
        );
        assert_eq!(
            (value("code_challenge_method").as_str(), value("scope").as_str()),
            ("S256", SCOPE)
        );
        assert!(!url.as_str().contains(&attempt.verifier));
        assert!(Issuer::new("http://example.org").is_err());
    }

    #[test]
    fn reasons_have_many_forms() {
        for (body, code, message) in [
            (
                r#"{"error":{"code":"refresh_token_reused","message":"used"}}"#,
                "refresh_token_reused",
                "used",
            ),
            (
                r#"{"error":"invalid_grant","error_description":"gone\u001b[2J"}"#,
                "invalid_grant",
                "gone[2J",
            ),
            (
                r#"{"code":"refresh_token_expired"}"#,
                "refresh_token_expired",
                "refresh_token_expired",
            ),
            ("<html>", "", "no reason given"),
        ] {
            assert_eq!(
                reason(body.as_bytes()),
                (code.to_owned(), message.to_owned()),
                "{body}"
            );
        }
    }
}
