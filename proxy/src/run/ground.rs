//! The ground that the process stands on: its plan for this machine, carried out.

use std::sync::Arc;

use tsubaki_config::Config;

use crate::admin::System;
use crate::gate::Away;
use crate::machine::{Machine, Root};
use crate::placement::{self, Applied, Arrivals, Plan, PlanError, Restored};

/// A plan, and the machine that it is for.
pub(super) struct Ground {
    root: Root,
    machine: Machine,
    pub(super) plan: Plan,
}

impl Ground {
    /// Clears up after proxies that crashed, makes the plan, and takes the control thread's seat.
    pub(super) fn survey(config: &Config) -> Result<Self, PlanError> {
        let root = Root::system();
        log_restored(placement::restore(&root, &config.placement.state_dir));
        let machine = Machine::read(&root);
        let plan = placement::plan(&machine, &config.placement, &config.listen.addresses)?;
        placement::settle_control(&plan.control, machine.nodes.iter().map(|node| node.id));
        Ok(Self { root, machine, plan })
    }

    /// Changes the system as planned, until what is returned is dropped; what could not be changed is taken into account.
    pub(super) fn prepare(&mut self, config: &Config) -> Applied {
        let changes = std::mem::take(&mut self.plan.changes);
        let applied = placement::apply(&self.root, changes, &config.placement.state_dir);
        let Plan { workers, queues, .. } = &self.plan;
        self.plan.arrivals = placement::arrivals(&self.machine, workers, queues, &applied.changes);
        applied
    }

    /// For each worker the CPU whose connections it takes in.
    pub(super) fn accepting_cpus(&self) -> Vec<Option<usize>> {
        let by_cpu = self.plan.arrivals == Arrivals::Cpu;
        self.plan.workers.iter().map(|seat| seat.cpu().filter(|_| by_cpu)).collect()
    }

    /// What of the system is worth a metric.
    pub(super) fn watch(&self, away: Away) -> System {
        System::new(self.root.clone(), self.plan.queues.clone(), self.machine.nodes.len() > 1, away)
    }
}

/// For each CPU the worker that takes in clients whose packets arrive there; empty if none does.
pub(super) fn homes(cpus: &[Option<usize>]) -> Arc<[Option<usize>]> {
    let last = cpus.iter().flatten().max().map_or(0, |last| last + 1);
    (0..last).map(|cpu| cpus.iter().position(|own| *own == Some(cpu))).collect()
}

fn log_restored(restored: Restored) {
    for (path, before) in restored.done {
        tracing::info!(path, before, "set back what a proxy that crashed had changed");
    }
    for (path, error) in restored.failed {
        tracing::warn!(path, %error, "could not set back what a proxy that crashed had changed; its note stays");
    }
}

#[cfg(test)]
mod tests {
    use super::homes;

    #[test]
    fn a_cpu_without_a_worker_is_nobodys_home() {
        assert_eq!(homes(&[Some(3), Some(1)])[..], [None, Some(1), None, Some(0)]);
        assert_eq!(homes(&[None, None])[..], []);
    }
}
