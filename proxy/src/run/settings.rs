//! From the configuration's values to the engine's.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use tsubaki_config::{Config, ReadPolicy};
use tsubaki_core::settings::{self, CHUNK, Identity, LARGE_VALUE, Login, Password, Settings};
use tsubaki_core::topology::AddressMap;

use crate::clock::Clock;

pub(super) fn identity(config: &Config, workers: usize, max_clients: usize, clock: &Clock) -> Identity {
    Identity {
        version: env!("CARGO_PKG_VERSION"),
        port: config.listen.addresses.first().map_or(0, |address| address.port()),
        pid: std::process::id(),
        max_clients,
        epoch_unix_us: clock.epoch_unix_us,
        worker: 0,
        workers,
        run_id: format!("{:016x}{:016x}{:08x}", random(), random(), random() as u32),
    }
}

/// Settings of worker number `index`, which may have so many connections for large values.
pub(super) fn engine(config: &Config, identity: &Identity, index: usize, max_spares: usize) -> Settings {
    let (cluster, limits) = (&config.cluster, &config.limits);
    Settings {
        client_password: config
            .listen
            .password
            .as_ref()
            .map(|secret| Password::new(secret.expose().to_owned())),
        node_login: login(config),
        read_policy: match cluster.read_policy {
            ReadPolicy::Master => settings::ReadPolicy::Master,
            ReadPolicy::PreferReplica => settings::ReadPolicy::PreferReplica,
            ReadPolicy::Replica => settings::ReadPolicy::Replica,
            ReadPolicy::Any => settings::ReadPolicy::Any,
        },
        address_map: address_map(config),
        connections_per_node: cluster.connections_per_node,
        connect_timeout: cluster.connect_timeout.as_duration(),
        wait_timeout: cluster.wait_timeout.as_duration(),
        silence_timeout: cluster.silence_timeout.as_duration(),
        max_in_flight: limits.in_flight as usize,
        max_in_flight_bytes: limits.in_flight_bytes.as_u64() as usize,
        max_output: limits.output_buffer.as_u64() as usize,
        // Each worker has its share, as no counter is shared on the hot path; but one client may have all that it may have.
        max_total_output: (limits.output_buffer_total.as_u64() as usize / identity.workers.max(1))
            .max(limits.output_buffer.as_u64() as usize),
        max_bulk: u32::try_from(limits.max_bulk.as_u64()).unwrap_or(u32::MAX),
        max_request: u32::try_from(limits.query_buffer.as_u64()).unwrap_or(u32::MAX),
        large_value: LARGE_VALUE,
        chunk: CHUNK,
        max_spares,
        identity: Identity { worker: index, ..identity.clone() },
        seed: random(),
    }
}

pub(super) fn login(config: &Config) -> Option<Login> {
    let password = config.cluster.password.as_ref()?;
    Some(Login { user: config.cluster.user.clone(), password: Password::new(password.expose().to_owned()) })
}

pub(super) fn address_map(config: &Config) -> AddressMap {
    let map = &config.cluster.address_map;
    let exact = map.exact.iter().map(|(from, to)| (from.to_string(), to.to_string()));
    let hosts = map.hosts.iter().map(|(from, to)| (from.clone(), to.clone()));
    AddressMap::new(exact.chain(hosts).collect())
}

/// A number from the system's randomness, by way of the standard library's hash seeds.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
