//! The failover engine.
