//! A group's records -> a scenario that replay accepts.
