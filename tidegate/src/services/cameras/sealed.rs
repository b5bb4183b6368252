//! Entries of a camera's files, sealed where the node's log is: docs/decisions/0144.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use bytes::Bytes;
use ring::rand::SystemRandom;
use tidegate_frames::archive::{ArchivedFrame, MAGIC, MAGIC_SEALED, SALT, TAG, begin, head};
use tidegate_log::{Key, SegmentKey};

/// What opens the entries of one file, or seals them.
#[derive(Clone, Debug)]
pub(super) struct FileKey(Option<SegmentKey>);

impl FileKey {
    /// Begins a file: writes its head. The first key seals; without one nothing is sealed.
    pub(super) fn begin(keys: &[Key], file: &mut File) -> io::Result<(FileKey, u64)> {
        let Some(key) = keys.first() else {
            file.write_all(&MAGIC)?;
            return Ok((FileKey(None), MAGIC.len() as u64));
        };
        let salt = ring::rand::generate::<[u8; SALT]>(&SystemRandom::new());
        let salt = salt.map_err(|_| io::Error::other("no random numbers"))?.expose();
        file.write_all(&[&MAGIC_SEALED[..], &salt].concat())?;
        Ok((FileKey(Some(key.of_file(salt))), (MAGIC_SEALED.len() + SALT) as u64))
    }

    /// What opens a file of this content, of which `first` is the first entry.
    ///
    /// # Errors
    /// None of the keys does.
    pub(super) fn find(keys: &[Key], content: &[u8], first: &ArchivedFrame) -> io::Result<Self> {
        let Some((_, Some(salt))) = begin(content) else { return Ok(FileKey(None)) };
        let sealed = &content[first.offset as usize..][..first.length as usize];
        let keys = keys.iter().map(|key| FileKey(Some(key.of_file(salt))));
        let mut keys = keys.filter(|key| key.open(first.number, sealed.to_vec()).is_ok());
        keys.next().ok_or_else(|| {
            let text = "it is sealed, and no key of [log] opens it";
            io::Error::new(io::ErrorKind::InvalidData, text)
        })
    }

    /// An entry as it is written: what stands before it, and its content. No number may come twice in a file.
    pub(super) fn entry(&self, number: u64, content: &[u8]) -> io::Result<Vec<u8>> {
        let mut sealed = content.to_vec();
        if let Some(key) = &self.0 {
            let tag = key.seal(number, &number.to_be_bytes(), &mut sealed);
            sealed.extend(tag.ok_or_else(|| io::Error::other("more than can be sealed"))?);
        }
        Ok([&head(number, &sealed)[..], &sealed].concat())
    }

    /// An entry's content.
    pub(super) fn open(&self, number: u64, entry: Vec<u8>) -> io::Result<Bytes> {
        let Some(key) = &self.0 else { return Ok(entry.into()) };
        let opened = key.unseal(number, &number.to_be_bytes(), &entry);
        let opened = opened.ok_or_else(|| io::Error::other("it is not what was sealed"))?;
        Ok(opened.into())
    }

    /// The content of an entry of an open file.
    pub(super) fn read(&self, file: &File, at: &ArchivedFrame) -> io::Result<Bytes> {
        let mut bytes = vec![0; at.length as usize];
        file.read_exact_at(&mut bytes, at.offset)?;
        self.open(at.number, bytes)
    }
}

const _: () = assert!(TAG == tidegate_log::TAG_LENGTH && SALT == tidegate_log::SALT_LENGTH);
