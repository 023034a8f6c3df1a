//! When a turn must end although the model goes on calling tools. Pure.

/// Tool rounds of one turn, whatever else is set: far above honest work, below a runaway bill.
pub const ROUNDS_MAX: u32 = 256;
const REPEATS_TO_NUDGE: u32 = 4;
const REPEATS_TO_STOP: u32 = 7;
const ERRORS_TO_NUDGE: u32 = 5;
const ERRORS_TO_STOP: u32 = 8;

/// What follows from a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    Go,
    /// A remark for the next request alone.
    Nudge(&'static str),
    /// One last answer without tools; the text says why.
    Stop(&'static str),
}

/// Counts over one turn.
#[derive(Debug, Default)]
pub struct Guard {
    /// 0 means adaptive.
    rounds_max: u32,
    rounds: u32,
    last_call: String,
    repeats: u32,
    errors: u32,
}

impl Guard {
    #[must_use]
    pub fn new(rounds_max: u32) -> Self {
        Self {
            rounds_max,
            ..Self::default()
        }
    }

    /// Rounds so far.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// One call of the running round: its name with its arguments, and whether it failed.
    pub fn call(&mut self, call: String, failed: bool) {
        if call == self.last_call {
            self.repeats += 1;
        } else {
            self.last_call = call;
            self.repeats = 1;
        }
        self.errors = if failed { self.errors + 1 } else { 0 };
    }

    /// The round is over.
    pub fn round(&mut self) -> Advice {
        self.rounds += 1;
        if self.rounds_max > 0 && self.rounds >= self.rounds_max {
            return Advice::Stop("the limit max_tool_rounds is reached");
        }
        if self.rounds >= ROUNDS_MAX {
            return Advice::Stop("256 tool rounds are used up");
        }
        if self.rounds_max > 0 {
            return Advice::Go;
        }
        match (self.repeats, self.errors) {
            (REPEATS_TO_STOP.., _) => Advice::Stop("the same call was repeated seven times"),
            (_, ERRORS_TO_STOP..) => Advice::Stop("eight calls in a row failed"),
            (REPEATS_TO_NUDGE.., _) => Advice::Nudge(
                "You repeat the same tool call; its result will not change. Try another way or answer.",
            ),
            (_, ERRORS_TO_NUDGE..) => Advice::Nudge(
                "Your last tool calls all failed. Read the errors, change the approach, or answer.",
            ),
            _ => Advice::Go,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(guard: &mut Guard, call: &str, failed: bool) -> Advice {
        guard.call(call.to_owned(), failed);
        guard.round()
    }

    #[test]
    fn repetition_is_nudged_then_stopped() {
        let mut guard = Guard::new(0);
        for n in 1..=7 {
            let got = advice(&mut guard, "read a", false);
            match n {
                1..=3 => assert_eq!(got, Advice::Go, "{n}"),
                4..=6 => assert!(matches!(got, Advice::Nudge(_)), "{n}"),
                _ => assert!(matches!(got, Advice::Stop(_)), "{n}"),
            }
        }
        assert_eq!(advice(&mut guard, "read b", false), Advice::Go);
    }

    #[test]
    fn errors_in_a_row_are_nudged_then_stopped() {
        let mut guard = Guard::new(0);
        for n in 1..=8 {
            let got = advice(&mut guard, &n.to_string(), true);
            match n {
                1..=4 => assert_eq!(got, Advice::Go, "{n}"),
                5..=7 => assert!(matches!(got, Advice::Nudge(_)), "{n}"),
                _ => assert!(matches!(got, Advice::Stop(_)), "{n}"),
            }
        }
        assert_eq!(advice(&mut guard, "fine", false), Advice::Go);
    }

    #[test]
    fn rounds_are_limited_on_both_sides() {
        let mut guard = Guard::new(2);
        assert_eq!(advice(&mut guard, "1", false), Advice::Go);
        assert!(matches!(advice(&mut guard, "2", false), Advice::Stop(_)));
        let mut guard = Guard::new(0);
        for n in 1..ROUNDS_MAX {
            assert_eq!(advice(&mut guard, &n.to_string(), false), Advice::Go);
        }
        assert!(matches!(advice(&mut guard, "last", false), Advice::Stop(_)));
    }
}
