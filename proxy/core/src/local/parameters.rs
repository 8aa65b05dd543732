//! CONFIG GET: the parameters that clients ask for at their start, and nothing of the nodes.

use tsubaki_protocol::resp::args::Args;
use tsubaki_protocol::resp::write;

use super::{Context, glob};
use crate::client::Session;

pub(super) fn config_get(session: &Session, args: &Args<'_>, context: &Context<'_>, out: &mut Vec<u8>) {
    let parameters = [
        ("save", String::new()),
        ("appendonly", "no".to_owned()),
        ("databases", "1".to_owned()),
        ("timeout", "0".to_owned()),
        ("slave-read-only", "yes".to_owned()),
        ("replica-read-only", "yes".to_owned()),
        ("maxmemory", "0".to_owned()),
        ("maxmemory-policy", "noeviction".to_owned()),
        ("maxclients", context.settings.identity.max_clients.to_string()),
        ("proto-max-bulk-len", context.settings.max_bulk.to_string()),
        ("port", context.settings.identity.port.to_string()),
        ("cluster-enabled", "no".to_owned()),
    ];
    let found: Vec<_> =
        parameters.iter().filter_map(|(name, value)| Some((asked_as(name, args)?, value))).collect();
    write::map_header(out, found.len(), session.resp);
    for (name, value) in found {
        write::bulk(out, name);
        write::bulk(out, value.as_bytes());
    }
}

/// The name of a parameter as the reply shows it, if it was asked for: a question without a pattern is repeated as it is.
fn asked_as<'a>(name: &'static str, args: &Args<'a>) -> Option<&'a [u8]> {
    args.iter().skip(2).find_map(|question| {
        let is_pattern = question.iter().any(|byte| b"[*?".contains(byte));
        match is_pattern {
            true => glob::matches(question, name.as_bytes()).then_some(name.as_bytes()),
            false => question.eq_ignore_ascii_case(name.as_bytes()).then_some(question),
        }
    })
}
