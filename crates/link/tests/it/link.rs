//! The link in virtual time: what holds for every seed, and what it carries.

mod figures;
mod hostile;
mod keeping;
mod marks;
