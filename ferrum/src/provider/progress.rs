//! How much of a conversation has been converted: each message is, once. Pure.

use super::Request;
use crate::agent::message::Message;

#[derive(Default)]
pub(super) struct Progress {
    /// Messages that were converted, and the epoch that they belong to.
    taken: usize,
    epoch: u64,
}

impl Progress {
    /// The messages that are still to be converted. True when what was converted so far is to be
    /// forgotten, because they are all of them.
    pub(super) fn advance<'a>(&mut self, request: &Request<'a>) -> (bool, &'a [Message]) {
        let anew = request.epoch != self.epoch || request.messages.len() < self.taken;
        let from = if anew { 0 } else { self.taken };
        self.taken = request.messages.len();
        self.epoch = request.epoch;
        (anew, &request.messages[from..])
    }
}
