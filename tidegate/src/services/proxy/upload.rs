//! The clock of a client's body, and what its sender is told when it breaks off.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Frame;
use tokio::time::{Instant, Sleep, sleep};

use super::answer::Failure;

/// Why a body did not come to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    /// Its sender broke off, or did not speak HTTP.
    #[error("the body broke off")]
    Broken(#[source] hyper::Error),
    /// Nothing of it came for too long.
    #[error("the body did not come in time")]
    Late,
}

/// How a client's body goes on, as its exchange sees it.
#[derive(Debug)]
pub(super) struct Upload {
    patience: Duration,
    fault: Cell<Option<Failure>>,
    /// We wait for the client.
    waits: Cell<bool>,
    /// Both sides speak when they have something to say: the clock stands still.
    is_dialog: Cell<bool>,
    /// When the rest of it must have come: its answer was handed over to the end.
    end: Cell<Option<Instant>>,
    /// Who sends it, while it waits for the client.
    sender: RefCell<Option<Waker>>,
}

impl Upload {
    /// One whose parts may each take so long.
    pub(super) fn new(patience: Duration) -> Rc<Upload> {
        Rc::new(Upload {
            patience,
            fault: Cell::default(),
            waits: Cell::default(),
            is_dialog: Cell::default(),
            end: Cell::default(),
            sender: RefCell::default(),
        })
    }

    /// The client's own mistake, where it was one that `failure` came of.
    pub(super) fn blame(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Broken => self.fault.get().unwrap_or(failure),
            Failure::Timeout if self.waits.get() => Failure::BodyTimeout,
            _ => failure,
        }
    }

    /// The answer has begun, and is one of gRPC.
    pub(super) fn begin_dialog(&self) {
        self.is_dialog.set(true);
    }

    /// The answer was handed over to its end: the rest may take as long as one part of it, and no longer. An upstream
    /// may answer first and read then, but nobody waits for this body any more.
    pub(super) fn is_answered(&self) {
        self.end.set(Some(Instant::now() + self.patience));
        if let Some(sender) = self.sender.take() {
            sender.wake();
        }
    }
}

/// See the file's header.
#[derive(Debug)]
pub(super) struct Clock {
    upload: Rc<Upload>,
    /// ProxyPlan when the client is first waited for.
    timer: Option<Pin<Box<Sleep>>>,
}

type Polled = Poll<Option<Result<Frame<Bytes>, BodyError>>>;

impl Clock {
    pub(super) fn new(upload: Rc<Upload>) -> Clock {
        Clock { upload, timer: None }
    }

    /// What came, or that it came too late.
    pub(super) fn look(&mut self, polled: Polled, context: &mut Context<'_>) -> Polled {
        let upload = &*self.upload;
        let did_wait = upload.waits.replace(polled.is_pending());
        let end = upload.end.get();
        match polled {
            Poll::Ready(Some(Ok(_))) if end.is_some_and(|end| end <= Instant::now()) => {
                Poll::Ready(Some(Err(BodyError::Late)))
            }
            Poll::Pending if upload.is_dialog.get() && end.is_none() => {
                upload.sender.replace(Some(context.waker().clone()));
                Poll::Pending
            }
            Poll::Pending => {
                let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(upload.patience)));
                match end {
                    Some(end) if timer.deadline() != end => timer.as_mut().reset(end),
                    None if !did_wait => timer.as_mut().reset(Instant::now() + upload.patience),
                    _ => {}
                }
                upload.sender.replace(Some(context.waker().clone()));
                std::task::ready!(timer.as_mut().poll(context));
                upload.fault.set(Some(Failure::BodyTimeout));
                Poll::Ready(Some(Err(BodyError::Late)))
            }
            Poll::Ready(Some(Err(error))) => {
                upload.fault.set(Some(Failure::BodyBroken));
                Poll::Ready(Some(Err(error)))
            }
            came => came,
        }
    }
}
