//! The keys of what both ends of a link prove: `ca`, `certificate` and `key`, all of them needed.

use std::path::PathBuf;

use super::findings::Findings;
use super::places::Place;

/// All three files are needed: both ends of a link prove who they are.
pub(crate) fn check(
    [ca, certificate, key]: [&Option<PathBuf>; 3],
    place: &Place,
    findings: &mut Findings,
) {
    let all = [("ca", ca), ("certificate", certificate), ("key", key)];
    let missing: Vec<&str> =
        all.iter().filter(|(_, file)| file.is_none()).map(|(name, _)| *name).collect();
    if !missing.is_empty() {
        let text = format!(
            "both ends of a link prove who they are; missing: {} (`tidegate keys` makes such files)",
            missing.join(", ")
        );
        findings.error(place.clone(), text);
    }
}
