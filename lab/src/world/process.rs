//! A program that runs on a host of a world.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use anyhow::{bail, ensure};
use serde::{Deserialize, Serialize};

use super::World;

/// The program. Processes start in their order and end with their world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Process {
    /// Its name, before each of its lines.
    pub name: String,
    /// Where it runs.
    pub host: String,
    /// The program and its arguments. `{HOST}` is a host's address, `{HOST.LINK}` the one on that link.
    pub command: Vec<String>,
    /// What it says when it can serve; the next process starts then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
}

impl Process {
    pub(super) fn validate(&self, world: &World) -> anyhow::Result<()> {
        world.has_host(&self.host)?;
        ensure!(!self.command.is_empty(), "needs a command");
        Ok(())
    }
}

/// The word with addresses in the place of `{HOST}` and `{HOST.LINK}`.
///
/// # Errors
/// A name of no host, or of no link of that host.
pub fn fill(word: &str, addresses: &BTreeMap<String, Ipv4Addr>) -> anyhow::Result<String> {
    let mut filled = String::new();
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else { break };
        let is_name =
            |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '.';
        filled.push_str(before);
        match addresses.get(name) {
            Some(address) => filled.push_str(&address.to_string()),
            None if !name.is_empty() && name.chars().all(is_name) => {
                let known: Vec<&str> = addresses.keys().map(String::as_str).collect();
                bail!("{{{name}}} is no address; there are {}", known.join(", "))
            }
            // Braces of somebody else, as in JSON.
            None => filled.push_str(&format!("{{{name}}}")),
        }
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_addresses() {
        let address = Ipv4Addr::new(10, 212, 1, 2);
        let addresses = [("cloud".to_owned(), address), ("cloud.lte".to_owned(), address)].into();
        let filled = |word| fill(word, &addresses).map_err(|error| error.to_string());
        assert_eq!(
            filled("tcp://{cloud}:1883/{cloud.lte}"),
            Ok("tcp://10.212.1.2:1883/10.212.1.2".into())
        );
        assert_eq!(filled("{\"a\": 1} {}"), Ok("{\"a\": 1} {}".into()));
        assert_eq!(
            filled("{moon}"),
            Err("{moon} is no address; there are cloud, cloud.lte".into())
        );
        assert_eq!(filled("a{b"), Ok("a{b".into()));
    }
}
