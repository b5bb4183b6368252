//! The file of users: one `name:hash` a line, the hash by Argon2id in its usual text form (PHC).

use std::collections::hash_map::{DefaultHasher, RandomState};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{BuildHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use argon2::password_hash::rand_core::OsRng;
use argon2::password_hash::{Output, PasswordHash, PasswordHasher, Salt, SaltString};
use argon2::{Algorithm, Argon2, Block, Params, Version};

use crate::support::files;
use crate::support::followed::Followed;

/// Longest file.
const FILE_MAX: u64 = 4 << 20;
/// Longest name.
const NAME_MAX: usize = 64;
/// Most memory in KiB and most passes that a hash may ask for: a wrong file must not stall the node.
const COST_MAX: (u32, u32) = (256 * 1024, 16);
/// The hash of a password that nobody knows: a name that is not there costs as much time as one that is.
const STAND_IN: &str = "$argon2id$v=19$m=19456,t=2,p=1$c29tZSBzYWx0IGhlcmU$\
                        8J0jqC6qkkSlYqkCUvcxdOZdiHZ1eUhNXAtnRwxcBJo";

/// Why there are no users.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    /// The file cannot be read or written.
    #[error("{}: {source}", file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A line is wrong.
    #[error("{}:{line}: {what}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong and what would be right.
        what: &'static str,
    },
    /// A name or password cannot be used.
    #[error("{0}")]
    Unusable(&'static str),
}

/// Wrong passwords that are remembered: a client that was not told of a new one tries the old one again
/// and again, and costs nothing.
const WRONG_MAX: usize = 4096;

/// Names and passwords that were wrong, by two hashes each; the oldest is forgotten first.
#[derive(Debug, Default)]
struct Wrong {
    all: BTreeSet<(u64, u64)>,
    order: VecDeque<(u64, u64)>,
}

impl Wrong {
    fn note(&mut self, keyed: (u64, u64)) {
        if self.all.insert(keyed) {
            self.order.push_back(keyed);
        }
        if self.order.len() > WRONG_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.all.remove(&oldest);
        }
    }
}

/// Users and the hashes of their passwords.
#[derive(Debug, Default)]
pub struct Users {
    hashes: BTreeMap<String, String>,
    /// Of each user the password that was right last, by two hashes with keys of this process.
    right: Mutex<BTreeMap<String, (u64, u64)>>,
    wrong: Mutex<Wrong>,
    keys: (RandomState, RandomState),
    /// Memory of hashes: as many as were computed at a time.
    blocks: Mutex<Vec<Vec<Block>>>,
}

impl Users {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or a line is wrong.
    pub fn read(file: &Path) -> Result<Users, UsersError> {
        let failed = |source| UsersError::File { file: file.into(), source };
        let text = files::read_text(file, FILE_MAX).map_err(failed)?;
        Users::parse(&text).map_err(|(line, what)| UsersError::Line {
            file: file.into(),
            line,
            what,
        })
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// The line that is wrong, from 1, and what is.
    pub fn parse(text: &str) -> Result<Users, (usize, &'static str)> {
        let mut users = Users::default();
        for (place, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let number = place + 1;
            let (name, hash) = line.split_once(':').ok_or((
                number,
                "no colon: a line is name:hash, as `tidegate user add` makes it",
            ))?;
            name_is_good(name).map_err(|what| (number, what))?;
            hash_is_good(hash).map_err(|what| (number, what))?;
            if users.hashes.insert(name.into(), hash.into()).is_some() {
                return Err((number, "this user stands above already"));
            }
        }
        Ok(users)
    }

    /// Their names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.hashes.keys().map(String::as_str)
    }

    /// A mark of what a user's password is checked against: it changes with the password.
    pub fn mark(&self, name: &str) -> Option<u64> {
        let mut hasher = DefaultHasher::new();
        self.hashes.get(name)?.hash(&mut hasher);
        Some(hasher.finish())
    }

    /// Adds a user, or gives one another password.
    ///
    /// # Errors
    /// The name or the password cannot be used.
    pub fn add(&mut self, name: &str, password: &[u8]) -> Result<(), UsersError> {
        name_is_good(name).map_err(UsersError::Unusable)?;
        if password.is_empty() {
            return Err(UsersError::Unusable("an empty password"));
        }
        let salt = SaltString::generate(&mut OsRng);
        let hash = Argon2::default().hash_password(password, &salt);
        let hash = hash.map_err(|_| UsersError::Unusable("this password cannot be hashed"))?;
        self.hashes.insert(name.into(), hash.to_string());
        Ok(())
    }

    /// Removes a user; whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        self.hashes.remove(name).is_some()
    }

    /// Writes the file as a whole or not at all. A new one is its owner's only.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, file: &Path) -> Result<(), UsersError> {
        let failed = |source| UsersError::File { file: file.into(), source };
        let text: String =
            self.hashes.iter().map(|(name, hash)| format!("{name}:{hash}\n")).collect();
        let mode = std::fs::metadata(file).map_or(0o600, |old| old.permissions().mode());
        replace(file, &text, mode).map_err(failed)
    }

    /// Whether this password was right or wrong before: the quick answer for a client that comes back;
    /// `None` for one that is not known. A password is kept only as a hash whose keys nobody outside this
    /// process knows.
    pub fn recall(&self, name: &str, password: &[u8]) -> Option<bool> {
        let keyed = self.keyed(name, password);
        let right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
        if right.get(name) == Some(&keyed) {
            return Some(true);
        }
        drop(right);
        let wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        wrong.all.contains(&keyed).then_some(false)
    }

    /// Whether this is the user's password. Takes tens of milliseconds, whether or not there is such a
    /// user.
    pub fn verify(&self, name: &str, password: &[u8]) -> bool {
        let known = self.hashes.get(name);
        let hash = PasswordHash::new(known.map_or(STAND_IN, String::as_str)).ok();
        let fits = hash.and_then(|hash| self.fits(password, &hash));
        let is_right = fits.unwrap_or_default() && known.is_some();
        let keyed = self.keyed(name, password);
        if is_right {
            let mut right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
            right.insert(name.into(), keyed);
        } else {
            self.wrong.lock().unwrap_or_else(PoisonError::into_inner).note(keyed);
        }
        is_right
    }

    /// Whether a password has this hash; `None` for a hash that is none. The memory of a hash is kept for the next:
    /// an allocator asked for 19 MiB by one thread after another keeps as much for each.
    fn fits(&self, password: &[u8], hash: &PasswordHash<'_>) -> Option<bool> {
        let params = Params::try_from(hash).ok()?;
        let version = hash.version.map_or(Ok(Version::default()), Version::try_from).ok()?;
        let expected = hash.hash?;
        let mut salt = [0; Salt::MAX_LENGTH];
        let salt = hash.salt?.decode_b64(&mut salt).ok()?;
        let mut blocks = self.blocks().pop().unwrap_or_default();
        blocks.resize(params.block_count(), Block::default());
        let hasher = Argon2::new(Algorithm::Argon2id, version, params);
        let found = Output::init_with(expected.len(), |out| {
            Ok(hasher.hash_password_into_with_memory(password, salt, out, &mut blocks)?)
        });
        self.blocks().push(blocks);
        // In constant time.
        Some(found.ok()? == expected)
    }

    fn blocks(&self) -> MutexGuard<'_, Vec<Vec<Block>>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keyed(&self, name: &str, password: &[u8]) -> (u64, u64) {
        let both = (name, password);
        (self.keys.0.hash_one(both), self.keys.1.hash_one(both))
    }
}

/// Writes a file as a whole or not at all, with this mode.
pub(crate) fn replace(file: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut fresh = file.as_os_str().to_owned();
    fresh.push(".new");
    let mut options = std::fs::OpenOptions::new();
    // Nobody else reads it while it is in the making.
    let mut new = options.write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    new.write_all(text.as_bytes())?;
    new.set_permissions(PermissionsExt::from_mode(mode))?;
    new.sync_all()?;
    std::fs::rename(&fresh, file)
}

/// Says why a name cannot be a user's.
pub(crate) fn name_is_good(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.len() > NAME_MAX {
        return Err("a user name has 1 to 64 bytes");
    }
    if name.starts_with('#') || name.trim() != name {
        return Err("a user name begins with no # and no space, and ends with none");
    }
    if name.contains(|c: char| c.is_control() || ":/+#".contains(c)) {
        return Err("a user name has no : / + # and no control character");
    }
    Ok(())
}

fn hash_is_good(hash: &str) -> Result<(), &'static str> {
    const WHAT: &str = "no Argon2id hash: `tidegate user add` makes one";
    let parsed = PasswordHash::new(hash).map_err(|_| WHAT)?;
    // The library multiplies it before it looks how large it is.
    if parsed.params.get_decimal("p").is_some_and(|lanes| lanes > argon2::Params::MAX_P_COST) {
        return Err(WHAT);
    }
    let params = argon2::Params::try_from(&parsed).map_err(|_| WHAT)?;
    if parsed.algorithm.as_str() != "argon2id" || parsed.hash.is_none() {
        return Err(WHAT);
    }
    if params.m_cost() > COST_MAX.0 || params.t_cost() > COST_MAX.1 {
        return Err("a hash that costs more than m=262144 or t=16: every login would stall");
    }
    Ok(())
}

/// A file of users that is read again when it has changed.
#[derive(Debug)]
pub struct UserFile(Followed<Users>);

impl UserFile {
    /// Reads it for the first time.
    ///
    /// # Errors
    /// As [`Users::read`].
    pub fn open(file: &Path) -> Result<UserFile, UsersError> {
        let path = file.to_owned();
        Followed::new("users", vec![file.into()], move || Users::read(&path)).map(UserFile)
    }

    /// The users now. A file that went wrong changes nothing, and is told once.
    pub fn current(&self) -> Arc<Users> {
        self.0.current()
    }

    /// How often it was read.
    pub fn edition(&self) -> u64 {
        self.0.edition().0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_passwords_are_remembered_within_a_bound() {
        let mut wrong = Wrong::default();
        for number in 0..2 * WRONG_MAX as u64 {
            wrong.note((number, 0));
            wrong.note((number, 0));
        }
        assert_eq!((wrong.all.len(), wrong.order.len()), (WRONG_MAX, WRONG_MAX));
        assert!(wrong.all.contains(&(2 * WRONG_MAX as u64 - 1, 0)) && !wrong.all.contains(&(0, 0)));
    }

    #[test]
    fn a_name_that_is_not_there_costs_a_whole_check() {
        assert_eq!(hash_is_good(STAND_IN), Ok(()));
        assert!(hash_is_good(&STAND_IN.replace("p=1", "p=555555551")).is_err());
    }
}
