//! Every fixed bound of the engine, with the reason for its number. What users may change is in [`Settings`](crate::settings::Settings).

use std::time::Duration;

/// Redirects (MOVED or ASK) that one command follows. A healthy cluster needs one, a moving slot two; more is a loop.
pub(crate) const MAX_REDIRECTS: u8 = 5;

/// Times that one command is sent again for other reasons (a read whose connection died). A second death in a row is news for the client.
pub(crate) const MAX_RESENDS: u8 = 3;

/// First and longest pause before a refused command is sent again. A key migrates in about a millisecond, an election takes seconds.
pub(crate) const RETRY_PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

/// How long an ASK holds. A command that could not follow it so soon goes by the map again: the slot may have moved on and be on its way back, and then ASKING would let the command in where its key is not. Moving a slot takes longer.
pub(crate) const ASK_LIFE: Duration = Duration::from_millis(50);

/// How often a held command looks again for a way to its slot when nothing wakes it earlier.
pub(crate) const HOLD_CHECK: Duration = Duration::from_millis(50);

/// First and longest pause between two connection attempts to a node that refuses. Below the time a command may wait, so that one attempt at least falls into it.
pub(crate) const RECONNECT_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// A replica that refused, loads or is gone serves no reads for this long: a full sync or a restart takes seconds.
pub(crate) const REPLICA_TIMEOUT: Duration = Duration::from_secs(1);

/// Below this, an unfinished request is scanned again from its start when more arrives, which saves its scanner's memory. At most 4096 restarts of 4 KiB a frame.
pub(crate) const RESCAN: usize = 4096;

/// Buffers grown above this are given back when they run empty. Twice a full socket read, so that ordinary pipelines keep theirs.
pub(crate) const KEEP_BUFFER: usize = 128 * 1024;

/// Room for the places of a command's keys, kept for the next command: ordinary ones have fewer.
pub(crate) const KEEP_KEYS: usize = 4096;

/// Fan-outs whose memory is kept, and the most keys that it may have room for: ordinary split commands of a busy worker, in half a megabyte.
pub(crate) const KEEP_ROOMS: usize = 256;
pub(crate) const KEEP_ROOM: usize = 64;

/// A client's own buffers above this are given back when they run empty: with 10,000 clients what each keeps counts.
pub(crate) const KEEP_CLIENT_BUFFER: usize = 16 * 1024;

/// Request bytes at nodes or waiting, for one worker, above which its clients are not read. Half a pipeline of 1,000 clients with 1 MiB values.
pub(crate) const MAX_PENDING_BYTES: usize = 512 * 1024 * 1024;

/// Parked replies are moved together when this much is parked and less than half of it is still wanted.
pub(crate) const PARKED_GARBAGE: usize = 64 * 1024;

/// Least time between two requests for a refresh for the same reason by one worker. A refresh takes about a millisecond, and one answers all who wait.
pub(crate) const REFRESH_PAUSE: Duration = Duration::from_millis(20);

/// Connections of a kind to one node that are kept for the next large value once they carry nothing: as many as one client's bytes in flight are large requests.
pub(crate) const KEEP_SPARES: usize = 16;

/// A large request with more arguments is not streamed: it is many keys more likely than one long value. It is also what one look at it costs at most.
pub(crate) const MAX_UPLOAD_ARGS: usize = 1024;

/// Replies that one read of one client may make before the others get their turn. COMMAND makes 100 KiB of nine bytes.
pub(crate) const MAX_BURST: usize = 1024 * 1024;

/// How long a reply waits for those of the commands that its client sent with it, so that a pipeline over several nodes is answered in one write and not in one a node. Nodes of a healthy cluster answer within this time of each other; where one does not, the others' replies are no later than this, and than the caller's timers are coarse.
pub(crate) const CORK_TIME: Duration = Duration::from_millis(1);

/// A batch that took so much longer than the fastest of its connection waited for its node's CPU: longer than a healthy node stops for, shorter than what a quota leaves of its period (20 to 100 ms).
pub(crate) const STRAIN: Duration = Duration::from_millis(4);

/// Commands that must have waited with it. Fewer clients than this lose more by waiting than their node gains.
pub(crate) const CROWD: usize = 32;

/// How long a batch for a strained node waits for more. Measured with three nodes that each had 1 ms of CPU in every 20: see ARCHITECTURE.md.
pub(crate) const PACE_TIME: Duration = Duration::from_millis(1);

/// Replies of this size do not wait for more: a larger write saves nothing.
pub(crate) const CORK_BYTES: usize = 16 * 1024;
