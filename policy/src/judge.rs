//! judge(grant, ground, act) → verdict: the decision table.

use crate::{Action, Grant, Ground, Verdict};

/// Says whether one act is part of the grant.
pub fn judge(grant: &Grant, ground: &Ground, action: &Action<'_>) -> Verdict {
    match action {
        Action::Read { .. } | Action::Mutate { .. } => Verdict::Allow,
        Action::Run { command } => crate::shell::judge(command, grant, ground),
    }
}
