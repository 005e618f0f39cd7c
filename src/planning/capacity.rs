//! Room for the load that moves.

use super::error::PlanError;

/// Machines that run, or that have to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fleet {
    /// How many.
    pub instances: u64,
    /// Processors of each.
    pub processors: u64,
}

impl Fleet {
    /// Its processors.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.instances.saturating_mul(self.processors)
    }

    /// How many times its capacity the load of `instances` like these is.
    ///
    /// # Errors
    /// It has no instance.
    pub fn load_of(&self, instances: u64) -> Result<f64, PlanError> {
        if self.instances == 0 {
            return Err(PlanError::new("instances", "0", "at least 1"));
        }
        Ok(instances as f64 / self.instances as f64)
    }
}

/// What an account may run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Processors.
    pub limit: u64,
}

impl Quota {
    /// What is left, counted against what *will* be running: stopped machines use no quota until they start.
    #[must_use]
    pub const fn left(&self, will_run: Fleet) -> u64 {
        self.limit.saturating_sub(will_run.total())
    }

    /// Whether `more` fits beside what will be running.
    #[must_use]
    pub const fn fits(&self, will_run: Fleet, more: Fleet) -> bool {
        more.total() <= self.left(will_run) && will_run.total() <= self.limit
    }

    /// Whether it is at parity with the home's.
    #[must_use]
    pub const fn is_at_parity(&self, home: Self) -> bool {
        self.limit >= home.limit
    }
}
