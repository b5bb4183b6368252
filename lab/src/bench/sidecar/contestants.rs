//! Who stands between clients and the server: nobody, Envoy alone or with our queues as its external processor, or our
//! proxy with and without queues.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tidegate_testbed::free_address;

use crate::net::process::Process;
use crate::net::scratch::Scratch;
use crate::rig;

/// How long a proxy may take to start.
const START: Duration = Duration::from_secs(30);

tidegate_types::named! {
    /// One way to the server.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Contestant {
        Direct = "direct",
        /// Envoy with one worker.
        Envoy = "envoy",
        /// With two.
        EnvoyTwo = "envoy-two",
        /// Envoy with one worker, whose requests and responses wait in our queues (`tidegate ext-proc`).
        EnvoyQueue = "envoy-ext-proc-queue",
        /// The same, with a script that looks at all that waits, for each request.
        EnvoyScript = "envoy-ext-proc-script",
        /// Our proxy, whose messages never wait.
        Off = "tidegate-off",
        Queue = "tidegate-queue",
        /// With queues, and a script that looks at all that waits, for each request.
        Script = "tidegate-script",
        /// The same on two threads; all others run on one.
        ScriptTwo = "tidegate-script-two",
        /// With queues, and the paper's other script: last in, first out.
        Lifo = "tidegate-lifo",
        /// Like the script that looks, for each request and each response.
        Both = "tidegate-both",
    }
}

impl Contestant {
    /// Whether an Envoy takes part.
    pub(super) fn needs_envoy(self) -> bool {
        self.name().starts_with("envoy")
    }

    /// Threads of ours, or Envoy's workers.
    fn threads(self) -> u32 {
        if matches!(self, Contestant::EnvoyTwo | Contestant::ScriptTwo) { 2 } else { 1 }
    }

    /// Starts it in front of `server`; answers with where it listens, and its processes.
    pub(super) async fn start(
        self,
        scratch: &Scratch,
        server: SocketAddr,
    ) -> anyhow::Result<(SocketAddr, Vec<Process>)> {
        let listen = free_address();
        let processes = match self {
            Contestant::Direct => return Ok((server, Vec::new())),
            Contestant::Envoy | Contestant::EnvoyTwo => {
                let file = scratch.file("envoy.yaml", &envoy(listen, server))?;
                vec![rig::envoy::with_file(&file, self.threads()).await?]
            }
            Contestant::EnvoyQueue | Contestant::EnvoyScript => {
                let inner = free_address();
                let file = scratch.file("proxy.toml", &self.tidegate(scratch, inner, server)?)?;
                let processor = start("ext-proc", &file).await?;
                vec![processor, rig::envoy::start(scratch, &file, listen).await?]
            }
            _ => {
                let file = scratch.file("proxy.toml", &self.tidegate(scratch, listen, server)?)?;
                vec![start("proxy", &file).await?]
            }
        };
        Ok((listen, processes))
    }

    fn tidegate(
        self,
        scratch: &Scratch,
        listen: SocketAddr,
        server: SocketAddr,
    ) -> anyhow::Result<String> {
        let mut text = format!(
            "[http]\nlisten = []\n[proxy]\nthreads = {}\n[[proxy.listener]]\nlisten = \"{listen}\"\n\
             [[proxy.upstream]]\nname = \"app\"\nto = [\"{server}\"]\n[[proxy.route]]\n",
            self.threads()
        );
        let entries: &[&str] = match self {
            Contestant::Off => {
                text.push_str("queue = false\n");
                &[]
            }
            Contestant::Script
            | Contestant::ScriptTwo
            | Contestant::EnvoyScript
            | Contestant::Lifo => &["envoy_on_request"],
            Contestant::Both => &["envoy_on_request", "envoy_on_response"],
            _ => &[],
        };
        if !entries.is_empty() {
            let mut script = String::from(if self == Contestant::Lifo { LIFO } else { ITERATE });
            for entry in entries {
                script.push_str(&format!("{entry} = look\n"));
            }
            let file = scratch.file(&format!("{}.luau", self.name()), &script)?;
            let file = file.display().to_string();
            text.push_str(&format!(
                "script = \"iterate\"\n[[script]]\nname = \"iterate\"\nfile = {file:?}\n"
            ));
        }
        Ok(text)
    }
}

/// Starts ours, and waits until it listens.
async fn start(word: &str, file: &Path) -> anyhow::Result<Process> {
    let mut command = Command::new(rig::tidegate_program()?);
    command.args(["--log", "info", word, "-c"]).arg(file);
    let mut process = Process::start("tidegate", command)?;
    process.says("ready", START).await?;
    Ok(process)
}

/// Looks at every message of every queue, as the paper's Fig. 9 does.
const ITERATE: &str = "local function look(h)
  for queue in h:Queues():getQueue() do
    local latency = queue:avgLatency()
    for msg in queue:messages() do
      if latency > 10 and msg:age() > 10000 then msg:drop() end
    end
  end
end
";

/// Puts each message before those that wait.
const LIFO: &str = "local function look(h) h:message():moveToFront() end
";

/// Envoy as a sidecar: one listener, one cluster, no access log.
fn envoy(listen: SocketAddr, server: SocketAddr) -> String {
    let address = |at: SocketAddr| {
        format!("{{socket_address: {{address: {}, port_value: {}}}}}", at.ip(), at.port())
    };
    let (listen, server) = (address(listen), address(server));
    format!(
        "static_resources:
  listeners:
  - address: {listen}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: ingress
          route_config:
            virtual_hosts:
            - name: all
              domains: [\"*\"]
              routes:
              - match: {{prefix: /}}
                route: {{cluster: app}}
          http_filters:
          - name: envoy.filters.http.router
            typed_config:
              \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
  - name: app
    connect_timeout: 2s
    type: STATIC
    load_assignment:
      cluster_name: app
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {server}}}
"
    )
}
