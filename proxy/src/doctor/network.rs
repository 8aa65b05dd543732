//! Connections, ports, queues and interrupts.

use tsubaki_config::ListenAddr;

use super::check::{Subject, Verdict, sysctl};
use crate::machine::Card;
use crate::placement::{Change, ChangeKind};
use crate::run::Sizes;

pub(super) fn somaxconn(subject: &Subject<'_>) -> Verdict {
    queue(
        subject,
        "net.core.somaxconn",
        "The kernel queues fewer connections than backlog: clients that come back all at once wait for a second or more.",
    )
}

pub(super) fn syn_backlog(subject: &Subject<'_>) -> Verdict {
    queue(
        subject,
        "net.ipv4.tcp_max_syn_backlog",
        "The kernel remembers fewer half-open connections than backlog: clients that come back all at once wait for a second or more.",
    )
}

fn queue(subject: &Subject<'_>, name: &'static str, why: &'static str) -> Verdict {
    let backlog = i64::from(subject.config.listen.backlog);
    match subject.setting(name) {
        None => Verdict::unreadable(name),
        Some(most) if most >= backlog => Verdict::Ok(format!("{most}, and backlog is {backlog}")),
        Some(most) => {
            Verdict::finding(format!("{most}, but backlog is {backlog}"), why, sysctl(name, backlog))
        }
    }
}

pub(super) fn local_ports(subject: &Subject<'_>) -> Verdict {
    const NAME: &str = "net.ipv4.ip_local_port_range";
    let text = subject.root.text("proc/sys/net/ipv4/ip_local_port_range");
    let range = text.and_then(|text| {
        let (first, last) = text.split_once(char::is_whitespace)?;
        Some((first.parse::<u16>().ok()?, last.trim().parse::<u16>().ok()?))
    });
    let Some((first, last)) = range else { return Verdict::unreadable(NAME) };
    let reserved = subject.root.text("proc/sys/net/ipv4/ip_local_reserved_ports").unwrap_or_default();
    let port = |address: &ListenAddr| match address {
        ListenAddr::Ip(address) => address.port(),
        ListenAddr::Any { port } => *port,
    };
    let listen = subject.config.listen.addresses.iter().chain(&subject.config.admin.listen).map(port);
    let taken: Vec<String> = listen
        .filter(|port| (first..=last).contains(port) && !is_reserved(&reserved, *port))
        .map(|port| port.to_string())
        .collect();
    if taken.is_empty() {
        return Verdict::Ok(format!("{first} to {last}, none of the proxy's own among them"));
    }
    let ports = taken.join(",");
    // What is reserved already stays so.
    let all = Some(reserved)
        .filter(|ports| !ports.is_empty())
        .into_iter()
        .chain(taken)
        .collect::<Vec<_>>()
        .join(",");
    Verdict::finding(
        format!("{first} to {last}, and the proxy listens at {ports}"),
        "An outgoing connection may hold the port when the proxy starts, which then cannot listen.",
        sysctl("net.ipv4.ip_local_reserved_ports", all),
    )
}

/// `ports` as the kernel lists them: `6380,30000-30009`.
fn is_reserved(ports: &str, port: u16) -> bool {
    ports.split(',').any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let bounds = first.parse::<u16>().ok().zip(last.parse::<u16>().ok());
        bounds.is_some_and(|(first, last)| (first..=last).contains(&port))
    })
}

pub(super) fn open_files(subject: &Subject<'_>) -> Verdict {
    let limits = subject.root.text("proc/self/limits").unwrap_or_default();
    let hard = limits.lines().find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().nth(1));
    let Some(hard) = hard else { return Verdict::unreadable("the limit of open files") };
    // No number: unlimited.
    let Ok(files) = hard.parse::<u64>() else { return Verdict::Ok(hard.to_owned()) };
    let needed = Sizes::needed(subject.config, subject.plan.workers.len());
    if files >= needed {
        return Verdict::Ok(format!("{files}, and {needed} are needed"));
    }
    let mut mend = vec![format!(
        "# LimitNOFILE={needed} in the service's unit, or --ulimit nofile={needed} of its container"
    )];
    if subject.setting("fs.nr_open").is_some_and(|most| most.unsigned_abs() < needed) {
        mend.extend(sysctl("fs.nr_open", needed));
    }
    Verdict::finding(
        format!("{files}, but max_clients and connections to nodes need {needed}"),
        "Fewer clients than max_clients are let in. This is the limit of the shell that runs the doctor: look at the service's.",
        mend,
    )
}

pub(super) fn irqbalance(subject: &Subject<'_>) -> Verdict {
    let placement = &subject.config.placement;
    if !subject.machine.irqbalance {
        return Verdict::Ok("it does not run".to_owned());
    }
    if subject.plan.queues.is_empty() || placement.despite_irqbalance {
        return Verdict::Ok(
            "it runs, and no queue has a worker of its own, or it is told to be left alone".to_owned(),
        );
    }
    Verdict::finding(
        "it runs",
        "It moves the interrupts of network queues away from their workers' CPUs, and the proxy leaves them alone while it runs.",
        vec!["systemctl disable --now irqbalance".to_owned()],
    )
}

pub(super) fn receive_queues(subject: &Subject<'_>) -> Verdict {
    let cards = cards(subject);
    if cards.is_empty() {
        return Verdict::NotApplicable(
            "no worker is pinned, or clients come through no card that is known (--config or --listen say how they come)".to_owned(),
        );
    }
    let workers_of = |card: &Card| {
        let mut workers: Vec<usize> = subject
            .plan
            .queues
            .iter()
            .filter(|queue| queue.card == card.name)
            .map(|queue| queue.worker)
            .collect();
        workers.sort_unstable();
        workers.dedup();
        workers.len()
    };
    let near = |card: &Card| {
        subject.plan.workers.iter().filter(|seat| card.node.is_none() || seat.node == card.node).count()
    };
    let few: Vec<&&Card> = cards.iter().filter(|card| workers_of(card) < near(card)).collect();
    let text = |card: &&Card| format!("{} has {} for {} workers", card.name, card.receive.len(), near(card));
    if few.is_empty() {
        return Verdict::Ok(cards.iter().map(text).collect::<Vec<_>>().join("; "));
    }
    Verdict::finding(
        few.iter().map(|card| text(card)).collect::<Vec<_>>().join("; "),
        "Workers without a receive queue of their own get their packets from other CPUs.",
        few.iter()
            .map(|card| {
                format!("ethtool -L {} combined {}   # as far as the card can", card.name, near(card))
            })
            .collect(),
    )
}

pub(super) fn irq_affinity(subject: &Subject<'_>) -> Verdict {
    differences(
        subject,
        ChangeKind::IrqAffinity,
        "Packets are received on another CPU than the worker's that needs them. The proxy does this itself with \
         placement.irq_affinity = true.",
        |change| format!("echo {} > /{}", change.after, change.path),
    )
}

pub(super) fn xps(subject: &Subject<'_>) -> Verdict {
    differences(
        subject,
        ChangeKind::Xps,
        "What a worker sends goes out through queues of other CPUs. The proxy does this itself with placement.xps = true.",
        |change| format!("echo {} > /{}", crate::machine::mask([change.after]), change.path),
    )
}

fn differences(
    subject: &Subject<'_>,
    kind: ChangeKind,
    why: &'static str,
    mend: fn(&Change) -> String,
) -> Verdict {
    if subject.plan.queues.is_empty() {
        return Verdict::NotApplicable("no network queue has a worker of its own".to_owned());
    }
    let changes: Vec<&Change> = subject.plan.changes.iter().filter(|change| change.kind == kind).collect();
    if changes.is_empty() {
        return Verdict::Ok("as planned".to_owned());
    }
    let found =
        format!("{} of the workers' queues differ from the plan (tsubaki doctor --plan)", changes.len());
    Verdict::finding(found, why, changes.into_iter().map(mend).collect())
}

pub(super) fn rps(subject: &Subject<'_>) -> Verdict {
    let cards = cards(subject);
    if cards.is_empty() {
        return Verdict::NotApplicable("no network queue has a worker of its own".to_owned());
    }
    let passed_on = |card: &&Card| {
        let queues =
            card.receive.iter().filter(|queue| queue.steering.as_ref().is_some_and(|cpus| !cpus.is_empty()));
        queues
            .map(|queue| format!("sys/class/net/{}/queues/rx-{}/rps_cpus", card.name, queue.number))
            .collect::<Vec<_>>()
    };
    let files: Vec<String> = cards.iter().flat_map(passed_on).collect();
    if files.is_empty() {
        let flows: u64 = cards.iter().flat_map(|card| &card.receive).map(|queue| queue.flows).sum();
        return Verdict::Ok(format!("off; {flows} flows are passed on to their readers (RFS)"));
    }
    Verdict::finding(
        format!("on for {} receive queues", files.len()),
        "Packets are passed on from the queue's CPU to others before the worker gets them.",
        files.iter().map(|file| format!("echo 0 > /{file}")).collect(),
    )
}

pub(super) fn held_packets(subject: &Subject<'_>) -> Verdict {
    const LONG_NS: u64 = 50_000;
    let cards = cards(subject);
    let known: Vec<(&Card, u64)> = cards.iter().filter_map(|card| Some((*card, card.holds_ns?))).collect();
    let long: Vec<&(&Card, u64)> = known.iter().filter(|(_, held)| *held > LONG_NS).collect();
    let text = |(card, held): &(&Card, u64)| format!("{} {} us", card.name, held / 1000);
    match (known.is_empty(), long.is_empty()) {
        (true, _) => Verdict::NotApplicable("no worker is pinned, or the cards do not say".to_owned()),
        (false, true) => Verdict::Ok(known.iter().map(text).collect::<Vec<_>>().join(", ")),
        (false, false) => Verdict::finding(
            long.iter().map(|held| text(held)).collect::<Vec<_>>().join(", "),
            "The card holds packets back to merge them, and a lone command waits as long.",
            long.iter()
                .map(|(card, _)| format!("echo 0 > /sys/class/net/{}/gro_flush_timeout", card.name))
                .collect(),
        ),
    }
}

/// The cards whose queues have workers.
fn cards<'a>(subject: &'a Subject<'_>) -> Vec<&'a Card> {
    let of_plan = |card: &&Card| subject.plan.queues.iter().any(|queue| queue.card == card.name);
    subject.machine.cards.iter().filter(of_plan).collect()
}
