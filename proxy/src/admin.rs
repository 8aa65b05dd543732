//! HTTP for operators, on loopback unless told otherwise.
//!
//! | route | answer |
//! |---|---|
//! | `GET /metrics` | Prometheus text |
//! | `GET /health/live` | 200 while the process runs |
//! | `GET /health/ready` | 200 once the cluster is known and until the proxy is told to stop, else 503 |

mod metrics;
mod system;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tsubaki_config::ListenAddr;

use self::metrics::Metrics;
pub(crate) use self::system::System;
use crate::control::Status;
use crate::driver::Mailbox;
use crate::listeners;

#[derive(Clone)]
struct Admin {
    metrics: Arc<Metrics>,
    workers: Arc<[Mailbox]>,
    status: Arc<Status>,
}

/// Serves in the background of the control thread. Returns the address, `None` if it is switched off.
pub(crate) fn start(
    listen: Option<&ListenAddr>,
    workers: Arc<[Mailbox]>,
    status: Arc<Status>,
    system: System,
) -> anyhow::Result<Option<String>> {
    let Some(listen) = listen else { return Ok(None) };
    let listener =
        TcpListener::from_std(listeners::bind_admin(listen)?).context("cannot use the admin socket")?;
    let admin = Admin { metrics: Arc::new(Metrics::new(system)), workers, status };
    let routes = Router::new()
        .route("/metrics", get(metrics_page))
        .route("/health/live", get(async || "ok\n"))
        .route("/health/ready", get(ready))
        .with_state(admin);
    tokio::task::spawn_local(async move {
        if let Err(error) = axum::serve(listener, routes).await {
            tracing::error!(%error, "the admin server ended");
        }
    });
    Ok(Some(listen.to_string()))
}

async fn metrics_page(State(admin): State<Admin>) -> impl IntoResponse {
    let mut reports = Vec::with_capacity(admin.workers.len());
    for worker in admin.workers.iter() {
        reports.push(worker.report(false).await.unwrap_or_default().stats);
    }
    let page = admin.metrics.render(&reports, &admin.status);
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page)
}

async fn ready(State(admin): State<Admin>) -> (StatusCode, &'static str) {
    let status = &admin.status;
    if status.stopping.load(Ordering::Relaxed) {
        (StatusCode::SERVICE_UNAVAILABLE, "the proxy is stopping\n")
    } else if status.known.load(Ordering::Relaxed) && status.covered.load(Ordering::Relaxed) > 0 {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the cluster is not known yet\n")
    }
}
