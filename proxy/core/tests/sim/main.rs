//! The engine against worlds that go wrong: seeded, with a virtual clock, fake nodes and fake clients, no socket and no sleep.
//!
//! Each seed is one world. A reference model knows what really happened in the fake cluster and judges every reply by it;
//! the engine's own invariants are looked at after every call. `TSUBAKI_SIM_SEED=n` replays one seed, and with
//! `TSUBAKI_SIM_TRACE=n` shows so many of its last events; `TSUBAKI_SIM_SEEDS=n` runs the first n.
//!
//! ```text
//!   clients  <-- bytes, in pieces -->  engine  <-- bytes, in pieces -->  cluster (nodes) <-- chaos, migration
//!      |                                  ^                                 |
//!      '------> model (may it be?) <------+---------- truth (what was) <----'
//! ```

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]
#![allow(clippy::print_stdout, reason = "shown of a test that fails, or on demand")]

mod chaos;
mod clients;
mod cluster;
mod event;
mod invariants;
mod keys;
mod link;
mod migration;
mod model;
mod node;
mod ops;
mod refresher;
mod rng;
mod routing;
mod seen;
mod trouble;
mod truth;
mod wire;
mod wishes;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use tsubaki_core::fault::Fault;

use crate::seen::Seen;
use crate::world::World;

/// Seeds of an ordinary run.
const SEEDS: u64 = 800;

/// Lives through one world. On failure: why.
fn live(world: &mut World) -> Result<(), String> {
    match catch_unwind(AssertUnwindSafe(|| world.run())) {
        Ok(result) => result,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(format!("panic: {}", text.unwrap_or_default()))
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The same world again, told: why it failed, if it did, and what happened last.
fn replay(seed: u64) -> Result<String, String> {
    let mut world = World::new(seed, true);
    let result = live(&mut world);
    let count = number("TSUBAKI_SIM_TRACE").unwrap_or(60) as usize;
    let story = format!("{}\nworld {seed}: {result:?}", world.last_events(count));
    if result.is_ok() { Ok(story) } else { Err(story) }
}

#[test]
fn every_world_keeps_the_contract() {
    if let Some(seed) = number("TSUBAKI_SIM_SEED") {
        println!("{}", replay(seed).unwrap_or_else(|story| panic!("{story}")));
        return;
    }
    let mut seen = Seen::default();
    for seed in 0..number("TSUBAKI_SIM_SEEDS").unwrap_or(SEEDS) {
        let mut world = World::new(seed, false);
        if let Err(failure) = live(&mut world) {
            let story = replay(seed).unwrap_or_else(|story| story);
            panic!(
                "{story}\n{failure}\nTSUBAKI_SIM_SEED={seed} replays it, with TSUBAKI_SIM_TRACE=n of its last events"
            );
        }
        seen.add(&world.seen);
    }
    println!("{:?}", seen.counts());
    let missed: Vec<_> = seen.counts().into_iter().filter(|(_, count)| *count < 10).collect();
    assert!(missed.is_empty(), "the worlds hardly ever met {missed:?}; all: {:#?}", seen.counts());
}

/// The worlds of an ordinary run find a deliberate fault.
#[track_caller]
fn finds(fault: Fault) {
    for seed in 0..SEEDS {
        let mut world = World::new(seed, false);
        world.worker.set_fault(fault);
        if let Err(failure) = live(&mut world) {
            println!("{fault:?} is found by seed {seed}: {failure}");
            return;
        }
    }
    panic!("no seed below {SEEDS} found {fault:?}");
}

macro_rules! faults_are_found {
    ($($name:ident: $fault:ident,)*) => {
        $(#[test]
        fn $name() {
            finds(Fault::$fault);
        })*
    };
}

faults_are_found! {
    a_dropped_tombstone_is_found: DroppedTombstone,
    swapped_replies_are_found: SwappedReplies,
    a_write_sent_again_is_found: ResentWrite,
    a_script_sent_again_is_found: ResentScript,
    a_script_refused_by_its_own_text_is_found: ScriptRefusedByCode,
    asking_apart_from_its_command_is_found: AskingApart,
    a_stale_view_that_undoes_a_moved_is_found: StaleView,
    a_command_that_does_not_wait_is_found: IgnoredHold,
    a_move_that_is_not_waited_for_is_found: UntrackedMove,
    an_overtaken_command_sent_again_is_found: IgnoredOvertaking,
    a_missed_wake_is_found: MissedWake,
    misordered_parts_are_found: MisorderedParts,
    a_failed_part_shown_as_nil_is_found: FailedPartAsNil,
    a_leaked_redirect_is_found: LeakedRedirect,
    a_reply_to_the_successor_in_a_place_is_found: ReusedPlace,
    a_reply_in_the_wrong_protocol_is_found: WrongLane,
    a_command_on_another_connection_is_found: StrayedCommand,
    half_a_reply_kept_for_the_next_connection_is_found: KeptFragment,
    a_silent_node_that_is_waited_for_is_found: IgnoredSilence,
    an_output_limit_that_is_not_kept_is_found: IgnoredOutputLimit,
    a_large_reply_in_the_midst_of_others_is_found: InterleavedReply,
    a_paused_connection_that_is_not_read_again_is_found: ForgottenResume,
    a_cut_reply_whose_client_goes_on_is_found: PatchedReply,
    a_detour_that_is_not_waited_for_is_found: UntrackedDetour,
    a_large_request_that_overtakes_is_found: OvertakingUpload,
}
