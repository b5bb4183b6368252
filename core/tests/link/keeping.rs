//! Every record once, in order, whatever the paths do.
