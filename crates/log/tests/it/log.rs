//! The log's format: what is written is read, whatever happens to the bytes meanwhile.

mod damage;
mod files;
mod golden;
mod model;
mod samples;
