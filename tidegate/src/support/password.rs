//! A password for a far end, asked for anew with each connection: tokens end, and somebody writes new ones.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tidegate_types::hidden::Hidden;
use tokio::io::{AsyncRead, AsyncReadExt, copy, sink};
use tokio::process::Command;
use tokio::time::timeout;

use crate::support::tls::private;

/// How long a command may take.
const COMMAND_PATIENCE: Duration = Duration::from_secs(10);
/// Longest password: what MQTT can carry.
const LENGTH_MAX: usize = 65_535;
/// So much is read of a source: the longest password, its line end, and one byte too many.
const READ_MAX: u64 = LENGTH_MAX as u64 + 3;
/// So much is read of what a command complains of.
const COMPLAINT_MAX: u64 = 4096;
/// A token is renewed this long before it ends, or when a tenth of it is left.
const MARGIN: Duration = Duration::from_secs(60);
/// Nobody has written a newer token so shortly before it ends: the far end ends the connection.
const TOO_LATE: Duration = Duration::from_secs(5);

/// Where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PasswordSource {
    /// It stays the same.
    Fixed(Hidden),
    /// A file that holds it and nothing else.
    File(PathBuf),
    /// A program and its arguments, which writes it.
    Command(Vec<String>),
}

/// See the file's header. Clones ask in one name.
#[derive(Clone, Debug)]
pub struct Password {
    source: PasswordSource,
    /// What was had last: it counts where there is none now.
    last: Arc<Mutex<Option<Hidden>>>,
}

/// A password, and how long it is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fresh {
    /// The password.
    pub password: Hidden,
    /// After how long a newer one should be used, where it is a token that ends.
    pub renews_in: Option<Duration>,
}

impl Password {
    /// From this source. A file is read at once; a command is not run.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn new(source: PasswordSource) -> std::io::Result<Password> {
        let last = match &source {
            PasswordSource::Fixed(password) => Some(password.clone()),
            PasswordSource::File(file) => {
                private::look_at(file)?;
                // One without a password is being written perhaps: it is read again for the connection.
                usable(&read(file)?).ok()
            }
            PasswordSource::Command(_) => None,
        };
        Ok(Password { source, last: Arc::new(Mutex::new(last)) })
    }

    /// The password of now. What is wrong with its source is told, and what was had last counts.
    ///
    /// # Errors
    /// What is wrong with its source, where none was had before.
    pub async fn now(&self) -> Result<Fresh, String> {
        let found = match &self.source {
            PasswordSource::Fixed(password) => Ok(password.clone()),
            PasswordSource::File(file) => {
                let path = file.clone();
                let text = tokio::task::spawn_blocking(move || read(&path)).await;
                let text = text.map_err(std::io::Error::other).flatten();
                let found = text.map_err(|error| error.to_string()).and_then(|text| usable(&text));
                found.map_err(|error| format!("password_file: {}: {error}", file.display()))
            }
            PasswordSource::Command(words) => {
                run(words).await.map_err(|error| format!("password_command: {error}"))
            }
        };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let password = match (found, &*last) {
            (Ok(password), _) => last.insert(password).clone(),
            (Err(error), Some(password)) => {
                tracing::warn!("the password stays as it was: {error}");
                password.clone()
            }
            (Err(error), None) => return Err(format!("there is no password: {error}")),
        };
        let left = ends_at(&password).map(|end| end.saturating_sub(unix_now()));
        if left.is_some_and(|left| left < TOO_LATE) {
            tracing::warn!(
                "the token that is a password here has ended, and there is no newer one"
            );
        }
        let renews_in =
            left.filter(|left| *left >= TOO_LATE).map(|left| left - MARGIN.min(left / 10));
        Ok(Fresh { password, renews_in })
    }
}

impl PartialEq for Password {
    fn eq(&self, other: &Password) -> bool {
        self.source == other.source
    }
}

impl Eq for Password {}

fn unix_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The text of a file, or its beginning where it is longer than any password.
fn read(file: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(file)?.take(READ_MAX).read_to_end(&mut bytes)?;
    String::from_utf8(bytes).map_err(|_| std::io::Error::other("no text"))
}

/// The password in what a source says: the last line end does not belong to it.
fn usable(text: &str) -> Result<Hidden, String> {
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err("it is empty".into()),
        long if long.len() > LENGTH_MAX => {
            Err(format!("it is longer than {LENGTH_MAX} bytes: no password is"))
        }
        password => Ok(password.into()),
    }
}

async fn run(words: &[String]) -> Result<Hidden, String> {
    let (program, arguments) = words.split_first().ok_or("no program is named")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{program:?}: {error}"))?;
    let (said, complaint) = (child.stdout.take(), child.stderr.take());
    let ended = timeout(COMMAND_PATIENCE, async {
        let (said, complaint) = tokio::try_join!(said_by(said), complained_of(complaint))?;
        Ok::<_, std::io::Error>((said, complaint, child.wait().await?))
    });
    let ended =
        ended.await.map_err(|_| format!("{program:?} has not ended in {COMMAND_PATIENCE:?}"))?;
    let (said, complaint, status) = ended.map_err(|error| format!("{program:?}: {error}"))?;
    if !status.success() {
        let complaint = String::from_utf8_lossy(&complaint);
        let complaint = complaint.lines().next().unwrap_or_default();
        return Err(format!("{program:?}: {status}: {complaint}"));
    }
    let text = String::from_utf8(said).map_err(|_| format!("{program:?} writes no text"))?;
    usable(&text).map_err(|error| format!("what {program:?} writes: {error}"))
}

/// All that a command writes. One that writes more than a password has is not waited for.
async fn said_by(pipe: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut said = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(READ_MAX).read_to_end(&mut said).await?;
    }
    if said.len() as u64 == READ_MAX {
        return Err(std::io::Error::other(format!(
            "it writes more than {LENGTH_MAX} bytes: no password is"
        )));
    }
    Ok(said)
}

/// The beginning of what it complains of; it may complain of more.
async fn complained_of(pipe: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut complaint = Vec::new();
    if let Some(mut pipe) = pipe {
        (&mut pipe).take(COMPLAINT_MAX).read_to_end(&mut complaint).await?;
        copy(&mut pipe, &mut sink()).await?;
    }
    Ok(complaint)
}

/// When a token ends, counted from 1970: the claim `exp` of a JSON Web Token, or `se` of a shared access signature.
fn ends_at(password: &str) -> Option<Duration> {
    let seconds = match password.strip_prefix("SharedAccessSignature ") {
        Some(fields) => {
            fields.split('&').find_map(|field| field.strip_prefix("se="))?.parse().ok()?
        }
        None => {
            let mut parts = password.split('.');
            let (Some(_), Some(claims), Some(_), None) =
                (parts.next(), parts.next(), parts.next(), parts.next())
            else {
                return None;
            };
            let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
            let claims: serde_json::Value = serde_json::from_slice(&claims).ok()?;
            claims.get("exp")?.as_f64()?
        }
    };
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &str) -> String {
        format!("eyJhbGciOiJFUzI1NiJ9.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn tokens_say_when_they_end() {
        let at = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(ends_at(&token("{\"sub\":\"gate\",\"exp\":1790000000}")), at(1_790_000_000));
        let sas = "SharedAccessSignature sr=hub.example%2Fdevices%2Fg&sig=a%3D&se=1790000001";
        assert_eq!(ends_at(sas), at(1_790_000_001));
        let odd = [token("{\"exp\":-1}"), token("{\"exp\":\"soon\"}"), token("{}"), token("no")];
        assert!(odd.iter().all(|odd| ends_at(odd).is_none()));
        for plain in ["", "secret", "a.b.c", "a.b", "SharedAccessSignature sig=a&se=", "a.b.c.d"] {
            assert_eq!(ends_at(plain), None, "{plain}");
        }
    }

    #[tokio::test]
    async fn a_file_is_read_for_each_connection_and_the_last_word_counts_where_it_is_gone() {
        let file = std::env::temp_dir().join(format!("tidegate-password-{}", std::process::id()));
        std::fs::write(&file, "one\n").unwrap();
        let password = Password::new(PasswordSource::File(file.clone())).unwrap();
        assert_eq!(&*password.now().await.unwrap().password, "one");
        std::fs::write(&file, "two\r\n").unwrap();
        assert_eq!(&*password.now().await.unwrap().password, "two");
        for wrong in [String::new(), "\n".into(), "x".repeat(LENGTH_MAX + 1), "x".repeat(1 << 20)] {
            std::fs::write(&file, wrong).unwrap();
            assert_eq!(&*password.now().await.unwrap().password, "two");
            let anew = Password::new(PasswordSource::File(file.clone())).unwrap();
            let error = anew.now().await.unwrap_err();
            assert!(error.contains("there is no password: password_file: "), "{error}");
        }
        std::fs::write(&file, "x".repeat(LENGTH_MAX) + "\r\n").unwrap();
        assert_eq!(password.now().await.unwrap().password.len(), LENGTH_MAX);
        std::fs::write(&file, "two").unwrap();
        assert_eq!(&*password.now().await.unwrap().password, "two");
        std::fs::remove_file(&file).unwrap();
        assert_eq!(&*password.clone().now().await.unwrap().password, "two");
        assert!(Password::new(PasswordSource::File(file)).is_err());
    }

    #[tokio::test]
    async fn a_command_writes_it_or_is_told_wrong() {
        let of = |script: &str| ["sh", "-c", script].map(str::to_owned).to_vec();
        assert_eq!(run(&of("echo word")).await, Ok("word".into()));
        let error = run(&of("echo no key >&2; exit 3")).await.unwrap_err();
        assert!(error.contains("no key") && error.contains('3'), "{error}");
        assert!(run(&of("true")).await.unwrap_err().contains("empty"));
        let error = run(&of("while :; do echo endless; done")).await.unwrap_err();
        assert!(error.contains("more than 65535 bytes"), "{error}");
        let noisy = "i=0; while [ $i -lt 20000 ]; do echo noise >&2; i=$((i + 1)); done; echo word";
        assert_eq!(run(&of(noisy)).await, Ok("word".into()));
        assert!(run(&["/nowhere/at-all".to_owned()]).await.is_err());
        let password = Password::new(PasswordSource::Command(of("exit 1"))).unwrap();
        assert!(password.now().await.unwrap_err().contains("there is no password"));
    }

    #[tokio::test]
    async fn a_token_is_renewed_before_it_ends() {
        let ends_in = |seconds: u64| {
            let token = token(&format!("{{\"exp\":{}}}", unix_now().as_secs() + seconds));
            let password = Password::new(PasswordSource::Fixed(token.into())).unwrap();
            async move { password.now().await.unwrap().renews_in }
        };
        let within = |renews_in: Option<Duration>, from, to| {
            renews_in.is_some_and(|at| (from..=to).contains(&at.as_secs()))
        };
        assert!(within(ends_in(3600).await, 3535, 3540));
        assert!(within(ends_in(100).await, 85, 90));
        assert_eq!(ends_in(2).await, None);
    }
}
