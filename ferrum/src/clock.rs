//! Points in time as people write and read them, in UTC.

use crate::session::record::now_ms;

const MS_PER_DAY: u64 = 86_400_000;

/// `2026-11-30 14:05:09` for milliseconds since 1970.
#[must_use]
pub fn shown(ms: u64) -> String {
    let (year, month, day) = civil(ms / MS_PER_DAY);
    let seconds = ms % MS_PER_DAY / 1000;
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Milliseconds since 1970 of a span before now (`90s`, `30m`, `12h`, `7d`) or of a date with or
/// without a time (`2026-11-30`, `2026-11-30T14:05`, `2026-11-30 14:05:09Z`).
///
/// # Errors
/// What can be written.
pub fn since(text: &str) -> Result<u64, String> {
    let parsed = span(text)
        .map(|span| now_ms().saturating_sub(span))
        .or_else(|| date(text));
    parsed.ok_or_else(|| "write a span such as 30m, 12h or 7d, or a date such as 2026-11-30".to_owned())
}

fn span(text: &str) -> Option<u64> {
    let unit = match text.chars().last()? {
        's' => 1_000,
        'm' => 60_000,
        'h' => 3_600_000,
        'd' => MS_PER_DAY,
        _ => return None,
    };
    digits(&text[..text.len() - 1])?.checked_mul(unit)
}

fn date(text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00:00"));
    let mut parts = date.splitn(3, '-').map(digits);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let mut parts = time.splitn(3, ':').map(digits);
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next().unwrap_or(Some(0))?);
    let known = (1970..10_000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !known || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let days = days(year, month, day);
    let same = civil(days) == (year, month, day);
    same.then_some(days * MS_PER_DAY + (hour * 3600 + minute * 60 + second) * 1000)
}

fn digits(text: &str) -> Option<u64> {
    let right = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    right.then(|| text.parse().ok())?
}

/// Days since 1970 of a date of the Gregorian calendar.
fn days(year: u64, month: u64, day: u64) -> u64 {
    // Years that begin in March end with the leap day.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day of so many days since 1970.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_read_back_as_shown() {
        assert_eq!(shown(0), "1970-01-01 00:00:00");
        assert_eq!(shown(1_709_164_799_000), "2024-02-28 23:59:59");
        assert_eq!(shown(1_709_164_800_000), "2024-02-29 00:00:00");
        for day in (0..60_000).step_by(13) {
            let ms = day * MS_PER_DAY + 3_723_000;
            assert_eq!(since(&shown(ms)), Ok(ms));
        }
        assert_eq!(since("2024-02-29"), Ok(1_709_164_800_000));
        assert_eq!(since("2024-02-29T01:02Z"), Ok(1_709_164_800_000 + 3_720_000));
    }

    #[test]
    fn spans_are_before_now_and_nonsense_is_named() {
        let hour = since("1h").expect("a span");
        assert!(now_ms() - hour >= 3_600_000 && now_ms() - hour < 3_610_000);
        for bad in [
            "",
            "1",
            "h",
            "-1h",
            "2023-02-29",
            "2024-13-01",
            "2024-1",
            "2024-01-01T25:00",
            "1w",
            "☃",
        ] {
            assert!(since(bad).is_err(), "{bad}");
        }
    }
}
