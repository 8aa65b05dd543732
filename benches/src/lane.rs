//! One connection of a load: requests go out without waiting for replies, and every reply knows when its request was due.
//!
//! Must not know: when and what to send.

use std::{
    collections::VecDeque,
    io::{self, ErrorKind, Read as _, Write as _},
    net::TcpStream,
    os::fd::{AsFd, BorrowedFd},
    time::Instant,
};

use tsubaki_protocol::resp::reply::{ReplyScan, ReplyScanner};

/// A connection that does not block.
pub struct Lane {
    socket: TcpStream,
    /// What the socket has not taken yet.
    output: Vec<u8>,
    /// The beginning of a reply whose end has not come.
    partial: Vec<u8>,
    scanner: ReplyScanner,
    /// When each request was due whose reply has not come, the oldest first.
    due: VecDeque<Instant>,
}

impl Lane {
    /// Takes over a connected socket, or one that is being connected.
    ///
    /// # Errors
    /// If the system refuses to make it so that it does not block.
    pub fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let due = VecDeque::new();
        Ok(Self { socket, output: Vec::new(), partial: Vec::new(), scanner: ReplyScanner::new(), due })
    }

    /// Appends a request; [`flush`](Self::flush) sends it.
    pub fn push(&mut self, request: &[u8], due: Instant) {
        self.output.extend_from_slice(request);
        self.due.push_back(due);
    }

    /// Requests without a reply.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.due.len()
    }

    /// Writes what the socket takes; false: it is full, and there is more.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn flush(&mut self) -> io::Result<bool> {
        let mut sent = 0;
        while sent < self.output.len() {
            match self.socket.write(&self.output[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.output.drain(..sent);
        Ok(self.output.is_empty())
    }

    /// Reads once into `buffer` and calls `answered` for each whole reply, with the time at which its request was due.
    ///
    /// # Errors
    /// If the connection is broken or ended, or brought an error or what is no reply.
    pub fn read(&mut self, buffer: &mut [u8], answered: impl FnMut(Instant)) -> io::Result<()> {
        let count = match self.socket.read(buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if self.partial.is_empty() {
            let used = self.take(&buffer[..count], answered)?;
            self.partial.extend_from_slice(&buffer[used..count]);
        } else {
            self.partial.extend_from_slice(&buffer[..count]);
            let input = std::mem::take(&mut self.partial);
            let used = self.take(&input, answered)?;
            self.partial = input;
            self.partial.drain(..used);
        }
        Ok(())
    }

    /// Takes the whole replies at the front of `input` and tells how long they are.
    fn take(&mut self, input: &[u8], mut answered: impl FnMut(Instant)) -> io::Result<usize> {
        let mut used = 0;
        while used < input.len() {
            let rest = &input[used..];
            let reply = match self.scanner.scan(rest).map_err(io::Error::other)? {
                ReplyScan::Complete(reply) => reply,
                ReplyScan::Partial => break,
            };
            if reply.kind == b'-' {
                return Err(io::Error::other(String::from_utf8_lossy(rest[..reply.len].trim_ascii_end())));
            }
            let due =
                self.due.pop_front().ok_or_else(|| io::Error::other("a reply that nobody asked for"))?;
            answered(due);
            used += reply.len;
        }
        Ok(used)
    }
}

impl AsFd for Lane {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::{Ipv4Addr, TcpListener, TcpStream},
        time::{Duration, Instant},
    };

    use super::Lane;
    use crate::connection::wait_for;

    fn pair() -> (Lane, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let lane = Lane::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap()).unwrap();
        (lane, listener.accept().unwrap().0)
    }

    #[test]
    fn a_reply_cut_anywhere_belongs_to_the_oldest_request() {
        let (mut lane, mut server) = pair();
        let first = Instant::now();
        let second = first + Duration::from_secs(1);
        lane.push(b"one", first);
        lane.push(b"two", second);
        assert!(lane.flush().unwrap());
        let mut request = [0; 6];
        server.read_exact(&mut request).unwrap();
        assert_eq!(&request, b"onetwo");
        let mut answered = Vec::new();
        for piece in [&b"$3\r\nab"[..], b"c\r", b"\n+O", b"K\r\n"] {
            server.write_all(piece).unwrap();
            let mut look = || {
                let before = lane.partial.len() + 100 * lane.waiting();
                lane.read(&mut [0; 100], |due| answered.push(due)).unwrap();
                (lane.partial.len() + 100 * lane.waiting() != before).then_some(())
            };
            wait_for("the piece", &mut look).unwrap();
        }
        assert_eq!(answered, [first, second]);
        assert_eq!(lane.waiting(), 0);
    }

    #[test]
    fn an_error_reply_ends_the_load() {
        let (mut lane, mut server) = pair();
        lane.push(b"one", Instant::now());
        server.write_all(b"-ERR no luck\r\n").unwrap();
        let error = wait_for("the error", || lane.read(&mut [0; 100], |_| ()).err()).unwrap();
        assert_eq!(error.to_string(), "-ERR no luck");
    }

    #[test]
    fn a_full_socket_keeps_the_rest_for_later() {
        let (mut lane, mut server) = pair();
        let request = vec![7; 50_000_000];
        lane.push(&request, Instant::now());
        assert!(!lane.flush().unwrap());
        let mut got = vec![0; request.len()];
        let mut filled = 0;
        while filled < got.len() {
            filled += server.read(&mut got[filled..]).unwrap();
            lane.flush().unwrap();
        }
        assert!(got == request);
    }
}
