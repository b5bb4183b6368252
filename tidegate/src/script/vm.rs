//! The machine that a script runs in: Luau, sealed, with a bound on the time of every call and on memory.
//!
//! Luau looks at the clock at every turn of a loop, every call of a function and every step of a pattern;
//! once the time is over each such look fails, so that no `pcall` can hold on. What the standard library
//! does between two looks is bounded by `lua/prelude.luau`. Measured: docs/decisions/0039-luau.md.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mlua::chunk::{ChunkMode, Compiler};
use mlua::{FromLuaMulti, Function, IntoLuaMulti, Lua, LuaOptions, StdLib, VmState};
use rustix::time::{ClockId, clock_gettime};

/// Longest text of a script.
pub const SOURCE_MAX: usize = 256 * 1024;
/// Longest message of a script's error that is told.
const MESSAGE_MAX: usize = 400;

/// Bounds of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time of one call, on a processor.
    pub time: Duration,
    /// Bytes of everything that the script holds.
    pub memory: usize,
}

impl Default for Limits {
    /// A millisecond, 8 MiB.
    fn default() -> Self {
        Limits { time: Duration::from_millis(1), memory: 8 << 20 }
    }
}

/// How a call of a script failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It did not end in time.
    #[error("it took longer than {0:?}: do less in one call, or raise `time`")]
    Time(Duration),
    /// It wanted more memory.
    #[error("it needed more than {0} bytes: keep less, or raise `memory`")]
    Memory(usize),
    /// It is wrong; the text names file and line.
    #[error("{0}")]
    Wrong(String),
}

/// When the call that runs must have ended: by the time that its thread was on a processor. A machine that
/// stands still for a moment must not end a script that does nothing wrong (docs/decisions/0053).
#[derive(Debug)]
struct Deadline {
    origin: Instant,
    /// When to look again, nanoseconds after the origin; 0 while nothing runs. Looking at the thread's time
    /// asks the kernel, looking at this does not; the thread's time never runs faster.
    look_at: AtomicU64,
    /// Of the thread's time, in nanoseconds: when the call must have ended.
    end: AtomicU64,
}

impl Deadline {
    fn new() -> Deadline {
        Deadline { origin: Instant::now(), look_at: AtomicU64::new(0), end: AtomicU64::new(0) }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn set(&self, limit: Duration) {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.end.store(thread_time().saturating_add(limit), Ordering::Relaxed);
        self.look_at.store(self.now().saturating_add(limit).max(1), Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        let look_at = self.look_at.load(Ordering::Relaxed);
        if look_at == 0 {
            return false;
        }
        let now = self.now();
        if now < look_at {
            return false;
        }
        let left = self.end.load(Ordering::Relaxed).saturating_sub(thread_time());
        if left > 0 {
            self.look_at.store(now.saturating_add(left), Ordering::Relaxed);
        }
        left == 0
    }

    fn clear(&self) {
        self.look_at.store(0, Ordering::Relaxed);
    }
}

/// Nanoseconds that this thread has been on a processor.
pub(crate) fn thread_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    u64::try_from(time.tv_sec).unwrap_or_default().saturating_mul(1_000_000_000) + nanos
}

/// A machine.
#[derive(Debug)]
pub struct Vm {
    lua: Lua,
    deadline: Arc<Deadline>,
    limits: Limits,
}

impl Vm {
    /// An empty one; `open` gives it what scripts work with, before it is sealed.
    ///
    /// # Errors
    /// There is not enough memory for the library alone.
    pub fn new(limits: Limits, open: impl FnOnce(&Lua) -> mlua::Result<()>) -> mlua::Result<Vm> {
        // Base is always there.
        let libraries = StdLib::STRING
            | StdLib::TABLE
            | StdLib::MATH
            | StdLib::BIT
            | StdLib::UTF8
            | StdLib::BUFFER;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        lua.set_compiler(Compiler::new().set_optimization_level(1));
        lua.load(include_str!("../../lua/prelude.luau")).set_name("=prelude").exec()?;
        open(&lua)?;
        lua.sandbox(true)?;
        let deadline = Arc::new(Deadline::new());
        let watched = deadline.clone();
        lua.set_interrupt(move |_| match watched.is_over() {
            true => Err(mlua::Error::runtime("the time of this call is over")),
            false => Ok(VmState::Continue),
        });
        lua.set_memory_limit(limits.memory.max(lua.used_memory()))?;
        Ok(Vm { lua, deadline, limits })
    }

    /// The machine's inside.
    pub fn lua(&self) -> &Lua {
        &self.lua
    }

    /// Its bounds.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Compiles a text and runs it, within `time`.
    ///
    /// # Errors
    /// It is no Luau, or fails.
    pub fn run_text(&self, name: &str, text: &str, time: Duration) -> Result<(), Failure> {
        if text.len() > SOURCE_MAX {
            let much = format!("{name}: {} bytes are no script: at most {SOURCE_MAX}", text.len());
            return Err(Failure::Wrong(much));
        }
        let chunk = self.lua.load(text).set_name(format!("={name}")).set_mode(ChunkMode::Text);
        let function = chunk.into_function().map_err(|error| self.failure(&error, false))?;
        self.call_within(&function, (), time)
    }

    /// Calls a function of the script.
    ///
    /// # Errors
    /// It failed, or took too long.
    pub fn call<R: FromLuaMulti>(
        &self,
        function: &Function,
        arguments: impl IntoLuaMulti,
    ) -> Result<R, Failure> {
        self.call_within(function, arguments, self.limits.time)
    }

    pub(super) fn call_within<R: FromLuaMulti>(
        &self,
        function: &Function,
        arguments: impl IntoLuaMulti,
        time: Duration,
    ) -> Result<R, Failure> {
        self.deadline.set(time);
        let result = function.call::<R>(arguments);
        let is_over = self.deadline.is_over();
        self.deadline.clear();
        let result = result.map_err(|error| self.failure(&error, is_over));
        if matches!(result, Err(Failure::Memory(_))) {
            // Or the next call would find no memory either. Failures of this are the next call's.
            let _ = self.lua.gc_collect();
        }
        match result {
            // A script may have swallowed the failure of what it called, and ended all the same.
            Ok(_) if is_over => Err(Failure::Time(time)),
            Err(Failure::Time(_)) => Err(Failure::Time(time)),
            other => other,
        }
    }

    fn failure(&self, error: &mlua::Error, is_over: bool) -> Failure {
        if is_memory(error) {
            return Failure::Memory(self.limits.memory);
        }
        if is_over {
            return Failure::Time(self.limits.time);
        }
        let text = innermost(error).to_string();
        let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let first = first.strip_prefix("runtime error: ").unwrap_or(first);
        let first = first.strip_prefix("syntax error: ").unwrap_or(first);
        Failure::Wrong(first.chars().take(MESSAGE_MAX).collect())
    }
}

fn is_memory(error: &mlua::Error) -> bool {
    match error {
        mlua::Error::MemoryError(_) => true,
        mlua::Error::CallbackError { cause, .. } => is_memory(cause),
        mlua::Error::RuntimeError(text) => text.contains("not enough memory"),
        _ => false,
    }
}

fn innermost(error: &mlua::Error) -> &mlua::Error {
    match error {
        mlua::Error::CallbackError { cause, .. } => innermost(cause),
        other => other,
    }
}

#[cfg(test)]
mod tests;
