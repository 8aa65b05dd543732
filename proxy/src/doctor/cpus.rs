//! CPUs that save power at the price of latency.

use super::check::{Subject, Verdict};

const CPUS: &str = "sys/devices/system/cpu";

/// Idle states that take longer to leave than this, in microseconds, are felt in the latency of a command.
const DEEP_US: u64 = 50;

pub(super) fn governor(subject: &Subject<'_>) -> Verdict {
    let of = |cpu: usize| subject.root.text(format!("{CPUS}/cpu{cpu}/cpufreq/scaling_governor"));
    let mut governors: Vec<String> = subject.machine.allowed.iter().filter_map(of).collect();
    governors.sort();
    governors.dedup();
    match governors.as_slice() {
        [] => Verdict::NotApplicable("the machine does not say (as virtual machines do not)".to_owned()),
        [only] if only == "performance" => Verdict::Ok("performance".to_owned()),
        others => Verdict::finding(
            others.join(", "),
            "A CPU that was idle runs slowly at first, which is when a lone command arrives.",
            vec!["cpupower frequency-set -g performance".to_owned()],
        ),
    }
}

pub(super) fn idle_states(subject: &Subject<'_>) -> Verdict {
    let Some(cpu) = subject.machine.allowed.iter().next() else { return Verdict::unreadable("the CPU") };
    let folder = format!("{CPUS}/cpu{cpu}/cpuidle");
    let states = subject.root.numbered(&folder, "state");
    if states.is_empty() {
        return Verdict::NotApplicable("the machine does not say (as virtual machines do not)".to_owned());
    }
    let deep = |state: &usize| {
        let file = |name: &str| format!("{folder}/state{state}/{name}");
        let latency = subject.root.value::<u64>(file("latency"))?;
        let enabled = subject.root.value::<u64>(file("disable")) == Some(0);
        let name = subject.root.text(file("name")).unwrap_or_default();
        (enabled && latency > DEEP_US).then(|| format!("{name} ({latency} us)"))
    };
    let deep: Vec<String> = states.iter().filter_map(deep).collect();
    if deep.is_empty() {
        return Verdict::Ok(format!("none takes longer than {DEEP_US} us to leave"));
    }
    Verdict::finding(
        deep.join(", "),
        "A CPU that sleeps this deeply adds the time to the latency of the next command.",
        vec![format!("cpupower idle-set -D {DEEP_US}")],
    )
}
