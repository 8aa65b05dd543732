//! The floor: the least work that a server on sockets can do, as a measure for the proxy's own cost.
//!
//! Must not know: keys, values, other nodes. It answers from memory.
//!
//! One thread of plain epoll; a ready socket costs one `recv` and one `send`; nothing is allocated per
//! request. Its counts of commands and system calls are the reply to `INFO`.

use std::{
    io,
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::fd::AsRawFd as _,
};

use rustix::{
    buffer::spare_capacity,
    event::epoll,
    io::Errno,
    net::{RecvFlags, SendFlags, recv, send},
};

use self::answer::Counts;

pub mod answer;

/// Most events taken by one `epoll_wait`; more than the 500 clients of the largest cell.
const EVENTS: usize = 1024;

/// Bytes taken by one `recv`: a pipeline of 32 SETs of 64 bytes is about 4 KiB.
const INPUT: usize = 64 * 1024;

/// Room for the replies to one full input of the shortest GETs, so that the buffer never grows.
const OUTPUT: usize = 512 * 1024;

/// The token of the listener; clients have the number of their descriptor, which is never this large.
const LISTENER: u64 = u64::MAX;

/// Serves on 127.0.0.1:`port` until the process is killed.
///
/// # Errors
/// If the port is taken, or the system refuses to poll or to accept.
pub fn serve(port: u16) -> io::Result<()> {
    let mut floor = Floor::listen(port)?;
    let mut events = Vec::with_capacity(EVENTS);
    loop {
        match epoll::wait(&floor.epoll, spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => floor.counts.waits += 1,
            Err(error) => return Err(error.into()),
        }
        for event in events.drain(..) {
            match event.data.u64() {
                LISTENER => floor.accept()?,
                client => floor.turn(client as usize),
            }
        }
    }
}

struct Floor {
    epoll: std::os::fd::OwnedFd,
    listener: TcpListener,
    /// By number of descriptor.
    clients: Vec<Option<Client>>,
    counts: Counts,
    input: Vec<u8>,
    output: Vec<u8>,
}

struct Client {
    /// Blocking: it is read only when it is ready, and a client that does not read holds up everybody,
    /// which no load generator does.
    socket: TcpStream,
    /// The beginning of a request whose end has not come yet; mostly empty.
    partial: Vec<u8>,
}

impl Floor {
    fn listen(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
        Ok(Self {
            epoll,
            listener,
            clients: Vec::new(),
            counts: Counts::default(),
            input: vec![0; INPUT],
            output: Vec::with_capacity(OUTPUT),
        })
    }

    fn accept(&mut self) -> io::Result<()> {
        let (socket, _) = self.listener.accept()?;
        socket.set_nodelay(true)?;
        let index = socket.as_raw_fd() as usize;
        let token = epoll::EventData::new_u64(index as u64);
        epoll::add(&self.epoll, &socket, token, epoll::EventFlags::IN)?;
        if self.clients.len() <= index {
            self.clients.resize_with(index + 1, || None);
        }
        self.clients[index] = Some(Client { socket, partial: Vec::new() });
        Ok(())
    }

    /// One client's turn; a client that left, failed or spoke no RESP is dropped.
    fn turn(&mut self, index: usize) {
        let Some(Some(client)) = self.clients.get_mut(index) else { return };
        self.output.clear();
        self.counts.recvs += 1;
        let open = match recv(&client.socket, &mut *self.input, RecvFlags::empty()) {
            Ok((0, _)) => false,
            Ok((read, _)) => client.answer(&self.input[..read], &mut self.counts, &mut self.output),
            Err(error) => error == Errno::INTR,
        };
        let sent = self.output.is_empty() || send_all(&client.socket, &self.output, &mut self.counts);
        if !open || !sent {
            self.clients[index] = None;
        }
    }
}

impl Client {
    /// Answers what has come; false if it is no RESP.
    fn answer(&mut self, input: &[u8], counts: &mut Counts, output: &mut Vec<u8>) -> bool {
        if self.partial.is_empty() {
            let Some(used) = answer::answer(input, counts, output) else { return false };
            self.partial.extend_from_slice(&input[used..]);
        } else {
            self.partial.extend_from_slice(input);
            let Some(used) = answer::answer(&self.partial, counts, output) else { return false };
            self.partial.drain(..used);
        }
        true
    }
}

fn send_all(socket: &TcpStream, mut bytes: &[u8], counts: &mut Counts) -> bool {
    while !bytes.is_empty() {
        counts.sends += 1;
        match send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::serve;
    use crate::{connection::Connection, process::free_port};

    #[test]
    fn counts_its_system_calls() {
        let port = free_port().unwrap();
        // Ends with the process: the floor serves until it is killed.
        thread::spawn(move || serve(port));
        let mut client = Connection::open_when_ready(port).unwrap();
        for _ in 0..10 {
            assert_eq!(client.call(&["SET", "key", "value"]).unwrap(), "OK");
        }
        let info = client.call(&["INFO"]).unwrap();
        // One PING to see that it serves; INFO itself is received, yet neither counted nor answered so far.
        assert!(info.starts_with("commands:11\r\nrecv:12\r\nsend:11\r\nepoll_wait:"), "{info}");
    }
}
