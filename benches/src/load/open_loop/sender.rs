//! One thread of the generator: sends what is due, reads what has come, and sleeps in between.
//!
//! Must not know: how latencies are summed up.

use std::{
    io,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};

use super::{Counts, request::Requests, route::Route, schedule::Schedule};
use crate::{
    lane::Lane,
    poll::{Interest, Poll, Ready},
};

/// Bytes read at once.
const READ: usize = 64 * 1024;

/// A server that owes replies and says nothing for so long is taken for dead.
const SILENCE: Duration = Duration::from_secs(10);

pub(super) struct Sender<'a> {
    poll: Poll,
    /// By client, then by place in the route.
    lanes: Vec<Lane>,
    route: &'a Route,
    requests: Requests,
    schedule: Schedule,
    counts: Counts,
    /// Whose turn it is.
    client: usize,
    /// Lanes that got a request in this turn.
    fresh: Vec<usize>,
    /// Requests without a reply.
    waiting: usize,
    buffer: Vec<u8>,
}

impl<'a> Sender<'a> {
    /// Call it in the thread that will run it.
    pub(super) fn new(
        lanes: Vec<Lane>,
        route: &'a Route,
        requests: Requests,
        schedule: Schedule,
    ) -> anyhow::Result<Self> {
        let poll = Poll::new()?;
        for (index, lane) in lanes.iter().enumerate() {
            poll.add(lane, index as u64, Interest::Read)?;
        }
        Ok(Self {
            poll,
            lanes,
            route,
            requests,
            schedule,
            counts: Counts::new()?,
            client: 0,
            fresh: Vec::new(),
            waiting: 0,
            buffer: vec![0; READ],
        })
    }

    /// Follows the schedule to its end and waits for the last reply.
    pub(super) fn run(mut self) -> anyhow::Result<Counts> {
        let mut ready = Vec::new();
        let mut heard = Instant::now();
        loop {
            self.send_due()?;
            let next = self.schedule.peek();
            if next.is_none() && self.waiting == 0 {
                return Ok(self.counts);
            }
            self.poll.wait(next.or(Some(heard + SILENCE)), &mut ready)?;
            let now = Instant::now();
            if !ready.is_empty() || self.waiting == 0 {
                heard = now;
            }
            ensure!(now < heard + SILENCE, "the server owes {} replies and is silent", self.waiting);
            for event in &ready {
                self.serve(*event).context("a connection of the load failed")?;
            }
        }
    }

    fn send_due(&mut self) -> anyhow::Result<()> {
        let now = Instant::now();
        while let Some(due) = self.schedule.take(now) {
            self.requests.draw();
            let places = self.route.ports().len();
            let index = self.client * places + self.route.place(self.requests.key());
            self.client = (self.client + 1) % (self.lanes.len() / places);
            self.lanes[index].push(self.requests.bytes(), due);
            self.counts.sent(due, now);
            self.fresh.push(index);
            self.waiting += 1;
        }
        let mut fresh = std::mem::take(&mut self.fresh);
        for index in fresh.drain(..) {
            self.flush(index).context("a connection of the load failed")?;
        }
        self.fresh = fresh;
        Ok(())
    }

    /// Sends what a lane has; watches for room if the socket is full.
    fn flush(&mut self, index: usize) -> io::Result<()> {
        if !self.lanes[index].flush()? {
            self.poll.change(&self.lanes[index], index as u64, Interest::ReadAndWrite)?;
        }
        Ok(())
    }

    fn serve(&mut self, Ready { token, read, write }: Ready) -> io::Result<()> {
        let lane = &mut self.lanes[token as usize];
        if write && lane.flush()? {
            self.poll.change(&*lane, token, Interest::Read)?;
        }
        if read {
            let before = lane.waiting();
            let counts = &mut self.counts;
            lane.read(&mut self.buffer, |due| counts.answered(due, Instant::now()))?;
            self.waiting -= before - lane.waiting();
        }
        Ok(())
    }
}
