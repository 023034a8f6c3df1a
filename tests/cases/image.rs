//! Cases about pictures that are attached to a prompt. One turn attaches them, a second one shows
//! that the session is none the worse.

use crate::case::Case;
use crate::expect::Scene;
use crate::files::Before;
use crate::ground::Ground;
use crate::keys::Keys;
use crate::observe::{self, Seen};
use crate::product::{self, PATIENCE, Ran};
use crate::setup::{self, Prepared};
use ferrum_tests::provider::{self, Provider};
use ferrum_tests::who;
use serde_json::Value;
use std::time::Duration;
use toml::Table;

/// The feature that these cases are about.
pub const FEATURE: &str = "images";

type Problems = Vec<String>;

/// # Errors
/// Everything that is not as the case expects.
pub fn of(case: &Case) -> Result<(), Problems> {
    match all(case) {
        Ok(problems) if problems.is_empty() => Ok(()),
        Ok(problems) => Err(problems),
        Err(problem) => Err(vec![problem]),
    }
}

fn all(case: &Case) -> Result<Problems, String> {
    let mut input = case.input.clone();
    let attach = input.texts("attach")?.ok_or("input has no attach")?;
    // However they come, print mode is given them as they are.
    match input.text("via")?.as_deref() {
        Some("--image" | "pasted path" | "pasted text") | None => {}
        Some(other) => return Err(format!("the runner cannot express via {other}")),
    }
    input.nothing_left("input")?;
    if !case.expect.has("accepted_each") {
        return judge(case, &attach, case.expect.clone());
    }
    let mut problems = Problems::new();
    for one in &attach {
        let mut expect: Table = case.expect.clone().rest().collect();
        if let Some(each) = expect.remove("accepted_each") {
            expect.insert("accepted".to_owned(), each);
        }
        problems.extend(judge(case, std::slice::from_ref(one), expect.into())?);
    }
    Ok(problems)
}

fn judge(case: &Case, attach: &[String], mut expect: Keys) -> Result<Problems, String> {
    let ground = Ground::new(&who::ordinary(), &case.folder)?;
    let prepared = setup::all(&case.setup, &ground)?;
    let model = Provider::answering(|| Some(provider::says("done")));
    std::fs::write(ground.config().join("config.toml"), model.config()).map_err(|e| e.to_string())?;
    ground.hand_over().map_err(|e| e.to_string())?;
    let deadline = expect
        .clone()
        .number("within_s")?
        .map_or(PATIENCE, |s| Duration::from_secs_f64(s + 20.0));
    let seen = turn(&ground, &prepared, attach, deadline)?;
    let first = Turn {
        pictures: pictures(&model.requests()),
        stored: stored(&ground),
        told: String::from_utf8_lossy(&[&seen.stdout[..], &seen.stderr[..]].concat()).into_owned(),
        taken: seen.status == Some(0),
    };
    let mut problems = first.problems(&mut expect, attach, &ground)?;
    let requests = model.requests().len();
    // Every case: a plain turn goes on in the same session, with the same pictures.
    expect.flag("next_turn_ok")?;
    let next = turn(&ground, &prepared, &[], PATIENCE)?;
    let sent = pictures(&model.requests()[requests..]);
    if next.status != Some(0) || sent != first.pictures {
        let said = String::from_utf8_lossy(&next.stderr).into_owned();
        problems.push(format!(
            "the next turn is not right: {} pictures, {said}",
            sent.len()
        ));
    }
    let ran = Ran {
        seen,
        ..Ran::default()
    };
    let before = Before::of(&ground, &[]);
    let scene = Scene {
        ran: &ran,
        before: &before,
        ground: &ground,
    };
    problems.extend(scene.problems(&expect));
    problems.extend(crate::verdict::always(FEATURE, false, &ran, &prepared, &ground));
    Ok(problems)
}

fn turn(ground: &Ground, prepared: &Prepared, attach: &[String], deadline: Duration) -> Result<Seen, String> {
    let mut command = product::ferrum(ground, prepared);
    command.args(["--session", "pictures", "-p", "what is to be seen?"]);
    for one in attach {
        command.args(["--image", &ground.fill(one)]);
    }
    observe::run(command, Vec::new(), deadline, None)
}

/// Type and base64 text of each picture in the last request.
fn pictures(requests: &[provider::Request]) -> Vec<(String, String)> {
    let Some(request) = requests.last() else {
        return Vec::new();
    };
    let messages = request.body["messages"].as_array().into_iter().flatten();
    let parts = messages
        .filter_map(|message| message["content"].as_array())
        .flatten();
    let urls = parts.filter_map(|part| part["image_url"]["url"].as_str());
    urls.filter_map(|url| {
        let (mime, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
        Some((mime.to_owned(), data.to_owned()))
    })
    .collect()
}

/// Pictures that the session holds.
fn stored(ground: &Ground) -> usize {
    let file = ground.data().join("sessions/pictures.jsonl");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let records = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    records
        .map(|record| {
            let blocks = record["message"]["content"].as_array().into_iter().flatten();
            blocks.filter(|block| block["type"] == "image").count()
        })
        .sum()
}

/// What came of the turn with the pictures.
struct Turn {
    pictures: Vec<(String, String)>,
    stored: usize,
    told: String,
    taken: bool,
}

impl Turn {
    fn problems(&self, expect: &mut Keys, attach: &[String], ground: &Ground) -> Result<Problems, String> {
        let mut problems = Problems::new();
        let accepted = expect.tables("accepted")?;
        let rejected = expect.flag("rejected")?.unwrap_or(false);
        let or_rejected = expect.flag("or_rejected")?.unwrap_or(false);
        let one_of = expect.texts("one_of")?.unwrap_or_default();
        expect.flag("bytes_unchanged")?;
        expect.take("never");
        let words = expect.texts("error_mentions")?.unwrap_or_default();
        let stored = expect.whole("blocks_in_session")?;
        if self.taken {
            problems.extend(self.lies(attach, ground));
            let fits = one_of.iter().any(|word| self.is(word));
            if rejected || (!one_of.is_empty() && !fits) {
                problems.push(format!("it was taken: {}", self.told));
            }
            for mut wanted in accepted.unwrap_or_default() {
                let (mime, width, height) = (
                    wanted.text("mime")?,
                    wanted.whole("width")?,
                    wanted.whole("height")?,
                );
                let word = format!(
                    "accepted {} {}x{}",
                    mime.unwrap_or_default(),
                    width.unwrap_or(0),
                    height.unwrap_or(0)
                );
                wanted.nothing_left("accepted")?;
                if !self.is(&word) {
                    problems.push(format!("it is not \"{word}\": {}", self.told));
                }
            }
        } else {
            let fits = rejected || or_rejected || one_of.iter().any(|word| word == "rejected");
            if !fits {
                problems.push(format!("it was not taken: {}", self.told));
            }
            if !self.pictures.is_empty() || self.stored > 0 {
                problems.push("something of it was sent or kept".to_owned());
            }
            let told = self.told.to_lowercase();
            if !words.is_empty() && !words.iter().any(|word| told.contains(&word.to_lowercase())) {
                problems.push(format!("none of {words:?} is told: {}", self.told));
            }
        }
        if stored.is_some_and(|count| usize::try_from(count) != Ok(self.stored)) {
            problems.push(format!("{} pictures are kept", self.stored));
        }
        Ok(problems)
    }

    /// `accepted`, `accepted TYPE` or `accepted TYPE WIDTHxHEIGHT`, of what was sent and told.
    fn is(&self, word: &str) -> bool {
        let mut words = word.split(' ');
        if words.next() != Some("accepted") || self.pictures.is_empty() {
            return false;
        }
        let mime = words.next();
        let size = words.next().map(|size| size.replace('x', " x "));
        mime.is_none_or(|mime| self.pictures.iter().all(|(known, _)| known == mime))
            && size.is_none_or(|size| self.told.contains(&format!("{size} pixels")))
    }

    /// Of each picture the bytes are those of its file, and the type is what they say.
    fn lies(&self, attach: &[String], ground: &Ground) -> Problems {
        let mut problems = Problems::new();
        if self.pictures.len() != attach.len() || self.stored != attach.len() {
            problems.push(format!(
                "{} of {} were sent, {} kept",
                self.pictures.len(),
                attach.len(),
                self.stored
            ));
        }
        for ((mime, data), source) in self.pictures.iter().zip(attach) {
            let magic = match mime.as_str() {
                "image/png" => "iVBORw0KGgo",
                "image/jpeg" => "/9j/",
                "image/webp" => "UklGR",
                _ => "?",
            };
            if !data.starts_with(magic) {
                problems.push(format!("{mime} is a lie about {source}"));
            }
            if let Ok(bytes) = std::fs::read(ground.path(source))
                && base64(&bytes) != *data
            {
                problems.push(format!("the bytes of {source} were changed"));
            }
        }
        problems
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for part in bytes.chunks(3) {
        let byte = |at: usize| u32::from(part.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for letter in 0..4 {
            let index = (bits >> (18 - 6 * letter) & 63) as usize;
            out.push(if letter > part.len() {
                '='
            } else {
                char::from(LETTERS[index])
            });
        }
    }
    out
}
