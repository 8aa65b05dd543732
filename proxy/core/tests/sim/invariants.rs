//! What must hold whenever the world looks at the engine from outside. (The engine looks at itself after every call.)

use crate::world::World;

impl World {
    pub(crate) fn check_step(&mut self) {
        if let Some(token) = self.cluster.truth.ran_twice() {
            self.fail(format!("<{token}> ran twice"));
        }
        for client in 0..self.clients.len() {
            let Some(id) = self.clients[client].id else { continue };
            let unsent = self.worker.client_output(id).len();
            if unsent > self.settings.max_output {
                self.fail(format!("client {client} left {unsent} bytes unread, above the limit"));
            }
        }
    }

    /// What is still under way when nothing should be.
    pub(crate) fn why_not_quiet(&self) -> String {
        let busy: Vec<String> = (0..self.clients.len())
            .filter(|client| !self.clients[*client].is_done())
            .map(|client| {
                format!("client {client} still waits for {:?}", self.clients[client].outstanding.front())
            })
            .collect();
        let nodes = self.worker.client_list(self.time());
        format!(
            "long after all was mended the engine is not quiet ({}):\n{}\n{nodes}",
            self.worker.is_quiet(),
            busy.join("\n")
        )
    }
}
