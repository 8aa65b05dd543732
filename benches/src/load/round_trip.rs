//! One client that asks for one key and waits, again and again: latency to the nanosecond.
//!
//! Must not know: what it is aimed at.
//!
//! redis-benchmark counts latencies in steps of 8 us, which is most of what a proxy adds.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use hdrhistogram::Histogram;
use tsubaki_protocol::resp::write;

use super::{Figures, Target, redis_benchmark::VALUE_BYTES};
use crate::connection::Connection;

/// The only key.
const KEY: &str = "key:000000000000";

/// Asks for `seconds`; of a cluster, the node that has the key.
///
/// # Errors
/// If the connection fails, or the key cannot be stored.
pub fn run(target: &Target, seconds: f64) -> anyhow::Result<Figures> {
    let mut connection = connect(target)?;
    let (mut request, mut reply) = (Vec::new(), Vec::new());
    write::command(&mut request, [b"GET", KEY.as_bytes()]);
    write::bulk(&mut reply, &[b'x'; VALUE_BYTES as usize]);
    let mut latencies = Histogram::<u64>::new(3)?;
    let begin = Instant::now();
    let mut sent = begin;
    while sent - begin < Duration::from_secs_f64(seconds) {
        connection.exchange(&request, &reply)?;
        let now = Instant::now();
        latencies.record((now - sent).as_nanos() as u64)?;
        sent = now;
    }
    Ok(figures(&latencies, sent - begin))
}

/// A connection to the target or, if that is a node without the key, to the node that it names; the key is stored.
fn connect(target: &Target) -> anyhow::Result<Connection> {
    let password = target.password.as_deref();
    let mut connection = Connection::open_as(target.port, password)?;
    let store = ["SET", KEY, &"x".repeat(VALUE_BYTES as usize)];
    let Err(error) = connection.call(&store) else { return Ok(connection) };
    let text = error.root_cause().to_string();
    ensure!(target.cluster && text.starts_with("MOVED "), "{error:#}");
    let port = text.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    let mut connection = Connection::open_as(port.with_context(|| text.clone())?, password)?;
    connection.call(&store)?;
    Ok(connection)
}

/// Sums latencies in nanoseconds up.
fn figures(latencies: &Histogram<u64>, time: Duration) -> Figures {
    let ms = |nanoseconds: u64| nanoseconds as f64 / 1e6;
    Figures {
        commands: latencies.len(),
        ops: latencies.len() as f64 / time.as_secs_f64(),
        p50_ms: ms(latencies.value_at_quantile(0.5)),
        p99_ms: ms(latencies.value_at_quantile(0.99)),
        p999_ms: Some(ms(latencies.value_at_quantile(0.999))),
        max_ms: Some(ms(latencies.max())),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::{Target, run};
    use crate::{connection::Connection, floor, process::free_port};

    #[test]
    fn every_round_trip_is_counted() {
        let port = free_port().unwrap();
        // Ends with the process: the floor serves until it is killed.
        thread::spawn(move || floor::serve(port));
        let mut asking = Connection::open_when_ready(port).unwrap();
        let figures = run(&Target { port, cluster: false, threads: 1, password: None }, 0.05).unwrap();
        let info = asking.call(&["INFO"]).unwrap();
        // A PING to see that it serves, and a SET to see where the key is.
        assert!(info.starts_with(&format!("commands:{}\r\n", figures.commands + 2)), "{info}");
        assert!(figures.p50_ms > 0.0 && Some(figures.p50_ms) <= figures.max_ms);
    }
}
