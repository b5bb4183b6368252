//! Who may call what: by the roles in a certificate, and by names in the orchestrator's file.

use tidegate_fleet::Amount;

use crate::support::tls::{Certificate, Role};

/// What callers want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// To be a node of the fleet, and to ask who could lend to it.
    Attend,
    /// To hear what the leader alone knows, so as to lead after it.
    Follow,
    /// To read what the leader knows of the fleet.
    Describe,
    /// To let a node lend nothing.
    Drain,
}

/// See the file's header.
#[derive(Clone, Debug)]
pub(super) struct Callers {
    /// Names that may drain; where it is empty, those with the role.
    pub(super) operators: Vec<String>,
    /// Names that may attend; all that may be nodes where it is empty.
    pub(super) nodes: Vec<String>,
    /// Whether certificates without roles may do nothing.
    pub(super) needs_roles: bool,
    /// What a node's uplink has at most.
    pub(super) uplink_max: Amount,
}

impl Callers {
    /// Whether the holder of a certificate may do this.
    ///
    /// # Errors
    /// Why not, and what would help.
    pub(super) fn check(&self, certificate: &Certificate, call: Call) -> Result<(), String> {
        let name = certificate.common_name.as_deref().unwrap_or_default();
        let is_in = |names: &[String]| names.iter().any(|one| one == name);
        let named_operator = is_in(&self.operators);
        if certificate.roles.is_empty() && self.needs_roles {
            return Err(format!(
                "the certificate of {name} has no role, and this orchestrator requires one: issue it with --role"
            ));
        }
        let may_be = |roles: &[Role]| roles.iter().any(|role| certificate.may_be(*role));
        let (is_allowed, wanted) = match call {
            Call::Attend => (may_be(&[Role::Node]), "node"),
            Call::Follow => (may_be(&[Role::Orchestrator]), "orchestrator"),
            Call::Describe => {
                (named_operator || may_be(&[Role::Operator, Role::Orchestrator]), "operator")
            }
            // It must be asked for: certificates without roles are those of every node and client.
            Call::Drain if self.operators.is_empty() => {
                (certificate.roles.contains(&Role::Operator), "operator")
            }
            Call::Drain if named_operator => (true, "operator"),
            Call::Drain => {
                return Err(format!("{name} is none of the operators of this orchestrator"));
            }
        };
        if !is_allowed {
            return Err(format!(
                "the certificate of {name} does not say that it may be {wanted}: issue it with --role {wanted}{}",
                if call == Call::Drain { ", or name it in [orchestrator] operators" } else { "" }
            ));
        }
        if call == Call::Attend && !self.nodes.is_empty() && !is_in(&self.nodes) {
            return Err(format!(
                "{name} is none of the nodes of this fleet ([orchestrator] nodes)"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(roles: &[Role]) -> Certificate {
        let (valid_from, valid_until) = (0, i64::MAX);
        let common_name = Some("gate-1".into());
        Certificate { common_name, roles: roles.to_vec(), valid_from, valid_until }
    }

    fn callers() -> Callers {
        Callers {
            operators: Vec::new(),
            nodes: Vec::new(),
            needs_roles: false,
            uplink_max: Amount(1),
        }
    }

    const CALLS: [Call; 4] = [Call::Attend, Call::Follow, Call::Describe, Call::Drain];

    fn allowed(callers: &Callers, roles: &[Role]) -> [bool; 4] {
        CALLS.map(|call| callers.check(&certificate(roles), call).is_ok())
    }

    #[test]
    fn a_role_may_do_its_own_and_none_may_drain_without_being_asked_for() {
        let callers = callers();
        assert_eq!(allowed(&callers, &[]), [true, true, true, false]);
        assert_eq!(allowed(&callers, &[Role::Node]), [true, false, false, false]);
        assert_eq!(allowed(&callers, &[Role::Orchestrator]), [false, true, true, false]);
        assert_eq!(allowed(&callers, &[Role::Operator]), [false, false, true, true]);
        assert_eq!(allowed(&callers, &[Role::Client]), [false; 4]);
        assert_eq!(allowed(&callers, &[Role::Node, Role::Operator]), [true, false, true, true]);
    }

    #[test]
    fn names_in_the_file_decide_where_there_are_any() {
        let named = Callers { operators: vec!["gate-1".into()], ..callers() };
        assert_eq!(allowed(&named, &[Role::Node]), [true, false, true, true]);
        let other = Callers { operators: vec!["ops".into()], ..callers() };
        assert_eq!(allowed(&other, &[Role::Operator]), [false, false, true, false]);
        let listed = Callers { nodes: vec!["gate-2".into()], ..callers() };
        assert_eq!(allowed(&listed, &[]), [false, true, true, false]);
    }

    #[test]
    fn where_roles_are_required_old_certificates_may_do_nothing() {
        let strict = Callers { needs_roles: true, ..callers() };
        assert_eq!(allowed(&strict, &[]), [false; 4]);
        assert_eq!(allowed(&strict, &[Role::Node]), [true, false, false, false]);
    }
}
