//! Log lines to stderr, as text or JSON, written by a thread of their own.
//!
//! A reader of stderr that does not read must not stop the data path, so lines beyond a full queue are lost.

use std::io::{IsTerminal as _, stderr};
use std::sync::Mutex;

use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::EnvFilter;
use tsubaki_config::{Log, LogFormat};

/// Writes what is queued when it is dropped.
static GUARD: Mutex<Option<WorkerGuard>> = Mutex::new(None);

/// Starts logging; the environment's `RUST_LOG` wins over the configured level.
pub(crate) fn start(log: &Log) {
    let (writer, guard) = tracing_appender::non_blocking(stderr());
    *GUARD.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(guard);
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(log.level.as_str()));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_target(false);
    match log.format {
        LogFormat::Text => {
            let colours = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            builder.with_ansi(colours).init();
        }
        LogFormat::Json => builder.json().init(),
    }
}

/// Writes what is queued, as far as stderr takes it within a moment; nothing is logged afterwards.
pub(crate) fn flush() {
    drop(GUARD.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take());
}
