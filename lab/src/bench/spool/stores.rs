//! A plain file and two embedded stores, each with one durable commit a group, from one thread without a
//! pause.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use super::payloads::Payloads;

/// Calls `commit` with the first number of each group until the time is over; records a second.
fn rate(
    group: usize,
    time: Duration,
    mut commit: impl FnMut(u64) -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    let (start, mut next) = (Instant::now(), 0);
    while start.elapsed() < time {
        commit(next)?;
        next += group as u64;
    }
    Ok(next as f64 / start.elapsed().as_secs_f64())
}

/// One write and one fdatasync a group; as much as any log on this disk could do.
pub(super) fn plain(folder: &Path, group: usize, time: Duration) -> anyhow::Result<f64> {
    let mut file = OpenOptions::new().create(true).append(true).open(folder.join("plain"))?;
    let payloads = Payloads::new(group);
    rate(group, time, |first| {
        file.write_all(&payloads.of_group(first, group))?;
        Ok(file.sync_data()?)
    })
}

/// redb: a transaction a group, of immediate durability.
pub(super) fn redb(folder: &Path, group: usize, time: Duration) -> anyhow::Result<f64> {
    const TABLE: redb::TableDefinition<'_, u64, &[u8]> = redb::TableDefinition::new("records");
    let payloads = Payloads::new(group);
    let store = redb::Database::create(folder.join("redb"))?;
    rate(group, time, |first| {
        let transaction = store.begin_write()?;
        {
            let mut table = transaction.open_table(TABLE)?;
            for number in first..first + group as u64 {
                table.insert(number, &payloads.of(number)[..])?;
            }
        }
        Ok(transaction.commit()?)
    })
}

/// fjall: a batch a group, then its journal is made safe by fdatasync.
pub(super) fn fjall(folder: &Path, group: usize, time: Duration) -> anyhow::Result<f64> {
    let payloads = Payloads::new(group);
    let store = fjall::Database::builder(folder.join("fjall")).open()?;
    let records = store.keyspace("records", fjall::KeyspaceCreateOptions::default)?;
    rate(group, time, |first| {
        let mut batch = store.batch();
        for number in first..first + group as u64 {
            batch.insert(&records, number.to_be_bytes(), &payloads.of(number)[..]);
        }
        batch.commit()?;
        Ok(store.persist(fjall::PersistMode::SyncData)?)
    })
}
