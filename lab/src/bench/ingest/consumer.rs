//! Where a contestant forwards to, which costs as little as counting can.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::load::raw;

/// A server that acknowledges every PUBLISH and counts.
pub(super) struct Consumer {
    pub(super) address: SocketAddr,
    pub(super) count: Arc<AtomicU64>,
}

impl Consumer {
    pub(super) fn listen() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let count = Arc::new(AtomicU64::new(0));
        let counter = count.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let counter = counter.clone();
                thread::spawn(move || {
                    raw::serve(stream, |_| _ = counter.fetch_add(1, Ordering::Relaxed))
                });
            }
        });
        Ok(Consumer { address, count })
    }
}
