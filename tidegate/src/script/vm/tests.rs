use super::*;

fn vm() -> Vm {
    Vm::new(Limits::default(), |_| Ok(())).unwrap()
}

/// Longer than any machine needs for what ends by itself.
const LONG: Duration = Duration::from_secs(60);

fn fails(text: &str) -> Failure {
    vm().run_text("a.luau", text, LONG).unwrap_err()
}

#[test]
fn what_reaches_out_is_not_there() {
    for name in [
        "io",
        "os",
        "require",
        "loadstring",
        "debug",
        "package",
        "dofile",
        "load",
        "getfenv",
        "setfenv",
        "collectgarbage",
        "newproxy",
        "coroutine",
    ] {
        vm().run_text("a", &format!("assert({name} == nil)"), LONG).unwrap();
    }
    let text = "assert(string.format('%d', 3) == '3' and math.floor(1.5) == 1 and table.concat({1, 2}) \
                == '12' and bit32.band(3, 1) == 1 and utf8.len('ä') == 1 and buffer.len(buffer.create(3)) \
                == 3)";
    vm().run_text("a", text, LONG).unwrap();
}

#[test]
fn the_library_cannot_be_changed() {
    for text in
        ["string.find = 1", "table.sort = nil", "getmetatable('').__index = {}", "math.x = 1"]
    {
        assert!(matches!(fails(text), Failure::Wrong(_)), "{text}");
    }
}

#[test]
fn endless_scripts_end() {
    for text in [
        "while true do end",
        "local function f() while true do end end while true do pcall(f) end",
        "while true do pcall(error) end",
        "local t = setmetatable({}, {__index = function() while true do end end}) return t.x",
        "xpcall(function() while true do end end, function() while true do end end)",
        "local t = {} for i = 1, 4000 do t[i] = i end while true do table.sort(t) end",
        "string.find(string.rep('a', 100), string.rep('a?', 100) .. string.rep('a', 100))",
        "string.rep('a', 1000000):find('.-.-.-.-b')",
        "string.rep('a', 100000):find('(.*)(.*)(.*)(.*)b')",
        "for _ in string.gmatch(string.rep('a', 1000000), '') do end",
        "while true do local s = string.rep('x', 1000000) end",
    ] {
        let failure = vm().run_text("a", text, Duration::from_millis(1)).unwrap_err();
        assert!(matches!(failure, Failure::Time(_)), "{text}: {failure:?}");
    }
    // Its stack may be full before its time is over.
    let failure =
        vm().run_text("a", "local function f() return f() end f()", Duration::from_millis(1));
    assert!(matches!(failure, Err(Failure::Time(_) | Failure::Wrong(_))), "{failure:?}");
}

#[test]
fn no_library_function_works_for_long() {
    for text in [
        "table.move({}, 1, 2^31 - 2, 2)",
        "table.move({}, 0/0, 1, 2)",
        "table.concat({}, '', 1, 2^30)",
        "table.concat(table.create(300000, 1))",
        "table.sort(table.create(300000, 1))",
        "string.rep('x', 2^31 - 1)",
        "string.rep('xxxxxxxx', 2^29)",
        "string.find(string.rep('a', 1000000), '[' .. string.rep('b', 500) .. ']*')",
        "string.find('a', string.rep('b', 100000))",
        "string.packsize(string.rep('b', 1000000))",
        "string.split(string.rep(',', 1000000), ',')",
    ] {
        // It is told before anything is done, however long the machine may take.
        let failure = fails(text);
        assert!(matches!(failure, Failure::Wrong(_)), "{text}: {failure:?}");
    }
}

#[test]
fn memory_is_bounded_and_comes_back() {
    for text in [
        "local t = {} while true do t[#t + 1] = {} end",
        "local s = 'x' while true do s = s .. s end",
        "local t = table.create(10000000, 1)",
        "local b = buffer.create(100000000)",
        "local function f(n) return f(n + 1) + 1 end f(1)",
        "local s = string.rep('x', 1000000) local t = {} for i = 1, 100 do t[i] = s .. i end",
    ] {
        // Long enough for the memory to end first.
        let vm = vm();
        let failure = vm.run_text("a", text, LONG).unwrap_err();
        let is_right = match &failure {
            Failure::Memory(_) => true,
            Failure::Wrong(text) => text.contains("stack overflow"),
            Failure::Time(_) => false,
        };
        assert!(is_right, "{text}: {failure:?}");
        assert!(vm.lua().used_memory() <= Limits::default().memory);
        vm.run_text("a", "local t = {} for i = 1, 1000 do t[i] = {i} end", LONG).unwrap();
    }
}

#[test]
fn mistakes_are_told_with_their_line() {
    assert_eq!(fails("local x = 1\nlocal y = = 2").to_string().split(':').nth(1), Some("2"));
    assert_eq!(fails("\n\nerror('no')"), Failure::Wrong("a.luau:3: no".into()));
    for text in ["\nstring.find('a', string.rep('b', 1000))", "\nstring.rep('a', 2^30)"] {
        assert!(fails(text).to_string().starts_with("a.luau:2: bytes of a"), "{}", fails(text));
    }
    assert_eq!(
        fails("local x = nil\nreturn x.y"),
        Failure::Wrong("a.luau:2: attempt to index nil with 'y'".into())
    );
}

#[test]
fn bytecode_is_no_text() {
    assert!(matches!(fails("\u{5}\u{1}\u{0}"), Failure::Wrong(_)));
}
