//! The admin pages of a proxy.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use super::PATIENCE;

/// The answer to one GET.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Fetches `path`.
pub(crate) fn get(addr: SocketAddr, path: &str) -> io::Result<Page> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok(Page { status: status.ok_or(io::ErrorKind::InvalidData)?, body: body.to_owned() })
}

/// The sum of the samples of `name` whose labels contain `label` (such as `kind="moved"`; empty: all), in the text form
/// of Prometheus.
pub(crate) fn sum(page: &str, name: &str, label: &str) -> f64 {
    let samples = page.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let (labels, value) = rest.rsplit_once(' ')?;
        let is_that_name = labels.is_empty() || labels.starts_with('{');
        (is_that_name && labels.contains(label)).then(|| value.parse::<f64>().unwrap())
    });
    samples.sum()
}
