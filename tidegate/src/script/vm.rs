//! The machine that a script runs in: Luau, sealed, with a bound on the time of every call and on memory.
//!
//! Luau looks at the clock at every turn of a loop, every call of a function and every step of a pattern. Once
//! the time is over a call that may be suspended is, and goes on at its next turn; where it cannot be, in a
//! function of the library that calls back, each such look fails, so that no `pcall` can hold on. What the
//! standard library does between two looks is bounded by `lua/prelude.luau`. Measured:
//! docs/decisions/0039-luau.md, 0135-scripts-in-turns.md.

mod deadline;

use std::sync::Arc;
use std::time::Duration;

use mlua::chunk::{ChunkMode, Compiler};
use mlua::{FromLuaMulti, Function, IntoLuaMulti, Lua, LuaOptions, StdLib, Thread};

use self::deadline::Deadline;
pub use self::deadline::{Clock, LOOK, thread_time};

/// Longest text of a script.
pub const SOURCE_MAX: usize = 256 * 1024;
/// Longest message of a script's error that is told.
const MESSAGE_MAX: usize = 400;

/// Bounds of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time of one turn, on a processor.
    pub time: Duration,
    /// Bytes of everything that the script holds.
    pub memory: usize,
    /// What time is measured by.
    pub clock: Clock,
}

impl Default for Limits {
    /// A millisecond, 8 MiB.
    fn default() -> Self {
        Limits { time: Duration::from_millis(1), memory: 8 << 20, clock: Clock::Processor }
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

/// A machine.
#[derive(Debug)]
pub struct Vm {
    lua: Lua,
    deadline: Arc<Deadline>,
    limits: Limits,
    /// What a call's part of the machine holds when the call has failed or was given up.
    nothing: Function,
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
        let deadline = Arc::new(Deadline::new(limits.clock));
        let watched = deadline.clone();
        lua.set_interrupt(move |_| watched.look());
        lua.set_memory_limit(limits.memory.max(lua.used_memory()))?;
        let nothing = lua.create_function(|_, ()| Ok(()))?;
        Ok(Vm { lua, deadline, limits, nothing })
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
        self.deadline.set(time, false);
        let result = function.call::<R>(arguments);
        let is_over = self.deadline.is_over();
        self.deadline.clear();
        let result = result.map_err(|error| self.failure(&error, is_over));
        self.tidy(&result);
        match result {
            // A script may have swallowed the failure of what it called, and ended all the same.
            Ok(_) if is_over => Err(Failure::Time(time)),
            Err(Failure::Time(_)) => Err(Failure::Time(time)),
            other => other,
        }
    }

    /// A call that takes turns: nothing of it has run yet. `used` is one that has ended.
    pub(super) fn prepare(
        &self,
        function: &Function,
        used: Option<Thread>,
    ) -> Result<Thread, Failure> {
        let again = |thread: Thread| thread.reset(function.clone()).map(|()| thread);
        let thread = match used.map(again) {
            Some(Ok(thread)) => Ok(thread),
            _ => self.lua.create_thread(function.clone()),
        };
        thread.map_err(|error| self.failure(&error, false))
    }

    /// One turn of a call, and what it took: whether the call has ended with it. The arguments are those of its
    /// first turn; later ones need none.
    pub(super) fn turn(
        &self,
        thread: &Thread,
        arguments: impl IntoLuaMulti,
    ) -> (Result<bool, Failure>, Duration) {
        self.deadline.set(self.limits.time, true);
        let result = thread.resume::<()>(arguments);
        let is_cut_off = self.deadline.is_cut_off();
        let took = self.deadline.took();
        self.deadline.clear();
        let result = match result {
            // A script may have swallowed the failure of what it called, and ended all the same.
            Ok(()) if is_cut_off => Err(Failure::Time(self.limits.time)),
            Ok(()) => Ok(thread.is_finished()),
            Err(error) => Err(self.failure(&error, is_cut_off)),
        };
        if result.is_err() {
            self.give_up(thread);
        }
        self.tidy(&result);
        (result, took)
    }

    /// Nothing of a call is left. One that found no memory may have left its stack half grown, which no collection
    /// of garbage may meet.
    pub(super) fn give_up(&self, thread: &Thread) {
        // It fails only for a thread that runs.
        let _ = thread.reset(self.nothing.clone());
    }

    /// A call that found no memory leaves some for the next one.
    fn tidy<T>(&self, result: &Result<T, Failure>) {
        if matches!(result, Err(Failure::Memory(_))) {
            // Failures of this are the next call's.
            let _ = self.lua.gc_collect();
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
