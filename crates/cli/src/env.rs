//! What the process knows: variables, home, run id, cores, and the stop flag that Ctrl-C sets.

use haul_model::{Environment, Error, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// How long a run may take to stop by itself, in milliseconds. Past that it waits for something that does not come (a silent pipe, a
/// stuck server), and the process ends as it is: targets are left whole by a crash at any moment, so also by this.
static GRACE: AtomicU64 = AtomicU64::new(2000);

/// Gives the run more time to stop: what was read is to become durable.
pub fn wait_to_stop(grace: Duration) {
    GRACE.store(u64::try_from(grace.as_millis()).unwrap_or(u64::MAX), Relaxed);
}

/// Collects the environment and installs the signal handlers. A second Ctrl-C ends the process at once.
///
/// # Errors
/// A signal handler that cannot be installed.
pub fn environment() -> Result<Environment> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let install = signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone())
            .and_then(|_| signal_hook::flag::register(signal, stop.clone()));
        install.map_err(|e| Error::io("this process", "cannot install a signal handler", e))?;
    }
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])
        .map_err(|e| Error::io("this process", "cannot install a signal handler", e))?;
    let waiter = std::thread::Builder::new().name("haul-signals".into()).spawn(move || {
        if signals.forever().next().is_some() {
            std::thread::sleep(Duration::from_millis(GRACE.load(Relaxed)));
            eprintln!("error: stopped by the user");
            std::process::exit(130);
        }
    });
    waiter.map_err(|e| Error::io("this process", "cannot start a thread", e))?;
    Ok(Environment {
        vars: std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))).collect(),
        home: std::env::home_dir(),
        stop,
        run_id: run_id(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        idle: haul_model::Idle::default(),
    })
}

/// Unique on this machine and readable: process id and start time, in base 36.
fn run_id() -> String {
    let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    let mut n = (nanos / 1000) ^ (u64::from(std::process::id()) << 40);
    let mut out = Vec::new();
    while n > 0 {
        out.push(b"0123456789abcdefghijklmnopqrstuvwxyz"[(n % 36) as usize]);
        n /= 36;
    }
    out.reverse();
    String::from_utf8_lossy(&out).into_owned()
}
