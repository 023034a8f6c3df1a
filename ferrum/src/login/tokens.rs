//! The issuer's answers and the claims inside its tokens. Pure. A token is not verified here: it
//! came over TLS from the issuer, and only the backend judges it.

use super::auth_file::Login;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

/// How long a token lasts that does not say so, in milliseconds.
const LASTS_MS: u64 = 60 * 60 * 1_000;

/// What a token says of its account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims {
    pub account: Option<String>,
    pub email: Option<String>,
    pub plan: Option<String>,
    pub fedramp: bool,
    /// Unix time in milliseconds.
    pub expires: Option<u64>,
}

impl Claims {
    /// Reads the middle part of a JWT; anything unreadable is left out.
    #[must_use]
    pub fn of(token: &str) -> Self {
        let middle = token.split('.').nth(1).unwrap_or_default();
        let bytes = URL_SAFE_NO_PAD
            .decode(middle.trim_end_matches('='))
            .unwrap_or_default();
        let claims: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let auth = &claims["https://api.openai.com/auth"];
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        Self {
            account: text(&auth["chatgpt_account_id"]),
            email: text(&claims["email"])
                .or_else(|| text(&claims["https://api.openai.com/profile"]["email"])),
            plan: text(&auth["chatgpt_plan_type"]),
            fedramp: auth["chatgpt_account_is_fedramp"].as_bool() == Some(true),
            expires: claims["exp"]
                .as_u64()
                .and_then(|seconds| seconds.checked_mul(1_000)),
        }
    }
}

/// Reads the answer to a code or to a refresh. What a refresh leaves out stays as it was.
///
/// # Errors
/// What is missing in it, as words.
pub fn login(body: &[u8], before: Option<&Login>, now_ms: u64) -> Result<Login, &'static str> {
    let answer: Value = serde_json::from_slice(body).map_err(|_| "it is not JSON")?;
    let token = |name: &str| {
        let text = answer[name].as_str().filter(|text| !text.is_empty());
        text.map(SecretString::from)
    };
    let access = token("access_token")
        .or_else(|| before.map(|login| login.access.clone()))
        .ok_or("it holds no access token")?;
    let refresh = token("refresh_token")
        .or_else(|| before.map(|login| login.refresh.clone()))
        .ok_or("it holds no refresh token")?;
    let claims = Claims::of(access.expose_secret());
    let of_id = || Claims::of(answer["id_token"].as_str().unwrap_or_default()).account;
    let lasts = answer["expires_in"]
        .as_u64()
        .and_then(|seconds| seconds.checked_mul(1_000));
    let said = lasts.map(|lasts| now_ms.saturating_add(lasts)).or(claims.expires);
    Ok(Login {
        account: claims
            .account
            .or_else(of_id)
            .or_else(|| before.and_then(|login| login.account.clone())),
        expires_ms: said.unwrap_or_else(|| now_ms.saturating_add(LASTS_MS)),
        access,
        refresh,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// An unsigned token with these claims.
    pub(crate) fn jwt(claims: &Value) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    fn account(id: &str) -> Value {
        json!({"exp": 2_000_000_000, "email": "a@b.c",
            "https://api.openai.com/auth": {"chatgpt_account_id": id, "chatgpt_plan_type": "plus"}})
    }

    #[test]
    fn claims_are_read_from_the_middle() {
        let claims = Claims::of(&jwt(&account("acc-1")));
        assert_eq!(claims.account.as_deref(), Some("acc-1"));
        assert_eq!(
            (claims.email.as_deref(), claims.plan.as_deref()),
            (Some("a@b.c"), Some("plus"))
        );
        assert_eq!(claims.expires, Some(2_000_000_000_000));
        assert_eq!(Claims::of("opaque"), Claims::default());
    }

    #[test]
    fn a_refresh_may_leave_fields_out() {
        let whole = json!({"access_token": jwt(&account("acc-1")), "refresh_token": "r1", "expires_in": 60});
        let first = login(whole.to_string().as_bytes(), None, 1_000).expect("whole");
        assert_eq!(
            (first.expires_ms, first.account.as_deref()),
            (61_000, Some("acc-1"))
        );
        let sparse = json!({"access_token": jwt(&json!({"exp": 5}))});
        let next = login(sparse.to_string().as_bytes(), Some(&first), 2_000).expect("sparse");
        assert_eq!(next.refresh.expose_secret(), "r1");
        assert_eq!((next.expires_ms, next.account.as_deref()), (5_000, Some("acc-1")));
        for bad in [
            "",
            "[]",
            "{}",
            r#"{"access_token":"a"}"#,
            r#"{"access_token":"","refresh_token":"r"}"#,
        ] {
            assert!(login(bad.as_bytes(), None, 0).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_answer_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64), text in "\\PC{0,64}") {
            let _ = login(&bytes, None, u64::MAX);
            let _ = Claims::of(&text);
        }
    }
}
