//! What the user's own file says of an MCP server: the host knows only what a project takes away.

use super::answer::Answer;
use crate::config::{Config, McpIsolation};
use ferrum_proto::reply::{Explanation, Refusal};
use ferrum_proto::request::Act;
use ferrum_proto::seal::Promise;

/// One server of the file.
pub(super) struct Server {
    /// Why the user's own file keeps it out, and what would change that.
    off: Option<(String, String)>,
    isolation: McpIsolation,
}

/// The server that an act is about, if it is about one.
///
/// # Errors
/// A sentence where the file holds no such server.
pub(super) fn of(config: &Config, act: &Act) -> Result<Option<Server>, String> {
    match act {
        Act::Server(name) => find(config, name).map(Some),
        Act::Run(_) | Act::Read(_) | Act::Change(_) | Act::Connect { .. } | Act::Execute(_) => Ok(None),
    }
}

fn find(config: &Config, name: &str) -> Result<Server, String> {
    let settings = &config.settings;
    let file = config.file.display();
    let Some(server) = settings.mcp_servers.iter().find(|server| server.name == name) else {
        return Err(format!("{file} holds no [[mcp.servers]] of the name {name:?}"));
    };
    let off = if !settings.mcp_enabled {
        Some(("mcp_enabled is false", "set mcp_enabled = true in config.toml"))
    } else if !server.enabled {
        Some((
            "its own enabled is false",
            "set its enabled = true in config.toml",
        ))
    } else {
        None
    };
    Ok(Server {
        off: off.map(|(why, change)| (format!("{name} is not started: {why}"), change.to_owned())),
        isolation: server.isolation,
    })
}

impl Server {
    pub(super) fn add_to(self, (answer, basis): &mut Answer) {
        if let (Explanation::Allowed, Some((message, change))) = (&answer, self.off) {
            *answer = Explanation::Refused(Refusal {
                code: "mcp".to_owned(),
                line: 0,
                column: 0,
                message,
                hint: String::new(),
            });
            if let Some(basis) = basis {
                basis.change = change;
            }
        }
        if let (Some(basis), McpIsolation::User) = (basis, self.isolation) {
            // It runs with the user's own authority.
            basis.promises = vec![Promise {
                name: "isolation user".to_owned(),
                held_by: Vec::new(),
            }];
        }
    }
}
