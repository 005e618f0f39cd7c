//! Nothing follows from a shadow policy, whatever happens.

use std::time::Duration;

use crate::engine::{PolicySettings, Trigger, TriggerRule};

use super::*;

fn policies() -> impl Strategy<Value = Policy> {
    let trigger = prop_oneof![
        4 => (1..5_u32).prop_map(TriggerRule::Consecutive),
        1 => (1..4_u64).prop_map(|seconds| TriggerRule::Window(Duration::from_secs(seconds))),
        1 => (1..4_u32).prop_map(|failures| TriggerRule::Failures { failures, of: 4 }),
    ];
    (trigger, 0..20_u64, 1..40_u64, any::<(bool, bool, bool)>()).prop_map(
        |(rule, cooldown, age, (require_fence, require_reconciliation, operator))| {
            let failure_threshold = if let TriggerRule::Consecutive(failures) = rule { failures } else { 3 };
            Policy::new(PolicySettings {
                failure_threshold,
                trigger: Trigger::new(rule).ok(),
                cooldown: Duration::from_secs(cooldown),
                max_health_age: Duration::from_secs(age),
                failback_success_threshold: failure_threshold,
                require_fence,
                require_reconciliation,
                resume_after_halt: if operator { ResumeAfterHalt::Operator } else { ResumeAfterHalt::Reconcile },
                ..PolicySettings::default()
            })
            .unwrap()
        },
    )
}

/// Every step, in a world whose groups have that shadow.
fn after(
    setting: &Setting,
    steps: &[(Step, Trouble)],
    shadowed: Shadowed,
    seen: &Rc<RefCell<BTreeSet<String>>>,
) -> Result<World, TestCaseError> {
    let mut world = World::new(shadowed.put(setting.config()), Rc::clone(seen));
    (world.shadowed, world.trace) = (shadowed, Some(Vec::new()));
    world.event(Event::Deadline, Trouble::None)?;
    steps.iter().try_for_each(|(step, trouble)| world.step(step, *trouble))?;
    Ok(world)
}

#[test]
fn a_shadow_policy_changes_no_effect_and_no_record_but_its_own() {
    let (cases, mut runner) = runner();
    let seen = Rc::new(RefCell::new(BTreeSet::new()));
    let verdict = runner.run(&(settings(), steps(), policies()), |(setting, steps, policy)| {
        let elsewhere = Rc::default();
        let with = after(&setting, &steps, Shadowed::By(policy), &elsewhere)?;
        let without = after(&setting, &steps, Shadowed::Not, &elsewhere)?;
        prop_assert_eq!(with.trace, without.trace);
        prop_assert_eq!(without.shadows, []);
        for record in with.shadows {
            seen.borrow_mut().insert(record.ended.map_or("begins".to_owned(), |how| format!("{how:?}")));
            seen.borrow_mut().insert(format!("{} and {}", record.group.outcome, record.shadow.outcome));
        }
        Ok(())
    });
    if let Err(error) = verdict {
        panic!("{error}");
    }
    let places = [
        "begins",
        "Agreed",
        "Passed",
        "Moved",
        "Forgotten",
        "NO_ACTION and FENCE_REQUIRED",
        "FENCE_REQUIRED and NO_ACTION",
        "NO_TARGET_AVAILABLE and NO_ACTION",
        "NO_ACTION and NO_TARGET_AVAILABLE",
        "FENCE_REQUIRED and SWITCHED",
        "COOLDOWN_ACTIVE and FENCE_REQUIRED",
        "FENCE_REQUIRED and COOLDOWN_ACTIVE",
    ];
    let seen = seen.borrow();
    let missed: Vec<_> = places.iter().filter(|place| !seen.contains(**place)).collect();
    assert!(cases < 400 || missed.is_empty(), "never seen: {missed:?} in {seen:?}");
}

#[test]
fn a_shadow_that_is_the_policy_never_differs() {
    let (_, mut runner) = runner();
    let verdict = runner.run(&(settings(), steps()), |(setting, steps)| {
        let world = after(&setting, &steps, Shadowed::Same, &Rc::default())?;
        prop_assert_eq!(world.shadows, []);
        Ok(())
    });
    if let Err(error) = verdict {
        panic!("{error}");
    }
}
