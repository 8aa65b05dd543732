//! What can happen in a world, and when it does.

use tsubaki_core::action::GatherId;

use crate::cluster::Claim;
use crate::refresher::View;

/// Something that happens; the numbers name links, nodes, or clients and their connections.
pub(crate) enum Event {
    Timeout,
    Flush,
    /// A connection attempt ends: well, or with this reason.
    Dialed(usize, Option<&'static str>),
    Up(usize, Vec<u8>),
    Down(usize, Vec<u8>),
    /// The engine's side sees the end of a connection.
    LinkClosed(usize),
    Pump(usize),
    /// The engine reads on.
    Drink(usize),
    NodeTurn(usize),
    /// Client, its connection's number.
    Connect(usize),
    Act(usize),
    ClientBytes(usize, u32, Vec<u8>),
    ClientReply(usize, u32, Vec<u8>),
    ClientFinished(usize, u32),
    ClientPump(usize, u32),
    ReadAgain(usize, u32),
    Feed(usize, u32),
    Gathered(GatherId),
    Fetch(Option<usize>),
    Viewed(View),
    Chaos,
    Migrate(usize),
    Hear(usize, usize, Claim),
    Promote(usize, bool),
    Heal(usize),
    Restart(usize),
    Mend,
    Look,
    Stop,
}

/// What happens, and when; of one moment, in the order in which it was planned.
pub(crate) struct Entry {
    pub(crate) at: u64,
    pub(crate) order: u64,
    pub(crate) event: Event,
}

impl Event {
    /// For the trace; nothing for what only keeps the world going.
    pub(crate) fn describe(&self) -> String {
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        match self {
            Self::Flush | Self::Timeout | Self::Look | Self::Chaos | Self::Pump(_) | Self::Feed(..) => {
                String::new()
            }
            Self::Drink(_) | Self::NodeTurn(_) | Self::Act(_) | Self::ClientPump(..) | Self::Migrate(_) => {
                String::new()
            }
            Self::Dialed(link, refused) => format!("link {link} dialled: {}", refused.unwrap_or("well")),
            Self::Up(link, bytes) => format!("link {link} up {}", text(bytes)),
            Self::Down(link, bytes) => format!("link {link} down {}", text(bytes)),
            Self::LinkClosed(link) => format!("link {link} closed"),
            Self::Connect(client) => format!("client {client} connects"),
            Self::ClientBytes(client, _, bytes) => format!("client {client} sent {}", text(bytes)),
            Self::ClientReply(client, _, bytes) => format!("client {client} gets {}", text(bytes)),
            Self::ClientFinished(client, _) => format!("client {client} is heard to be finished"),
            Self::ReadAgain(client, _) => format!("client {client} reads"),
            Self::Gathered(id) => format!("gathered for {id:?}"),
            Self::Fetch(hint) => format!("fetch, first from {hint:?}"),
            Self::Viewed(view) => format!("{view:?}"),
            Self::Hear(node, tag, claim) => format!("node {node} hears of tag {tag}: {claim:?}"),
            Self::Promote(replica, _) => format!("should node {replica} be a master?"),
            Self::Heal(link) => format!("link {link} heals"),
            Self::Restart(node) => format!("node {node} starts again"),
            Self::Mend => "everything is mended".to_owned(),
            Self::Stop => "the engine is to stop".to_owned(),
        }
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}
