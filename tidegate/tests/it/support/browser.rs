//! A headless Chromium, driven by its DevTools protocol over a pipe: one JSON text after the other, each ended by a zero.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Names of the program in the distributions.
const PROGRAMS: [&str; 4] =
    ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

/// A browser with one page; ends with the test.
pub(crate) struct Browser {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: Value,
    sent: u64,
    /// What the page complained of: the console's warnings and errors, exceptions, files that did not come.
    pub(crate) complaints: Vec<String>,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Browser {
    /// A browser; `None` where there is none.
    pub(crate) fn start(name: &str) -> Option<Browser> {
        let is_there = |program: &&str| Command::new(program).arg("--version").output().is_ok();
        let program = PROGRAMS.into_iter().find(is_there)?;
        let profile = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-profile"));
        let _ = std::fs::remove_dir_all(&profile);
        let mut process = Command::new("sh")
            // It reads orders from descriptor 3 and answers on 4.
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", program])
            .args(["--headless=new", "--remote-debugging-pipe", "--no-first-run"])
            // Tests run as root as well, and the page is our own.
            .args(["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            // A picture has the width that the page was laid out for.
            .arg("--hide-scrollbars")
            .args(["--disable-extensions", "--disable-background-networking"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        let (session, complaints) = (Value::Null, Vec::new());
        let mut browser = Browser { process, orders, answers, session, sent: 0, complaints };
        let target = browser.order("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        browser.session = browser.order("Target.attachToTarget", attach)["sessionId"].clone();
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.order(domain, json!({}));
        }
        Some(browser)
    }

    /// Does something and answers with its result; what the page says meanwhile is kept.
    fn order(&mut self, method: &str, parameters: Value) -> Value {
        self.sent += 1;
        let mut order = json!({"id": self.sent, "method": method, "params": parameters});
        if !self.session.is_null() {
            order["sessionId"] = self.session.clone();
        }
        self.orders.write_all(format!("{order}\0").as_bytes()).unwrap();
        loop {
            let mut bytes = Vec::new();
            self.answers.read_until(0, &mut bytes).unwrap();
            assert_eq!(bytes.pop(), Some(0), "the browser ended");
            let answer: Value = serde_json::from_slice(&bytes).unwrap();
            if answer["id"] == self.sent {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.hear(&answer);
        }
    }

    fn hear(&mut self, event: &Value) {
        let what = &event["params"];
        let is_grave = |level: &Value| ["error", "warning", "assert"].iter().any(|it| level == it);
        match event["method"].as_str() {
            Some("Runtime.consoleAPICalled") if is_grave(&what["type"]) => {
                self.complaints.push(what["args"].to_string());
            }
            Some("Runtime.exceptionThrown") => {
                self.complaints.push(what["exceptionDetails"].to_string());
            }
            Some("Log.entryAdded") if is_grave(&what["entry"]["level"]) => {
                self.complaints.push(what["entry"].to_string());
            }
            _ => {}
        }
    }

    /// How wide the screen is, and whether people there like it dark.
    pub(crate) fn look_by(&mut self, width: u32, scheme: &str) {
        let screen = json!({
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500,
        });
        self.order("Emulation.setDeviceMetricsOverride", screen);
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.order("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    pub(crate) fn open(&mut self, url: &str) {
        self.order("Page.navigate", json!({"url": url}));
    }

    /// The value of a script's expression; a promise is waited for.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let parameters =
            json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let result = self.order("Runtime.evaluate", parameters);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true, looking whenever the page changes.
    pub(crate) fn wait_for(&mut self, expression: &str) {
        let waiting = format!(
            "new Promise(done => {{
                const seen = new MutationObserver(() => look());
                const look = () => ({expression}) && (seen.disconnect(), done(true));
                seen.observe(document, {{
                    subtree: true, childList: true, attributes: true, characterData: true,
                }});
                look();
            }})"
        );
        self.value(&waiting);
    }

    /// A picture of the whole page, beside the other files of tests.
    pub(crate) fn picture(&mut self, name: &str) {
        let taken = self.order("Page.captureScreenshot", json!({"captureBeyondViewport": true}));
        let png = STANDARD.decode(taken["data"].as_str().unwrap()).unwrap();
        let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.png"));
        std::fs::write(file, png).unwrap();
    }
}
