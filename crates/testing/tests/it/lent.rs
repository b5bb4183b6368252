//! A node and its neighbours: records that go by them, and theirs that come.

mod redirecting;
mod relaying;
