//! A node and its neighbours: records that go by them, and theirs that come.

mod hurrying;
mod redirecting;
mod relaying;
mod two_ways;
