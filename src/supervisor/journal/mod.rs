//! The durable journal.
