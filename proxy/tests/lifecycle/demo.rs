//! `tsubaki demo`: its proof, and that nothing is left of it however it ends.

use std::fs;

use rustix::process::Signal;
use tsubaki::dev_cluster::{Server, free_port};

use crate::harness::{required, wait_until};
use crate::program::Running;

/// The demo itself, a launcher, six nodes and the proxy.
const PROCESSES: usize = 9;

/// A demo on a free port; `None`: there is no server, and the test is skipped.
fn demo(args: &[&str]) -> Option<Running> {
    required(Server::find())?;
    let port = free_port().unwrap().to_string();
    Some(Running::start(&[&["demo", "--port", &port], args].concat(), &[]))
}

/// The process, its children, their children and so on.
fn family(pid: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = pids().into_iter().filter_map(|pid| Some((pid, status(pid)?.1))).collect();
    let (mut family, mut parent) = (vec![pid], 0);
    while let Some(of) = family.get(parent).copied() {
        family.extend(parents.iter().filter(|(_, parent)| *parent == of).map(|(pid, _)| *pid));
        parent += 1;
    }
    family
}

fn pids() -> Vec<u32> {
    let names = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).collect()
}

/// The state of a process, and its parent.
fn status(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// One that has ended and that nobody has asked about yet does not run.
fn runs(pid: u32) -> bool {
    status(pid).is_some_and(|(state, _)| state != 'Z')
}

fn family_with_proof(demo: &Running) -> Vec<u32> {
    wait_until("the demo has its cluster", || demo.stdout().contains("a cluster of 3 masters"));
    wait_until("the demo has its proof", || demo.stdout().contains("city:2"));
    let family = family(demo.pid());
    assert_eq!(family.len(), PROCESSES, "{family:?}");
    family
}

#[test]
fn once_prints_both_figures_and_leaves_nothing_running() {
    let Some(demo) = demo(&["--once"]) else { return };
    let family = family_with_proof(&demo);
    let end = demo.wait();
    assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""), "{}", end.stdout);
    for name in ["through the proxy", "directly", "ratio"] {
        let line = end.stdout.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        assert!(line.bytes().any(|byte| (b'1'..=b'9').contains(&byte)), "{line}");
    }
    assert!(!end.stdout.contains('\x1b'), "colours in a pipe: {}", end.stdout);
    assert_eq!(family.iter().filter(|pid| runs(**pid)).count(), 0, "processes of the demo still run");
}

#[test]
fn it_serves_until_it_is_told_to_stop_and_nothing_is_left_of_it() {
    let Some(demo) = demo(&[]) else { return };
    let family = family_with_proof(&demo);
    wait_until("it serves", || demo.stdout().contains("Ctrl-C ends it all"));
    assert_eq!(demo.end(Signal::INT).code, Some(0));
    assert_eq!(family.iter().filter(|pid| runs(**pid)).count(), 0, "processes of the demo still run");
}

#[test]
fn nothing_is_left_of_a_demo_that_is_killed() {
    let Some(demo) = demo(&[]) else { return };
    let family = family_with_proof(&demo);
    demo.end(Signal::KILL);
    wait_until("all its processes are gone", || !family.iter().any(|pid| runs(*pid)));
}
