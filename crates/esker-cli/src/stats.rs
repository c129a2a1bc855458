//! What the server of a mount says of itself: how long its answers took, how full it is, and what its home has to say.
//!
//! Above: `serve`. Below: `volumes`. Invariant: whatever else is asked of a server is passed on to whoever knows it.

use std::sync::{Arc, Weak};

use esker::posix::Fs;
use esker::store::{Space, Store};
use esker_fuse::control::Served;
use esker_fuse::latency::Told;
use esker_fuse::{Control, Latencies};
use serde_json::{Value, json};

use crate::volumes::ask::unknown;

/// Asks for it.
pub fn message() -> Value {
    json!({ "stats": true })
}

/// How full something is; nothing, once it is not served any more.
type Full = Box<dyn Fn() -> Option<Space> + Send + Sync>;

/// Answers for a mount, whichever home it has.
pub struct Server {
    latencies: Arc<Latencies>,
    space: Full,
    source: String,
    others: Option<Arc<dyn Control>>,
}

impl Server {
    /// For what is mounted as `source`; `others` know the rest.
    pub fn open<S>(
        fs: &Arc<Fs<S>>,
        latencies: &Arc<Latencies>,
        source: String,
        others: Option<Arc<dyn Control>>,
    ) -> Arc<dyn Control>
    where
        S: Store + Send + Sync + 'static,
    {
        let fs: Weak<Fs<S>> = Arc::downgrade(fs);
        let space: Full = Box::new(move || fs.upgrade().map(|fs| fs.store().space()));
        Arc::new(Self { latencies: Arc::clone(latencies), space, source, others })
    }

    fn stats(&self, request: &[u8], served: &dyn Served) -> Value {
        let own = self.others.as_ref().map(|others| others.answer(request, served));
        let mut all: Value =
            own.and_then(|own| serde_json::from_slice(&own).ok()).unwrap_or_else(|| json!({}));
        all["source"] = json!(self.source);
        if let Some(space) = (self.space)() {
            all["size"] = json!(space.total);
            all["used"] = json!(space.used);
            all["free"] = json!(space.total.saturating_sub(space.used));
            all["inodes"] = json!(space.inodes);
        }
        all["operations"] = self.latencies.told().iter().map(operation).collect();
        all
    }
}

fn operation(told: &Told) -> Value {
    let [p50, p90, p99, p99_9] = told.percentiles;
    json!({
        "operation": told.name,
        "count": told.count,
        "mean_ns": told.sum / told.count.max(1),
        "p50_ns": p50,
        "p90_ns": p90,
        "p99_ns": p99,
        "p99.9_ns": p99_9,
        "max_ns": told.longest,
    })
}

impl Control for Server {
    fn answer(&self, request: &[u8], served: &dyn Served) -> Vec<u8> {
        let asked: Option<Value> = serde_json::from_slice(request).ok();
        if asked.is_some_and(|asked| asked.get("stats").is_some()) {
            return self.stats(request, served).to_string().into_bytes();
        }
        match &self.others {
            Some(others) => others.answer(request, served),
            None => unknown().to_string().into_bytes(),
        }
    }
}
