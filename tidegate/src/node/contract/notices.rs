//! What a connection of an input hears from the node: a queue that has no room of its own while it is empty.
//!
//! A channel of tokio has a block of 32 places for each connection, and most connections hear one notice in all their
//! time (docs/decisions/0146-what-a-delivery-and-an-idle-connection-cost.md).

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use tidegate_types::record::{RefuseReason, Token};
use tokio::task::coop::poll_proceed;

/// What an input's connection hears from the node. There is no bound on how many wait, but an input never has
/// more unanswered tokens than its protocol's receive maximum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The answer to an offer that carried a token.
    Accept(Token, Result<(), RefuseReason>),
    /// Stop reading.
    Pause,
    /// Read again.
    Resume,
    /// The session that this connection began is ready: its client may be let in.
    Ready,
    /// The client may use these packet identifiers again.
    Released(Vec<u16>),
}

/// Both ends of a connection's notices.
pub fn notices() -> (NoticeSender, Notices) {
    let post = NoticePost::default();
    (NoticeSender(post.clone()), Notices { post, taken: VecDeque::new() })
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Notice>,
    /// Who reads, where it found nothing.
    reader: Option<Waker>,
    /// One end is gone.
    is_over: bool,
}

/// By this others than the node's loop answer for it; it says nothing any more once the loop's end is gone.
#[derive(Clone, Debug, Default)]
pub struct NoticePost(Arc<Mutex<Queue>>);

impl NoticePost {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // It changes by whole steps.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the connection, unless that has ended.
    pub fn send(&self, notice: Notice) {
        let mut queue = self.queue();
        if !queue.is_over {
            queue.waiting.push_back(notice);
            let reader = queue.reader.take();
            drop(queue);
            reader.into_iter().for_each(Waker::wake);
        }
    }

    /// There is no other end any more.
    fn end(&self) {
        let mut queue = self.queue();
        queue.is_over = true;
        let reader = queue.reader.take();
        drop(queue);
        reader.into_iter().for_each(Waker::wake);
    }
}

/// The loop's end: when it is gone, the connection hears what is there, and then that the node is gone.
#[derive(Debug)]
pub struct NoticeSender(NoticePost);

impl NoticeSender {
    /// Tells the connection, unless that has ended.
    pub fn send(&self, notice: Notice) {
        self.0.send(notice);
    }
}

impl Drop for NoticeSender {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The connection's end.
#[derive(Debug)]
pub struct Notices {
    post: NoticePost,
    /// Those that were there together are taken together.
    taken: VecDeque<Notice>,
}

impl Notices {
    /// By which others answer for the node.
    pub fn post(&self) -> NoticePost {
        self.post.clone()
    }

    /// The next one; `None` when the loop is gone. Cancel-safe.
    pub async fn next(&mut self) -> Option<Notice> {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Notice>> {
        // Who is told without end lets other tasks have their turn nevertheless.
        let step = ready!(poll_proceed(context));
        if self.taken.is_empty() {
            let mut queue = self.post.queue();
            std::mem::swap(&mut self.taken, &mut queue.waiting);
            if self.taken.is_empty() && !queue.is_over {
                match &mut queue.reader {
                    Some(reader) => reader.clone_from(context.waker()),
                    none => *none = Some(context.waker().clone()),
                }
                // Who waits keeps no room.
                (queue.waiting, self.taken) = Default::default();
                return Poll::Pending;
            }
        }
        step.made_progress();
        Poll::Ready(self.taken.pop_front())
    }

    /// One that is there already.
    pub fn try_next(&mut self) -> Option<Notice> {
        if self.taken.is_empty() {
            std::mem::swap(&mut self.taken, &mut self.post.queue().waiting);
        }
        self.taken.pop_front()
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        let mut queue = self.post.queue();
        *queue = Queue { is_over: true, ..Queue::default() };
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    fn accept(token: u64) -> Notice {
        Notice::Accept(Token(token), Ok(()))
    }

    #[tokio::test]
    async fn notices_come_in_their_order_and_the_end_after_them() {
        let (sender, mut inbox) = notices();
        let post = inbox.post();
        sender.send(accept(1));
        post.send(Notice::Pause);
        assert_eq!(inbox.next().await, Some(accept(1)));
        let reading = tokio::spawn(async move {
            let mut heard = Vec::new();
            while let Some(notice) = inbox.next().await {
                heard.push(notice);
            }
            heard
        });
        tokio::task::yield_now().await;
        sender.send(Notice::Resume);
        drop(sender);
        post.send(accept(2));
        let heard = reading.await.expect("it reads to the end");
        assert_eq!(heard, [Notice::Pause, Notice::Resume], "nobody speaks for a node that is gone");
    }

    #[tokio::test]
    async fn who_waits_is_woken_once_by_many() {
        let (sender, mut inbox) = notices();
        let woken = Arc::new(Count::default());
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        assert!(pin!(inbox.next()).poll(&mut context).is_pending());
        (0..3).for_each(|token| sender.send(accept(token)));
        assert_eq!(woken.0.load(std::sync::atomic::Ordering::Relaxed), 1);
        assert_eq!(pin!(inbox.next()).poll(&mut context), Poll::Ready(Some(accept(0))));
    }

    #[tokio::test]
    async fn who_waits_has_no_room() {
        let (sender, mut inbox) = notices();
        (0..1000).for_each(|token| sender.send(accept(token)));
        assert_eq!(std::iter::from_fn(|| inbox.try_next()).count(), 1000);
        assert!(pin!(inbox.next()).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(inbox.taken.capacity() + inbox.post.queue().waiting.capacity(), 0);
        sender.send(Notice::Ready);
        let post = inbox.post();
        drop(inbox);
        sender.send(Notice::Ready);
        assert_eq!(post.queue().waiting.capacity(), 0, "nobody reads it");
        assert!(size_of::<Queue>() <= 64);
    }

    #[derive(Default)]
    struct Count(std::sync::atomic::AtomicUsize);

    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
}
