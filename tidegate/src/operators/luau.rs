//! A step in Luau: `on_record(record)` gives what takes the record's place, or nothing. What it remembers moves with
//! its topics where it has `save()`, which gives a text or nil, and `load(text)`.

use mlua::{Function, Value as Lua};
use tidegate_stream::{
    Item, ItemContent, MemoryError, OperatorStep, Row, Saver, StepError, StepInstance, Value,
};
use tidegate_types::codec::{Reader, Sink};
use tidegate_types::units::Time;

use crate::script::budget::Budget;
use crate::script::vm::{Limits, Vm};

/// The function that a text must have.
const FUNCTION: &str = "on_record";
/// Those that it may have, both or none.
const SAVE: &str = "save";
const LOAD: &str = "load";

/// A script, as it is configured.
#[derive(Clone, Debug)]
pub(super) struct LuauStep {
    name: String,
    text: String,
    limits: Limits,
}

impl LuauStep {
    /// Compiles a text once, to see whether it can be used.
    pub(super) fn load(name: &str, text: String, limits: Limits) -> Result<LuauStep, String> {
        let step = LuauStep { name: name.to_owned(), text, limits };
        let (vm, _) = step.machine()?;
        if own(&vm, SAVE).is_some() != own(&vm, LOAD).is_some() {
            return Err(format!("{name}: {SAVE}() and {LOAD}(text) go together: give both"));
        }
        Ok(step)
    }

    fn machine(&self) -> Result<(Vm, Function), String> {
        let vm = Vm::new(self.limits, |_| Ok(())).map_err(|error| error.to_string())?;
        let time = self.limits.time.max(std::time::Duration::from_millis(100));
        vm.run_text(&self.name, &self.text, time).map_err(|failure| failure.to_string())?;
        let function = vm.lua().globals().get::<Function>(FUNCTION);
        let function =
            function.map_err(|_| format!("{}: no function {FUNCTION}(record)", self.name))?;
        Ok((vm, function))
    }
}

impl OperatorStep for LuauStep {
    fn start(&self) -> Box<dyn StepInstance> {
        // It could be loaded once; where memory lacks now, each record fails.
        Box::new(LuauRun { machine: self.machine().ok(), budget: Budget::default() })
    }
}

struct LuauRun {
    machine: Option<(Vm, Function)>,
    budget: Budget,
}

impl StepInstance for LuauRun {
    fn run(&mut self, item: Item, out: &mut Vec<Item>) -> Result<(), StepError> {
        // What fails again and again is switched off, so that it costs others no time.
        let machine = self.machine.as_ref().filter(|_| !self.budget.is_spent());
        let (vm, function) = machine.ok_or(StepError::Script)?;
        let at = item.at;
        match call(vm, function, item.content) {
            Ok(content) => {
                self.budget.succeed();
                out.extend(content.map(|content| Item { at, content }));
                Ok(())
            }
            Err(text) => {
                if self.budget.fail() {
                    tracing::warn!("an operator's script is switched off: {text}");
                }
                Err(StepError::Script)
            }
        }
    }

    fn save(&self, to: &mut Saver) {
        let machine = self.machine.as_ref().filter(|_| !self.budget.is_spent());
        let Some((vm, _)) = machine else { return };
        let Some(save) = own(vm, SAVE) else { return };
        match vm.call::<Lua>(&save, ()) {
            Ok(Lua::Nil) => {}
            Ok(Lua::String(text)) => to.bytes(&text.as_bytes()),
            Ok(other) => {
                let text = format!("{SAVE}() gave a {}: a string or nil", other.type_name());
                to.fail(MemoryError::Step(text));
            }
            Err(failure) => to.fail(MemoryError::Step(failure.to_string())),
        }
    }

    fn load(&mut self, _now: Time, from: &mut Reader<'_>) -> Result<(), MemoryError> {
        if from.is_empty() {
            return Ok(());
        }
        let script = |text: String| MemoryError::Step(text);
        let (vm, _) = self.machine.as_ref().ok_or_else(|| script("it cannot run".into()))?;
        let load = own(vm, LOAD).ok_or_else(|| script(format!("no function {LOAD}(text)")))?;
        let text = vm.lua().create_string(from.bytes()?);
        let text = text.map_err(|error| script(error.to_string()))?;
        vm.call::<()>(&load, text).map_err(|failure| script(failure.to_string()))
    }
}

/// A function that the text may have.
fn own(vm: &Vm, name: &str) -> Option<Function> {
    vm.lua().globals().get::<Option<Function>>(name).ok().flatten()
}

fn call(vm: &Vm, function: &Function, content: ItemContent) -> Result<Option<ItemContent>, String> {
    let argument = match content {
        ItemContent::Payload(bytes) => vm.lua().create_string(&bytes).map(Lua::String),
        ItemContent::Row(row) => table(vm, &row),
    };
    let argument = argument.map_err(|error| error.to_string())?;
    let answer = vm.call::<Lua>(function, argument).map_err(|failure| failure.to_string())?;
    match answer {
        Lua::Nil => Ok(None),
        Lua::String(text) => Ok(Some(ItemContent::Payload(text.as_bytes().to_vec().into()))),
        Lua::Table(table) => row(&table).map(|row| Some(ItemContent::Row(row))),
        other => Err(format!("{FUNCTION} gave a {}: a table, a string or nil", other.type_name())),
    }
}

fn table(vm: &Vm, row: &Row) -> mlua::Result<Lua> {
    let table = vm.lua().create_table()?;
    for (name, value) in row.iter() {
        match value {
            Value::Number(number) => table.set(&**name, *number)?,
            Value::Text(text) => table.set(&**name, &**text)?,
            Value::Flag(flag) => table.set(&**name, *flag)?,
        }
    }
    Ok(Lua::Table(table))
}

/// The fields of a table, by name: a table has no order.
fn row(table: &mlua::Table) -> Result<Row, String> {
    let mut fields = Vec::new();
    for pair in table.pairs::<String, Lua>() {
        let (name, value) = pair.map_err(|error| error.to_string())?;
        let value = match value {
            Lua::Boolean(flag) => Value::Flag(flag),
            Lua::Integer(number) => Value::Number(number as f64),
            Lua::Number(number) => Value::Number(number),
            Lua::String(text) => Value::Text(text.to_string_lossy().into()),
            other => return Err(format!("field {name} is a {}", other.type_name())),
        };
        fields.push((name.into(), value));
    }
    fields.sort_by(|(a, _): &(std::sync::Arc<str>, Value), (b, _)| a.cmp(b));
    Ok(fields.into_iter().collect())
}
