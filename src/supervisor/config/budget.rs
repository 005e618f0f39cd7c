//! Budgets: what probes and held sessions may ask of one credential or address, whatever the number of paths that share it.

use std::collections::BTreeSet;
use std::time::Duration;

use super::build::Builder;
use super::read::Table;
use super::{EndpointConfig, GroupConfig, Identity, Terms};
use crate::planning::counted;
use crate::supervisor::running::most_openings;

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

    /// Whether probes and held sessions at their fastest stay inside every budget, and name no other.
    pub(super) fn within_budgets(&mut self, file: &Table, budgets: &[BudgetConfig], groups: &[GroupConfig]) {
        for (table, group) in file.tables("group").iter().zip(groups) {
            for (one, endpoint) in table.tables("endpoint").iter().zip(&group.endpoints) {
                let named = all_terms(endpoint).filter_map(|terms| terms.budget.as_ref());
                for name in named.filter(|name| budgets.iter().all(|budget| budget.name != **name)) {
                    let known: Vec<_> = budgets.iter().map(|budget| &*budget.name).collect();
                    let expected = format!("the name of a [[budget]]; there is: {}", known.join(", "));
                    self.error(one, "budget", format!("{name:?} is no budget"), expected);
                }
            }
        }
        for (table, budget) in file.tables("budget").iter().zip(budgets) {
            self.within(table, "requests", budget.requests, spent(budget, groups, |_| true));
            let logs_on = |terms: &Terms| terms.identity != Identity::None;
            self.within(table, "logons", budget.logons, spent(budget, groups, logs_on));
        }
    }

    fn within(&mut self, table: &Table, key: &str, most: Option<usize>, spent: u128) {
        let Some(most) = most.filter(|most| spent > *most as u128) else { return };
        let found =
            format!("{most}, and what names it may ask {} in that span while paths fail", counted(spent, "time"));
        let expected = "a slower interval_when_failing, fewer probes, no watch, or what the broker really allows";
        self.error(table, key, found, expected);
    }
}

fn all_terms(endpoint: &EndpointConfig) -> impl Iterator<Item = &Terms> {
    endpoint.probes.iter().map(|probe| &probe.terms).chain(endpoint.watch.as_ref().map(|watch| &watch.terms))
}

/// The most that these groups can ask of a budget in its span: each slot may be a failing one, and each end of a held
/// session asks at once, and opens another.
fn spent(budget: &BudgetConfig, groups: &[GroupConfig], counts: impl Fn(&Terms) -> bool) -> u128 {
    let charged = |terms: &Terms| terms.budget.as_ref() == Some(&budget.name) && counts(terms);
    let of_endpoint = |group: &GroupConfig, endpoint: &EndpointConfig| {
        let probes = endpoint.probes.iter().filter(|probe| charged(&probe.terms)).count() as u128;
        let paced = budget.per.as_nanos().div_ceil(group.probing.interval_when_failing.as_nanos().max(1));
        let watch = endpoint.watch.as_ref();
        let confirming = watch.map_or(0, |_| endpoint.confirming(group).most_within(budget.per));
        let openings = watch.filter(|watch| charged(&watch.terms)).map_or(0, |_| most_openings(budget.per));
        paced.saturating_add(confirming).saturating_mul(probes).saturating_add(openings)
    };
    let all = groups.iter().flat_map(|group| group.endpoints.iter().map(move |endpoint| (group, endpoint)));
    all.map(|(group, endpoint)| of_endpoint(group, endpoint)).fold(0, u128::saturating_add)
}
