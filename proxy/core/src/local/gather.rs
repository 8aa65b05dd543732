//! INFO and CLIENT LIST: answers that are put together from what all workers tell.

use std::collections::BTreeMap;

use tsubaki_protocol::resp::args::Args;
use tsubaki_protocol::resp::write;

use super::number::integer;
use super::{Context, Local, info};
use crate::action::Gathered;
use crate::client::Session;

/// What a client waits to be shown.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// INFO: the sections of these names; all if none is named.
    Info(Vec<String>),
    /// CLIENT LIST.
    Clients,
    /// CLIENT LIST ID: the clients with these ids, in this order.
    ClientsById(Vec<i64>),
}

impl Wanted {
    pub(super) fn info(args: &Args<'_>) -> Self {
        Self::Info(
            args.iter().skip(1).map(|name| String::from_utf8_lossy(name).to_ascii_lowercase()).collect(),
        )
    }

    /// True if it is about clients, not figures.
    pub(crate) fn needs_clients(&self) -> bool {
        !matches!(self, Self::Info(_))
    }

    /// Writes the reply when all workers have told their part.
    pub(crate) fn write(
        &self,
        session: &Session,
        context: &Context<'_>,
        gathered: &Gathered,
        out: &mut Vec<u8>,
    ) {
        let text = match self {
            Self::Info(sections) => info::text(context, &gathered.stats, sections),
            Self::Clients => gathered.clients.clone(),
            Self::ClientsById(ids) => {
                let lines: BTreeMap<i64, &str> =
                    gathered.clients.split_inclusive('\n').filter_map(by_id).collect();
                ids.iter().filter_map(|id| lines.get(id)).copied().collect()
            }
        };
        write::verbatim(out, "txt", text.as_bytes(), session.resp);
    }
}

/// CLIENT LIST, whole, by ids, or by type; of the types, only `normal` has members here.
pub(super) fn client_list(session: &Session, args: &Args<'_>, out: &mut Vec<u8>) -> Local {
    const OTHERS: [&str; 4] = ["master", "replica", "slave", "pubsub"];
    match args.len() {
        2 => return Local::Gather(Wanted::Clients),
        4 if args.is(2, "type") && args.is(3, "normal") => return Local::Gather(Wanted::Clients),
        4 if args.is(2, "type") && OTHERS.iter().any(|other| args.is(3, other)) => {
            write::verbatim(out, "txt", b"", session.resp);
        }
        4 if args.is(2, "type") => {
            let unknown = String::from_utf8_lossy(args.at(3).unwrap_or_default());
            write::error(out, &format!("ERR Unknown client type '{unknown}'"));
        }
        4.. if args.is(2, "id") => match args.iter().skip(3).map(integer).collect() {
            Some(ids) => return Local::Gather(Wanted::ClientsById(ids)),
            None => write::error(out, "ERR Invalid client ID"),
        },
        _ => write::error(out, "ERR syntax error"),
    }
    Local::Answered
}

/// A line of the list with the id that it is about.
fn by_id(line: &str) -> Option<(i64, &str)> {
    let id = line.strip_prefix("id=")?.split(' ').next()?;
    Some((id.parse().ok()?, line))
}
