//! The words of a policy on the wire and inside, one table for each direction.

/// Wire terms → inner terms.
pub mod from_wire {
    use ferrum_proto::terms;

    #[must_use]
    pub fn tier(value: terms::Tier) -> policy::Tier {
        match value {
            terms::Tier::Low => policy::Tier::Low,
            terms::Tier::Medium => policy::Tier::Medium,
            terms::Tier::High => policy::Tier::High,
        }
    }

    #[must_use]
    pub fn network(value: terms::Network) -> policy::Network {
        match value {
            terms::Network::None => policy::Network::None,
            terms::Network::Private => policy::Network::Private,
            terms::Network::Full => policy::Network::Full,
        }
    }

    #[must_use]
    pub fn shell(value: terms::Shell) -> policy::ShellMode {
        match value {
            terms::Shell::Static => policy::ShellMode::Static,
            terms::Shell::Auto => policy::ShellMode::Auto,
        }
    }

    #[must_use]
    pub fn require(value: terms::Require) -> policy::Require {
        match value {
            terms::Require::Any => policy::Require::Any,
            terms::Require::Kernel => policy::Require::Kernel,
            terms::Require::Full => policy::Require::Full,
        }
    }

    #[must_use]
    pub fn isolation(value: terms::Isolation) -> policy::Isolation {
        match value {
            terms::Isolation::Partial => policy::Isolation::Partial,
            terms::Isolation::Kernel => policy::Isolation::Kernel,
            terms::Isolation::Full => policy::Isolation::Full,
        }
    }
}

/// Inner terms → wire terms, for the two answers to the seal.
pub mod to_wire {
    use ferrum_proto::terms;

    #[must_use]
    pub fn tier(value: policy::Tier) -> terms::Tier {
        match value {
            policy::Tier::Low => terms::Tier::Low,
            policy::Tier::Medium => terms::Tier::Medium,
            policy::Tier::High => terms::Tier::High,
        }
    }

    #[must_use]
    pub fn network(value: policy::Network) -> terms::Network {
        match value {
            policy::Network::None => terms::Network::None,
            policy::Network::Private => terms::Network::Private,
            policy::Network::Full => terms::Network::Full,
        }
    }

    #[must_use]
    pub fn shell(value: policy::ShellMode) -> terms::Shell {
        match value {
            policy::ShellMode::Static => terms::Shell::Static,
            policy::ShellMode::Auto => terms::Shell::Auto,
        }
    }

    #[must_use]
    pub fn require(value: policy::Require) -> terms::Require {
        match value {
            policy::Require::Any => terms::Require::Any,
            policy::Require::Kernel => terms::Require::Kernel,
            policy::Require::Full => terms::Require::Full,
        }
    }

    #[must_use]
    pub fn isolation(value: policy::Isolation) -> terms::Isolation {
        match value {
            policy::Isolation::Partial => terms::Isolation::Partial,
            policy::Isolation::Kernel => terms::Isolation::Kernel,
            policy::Isolation::Full => terms::Isolation::Full,
        }
    }
}
