//! Budgets: what probes may ask of one credential or address, whatever the number of paths that share it.

use std::collections::BTreeSet;
use std::time::Duration;

use super::build::Builder;
use super::depth::Identity;
use super::read::Table;
use super::{GroupConfig, ProbeConfig};

/// `[[budget]]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetConfig {
    /// Unique name.
    pub name: String,
    /// The most requests in any span of `per`.
    pub requests: Option<usize>,
    /// The most logons in any span of `per`.
    pub logons: Option<usize>,
    /// The span.
    pub per: Duration,
}

impl Builder<'_> {
    pub(super) fn budgets(&mut self, file: &Table) -> Vec<BudgetConfig> {
        let (mut names, mut budgets) = (BTreeSet::new(), Vec::new());
        for table in file.tables("budget") {
            let name = table.text("name").unwrap_or_default().trim().to_owned();
            if name.is_empty() || !names.insert(name.clone()) {
                self.error(table, "name", format!("{name:?} is blank or taken"), "a unique name");
            }
            self.one_line(table, "name");
            let most = |key| table.integer(key).and_then(|most| usize::try_from(most).ok());
            let (requests, logons) = (most("requests"), most("logons"));
            if table.entry("requests").is_none() && table.entry("logons").is_none() {
                self.findings.error(&table.span, &table.path, "neither requests nor logons", "at least one of them");
            }
            let Some(per) = self.positive(table, "per") else { continue };
            budgets.push(BudgetConfig { name, requests, logons, per });
        }
        budgets
    }

    /// Whether probes at their fastest stay inside every budget, and name no other.
    pub(super) fn within_budgets(&mut self, file: &Table, budgets: &[BudgetConfig], groups: &[GroupConfig]) {
        for (table, group) in file.tables("group").iter().zip(groups) {
            for (one, endpoint) in table.tables("endpoint").iter().zip(&group.endpoints) {
                let named = endpoint.probes.iter().filter_map(|probe| probe.terms.budget.as_ref());
                for name in named.filter(|name| budgets.iter().all(|budget| budget.name != **name)) {
                    let known: Vec<_> = budgets.iter().map(|budget| &*budget.name).collect();
                    let expected = format!("the name of a [[budget]]; there is: {}", known.join(", "));
                    self.error(one, "budget", format!("{name:?} is no budget"), expected);
                }
            }
        }
        for (table, budget) in file.tables("budget").iter().zip(budgets) {
            self.within(table, "requests", budget.requests, spent(budget, groups, |_| true));
            let logs_on = |probe: &ProbeConfig| probe.terms.identity != Identity::None;
            self.within(table, "logons", budget.logons, spent(budget, groups, logs_on));
        }
    }

    fn within(&mut self, table: &Table, key: &str, most: Option<usize>, spent: u128) {
        let Some(most) = most.filter(|most| spent > *most as u128) else { return };
        let found = format!("{most}, and the probes that name it may ask {spent} times in that span while paths fail");
        self.error(table, key, found, "a slower interval_when_failing, fewer probes, or what the broker really allows");
    }
}

/// The most that probes of these groups can ask of a budget in its span: each slot may be a failing one.
fn spent(budget: &BudgetConfig, groups: &[GroupConfig], counts: impl Fn(&ProbeConfig) -> bool) -> u128 {
    let of_group = |group: &GroupConfig| {
        let probes = group.endpoints.iter().flat_map(|endpoint| &endpoint.probes);
        let charged = probes.filter(|probe| probe.terms.budget.as_ref() == Some(&budget.name) && counts(probe)).count();
        let slots = budget.per.as_nanos().div_ceil(group.probing.interval_when_failing.as_nanos().max(1));
        slots.saturating_mul(charged as u128)
    };
    groups.iter().map(of_group).fold(0, u128::saturating_add)
}
