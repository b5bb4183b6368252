//! The program over real sockets, files and brokers: one test program, so that it is linked once.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "a test says what it skipped and what it saw")]

mod backlog;
mod check;
mod cli;
mod cloud;
mod command_line;
mod corpus;
mod disk;
mod documents;
mod examples;
mod fleet;
mod frames;
mod group;
mod http;
mod http_output;
mod inspect;
mod levers;
mod link;
mod mirror;
mod mosquitto;
mod mqtt;
mod once;
mod page;
mod parting;
mod proxy;
mod rabbitmq;
mod reloads;
mod replay;
mod run;
mod schema;
mod sessions_kept;
mod sink;
mod support;
mod top;
