//! Who owns what, on disk: a line for each unit, with its name, epoch and owner; and a line that says that the node drains.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use tidegate_cluster::handover::{Member, UnitOwner};

/// The line of a node that drains. It has no epoch, so no unit is called so, and who does not know it skips it.
const DRAINS: &str = "drains";

/// Owners as a file has them, in the order of `units`, and whether the node drains; owners that it does not name are `first`.
///
/// # Errors
/// The file cannot be read; that there is none is no error.
pub(super) fn read(
    path: &Path,
    units: &[String],
    members: &[String],
    first: &[UnitOwner],
) -> io::Result<(Vec<UnitOwner>, bool)> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        text => text?,
    };
    Ok(parse(&text, units, members, first))
}

/// The same of the text of a file.
pub(super) fn parse(
    text: &str,
    units: &[String],
    members: &[String],
    first: &[UnitOwner],
) -> (Vec<UnitOwner>, bool) {
    let mut owners = first.to_vec();
    for line in text.lines() {
        let mut words = line.split('\t');
        let (Some(name), Some(epoch), Some(owner)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let unit = units.iter().position(|unit| unit == name);
        let member = members.iter().position(|member| member == owner);
        if let (Some(unit), Some(member), Ok(epoch)) = (unit, member, epoch.parse()) {
            owners[unit] = UnitOwner { epoch, member: Member(member as u16) };
        }
    }
    let drains = text.lines().any(|line| line == DRAINS);
    (owners, drains)
}

/// Writes them: the file is the old one or the new one, whatever happens.
///
/// # Errors
/// The disk says no.
pub(super) fn write(
    path: &Path,
    units: &[String],
    members: &[String],
    owners: &[UnitOwner],
    drains: bool,
) -> io::Result<()> {
    let text = text(units, members, owners, drains);
    let beside = path.with_extension("new");
    let mut file = File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// The text of a state file: for tests and fuzzing. What is read of it writes a text that says the same.
///
/// # Panics
/// A promise is broken.
pub fn exercise(data: &[u8]) {
    let Ok(told) = std::str::from_utf8(data) else { return };
    let names = |all: &[&str]| all.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let (units, members) = (names(&["taxi-7", "taxi-8"]), names(&["gate-7", "gate-8"]));
    let first = [UnitOwner { epoch: 0, member: Member(0) }; 2];
    let (owners, drains) = parse(told, &units, &members, &first);
    let again = text(&units, &members, &owners, drains);
    assert_eq!(parse(&again, &units, &members, &first), (owners, drains));
}

fn text(units: &[String], members: &[String], owners: &[UnitOwner], drains: bool) -> String {
    let mut text = if drains { format!("{DRAINS}\n") } else { String::new() };
    for (unit, owner) in units.iter().zip(owners) {
        let member = members.get(usize::from(owner.member.0)).map_or("", String::as_str);
        text.push_str(&format!("{unit}\t{}\t{member}\n", owner.epoch));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_come_back_and_strangers_are_left_out() {
        let name = format!("tidegate-group-state-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let (units, members) = (names(&["gps 1", "gps 2"]), names(&["a", "b"]));
        let owner = |epoch, member| UnitOwner { epoch, member: Member(member) };
        let first = [owner(0, 0), owner(0, 0)];
        assert_eq!(read(&path, &units, &members, &first).unwrap(), (first.to_vec(), false));
        let now = [owner(3, 1), owner(0, 0)];
        write(&path, &units, &members, &now, true).unwrap();
        assert_eq!(read(&path, &units, &members, &first).unwrap(), (now.to_vec(), true));
        write(&path, &units, &members, &now, false).unwrap();
        assert_eq!(read(&path, &units, &members, &first).unwrap(), (now.to_vec(), false));
        let other = read(&path, &names(&["gps 2", "gps 1"]), &names(&["a", "c"]), &first);
        assert_eq!(other.unwrap().0, first, "b is no member any more");
        fs::remove_file(path).unwrap();
    }
}
