//! Tidegate's own links in virtual time: two ends, the ways between them, and who else uses those.

pub mod load;
pub mod neighbour;
pub mod scene;
pub mod statistics;
pub mod table;
pub mod way;
pub mod world;
