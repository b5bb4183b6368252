//! A RabbitMQ of the test's own: private folders, ports and Erlang port mapper, ended by its own number.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tidegate::keys::url::Host;
use tidegate::output::amqp::AmqpOptions;
use tidegate_testbed::free_port;

use super::certificates::Authority;
use super::{PATIENCE, consumer::Consumer};

/// RabbitMQ's own programs; Debian's wrappers in the path change to the system's user and folders.
const PLACES: [&str; 2] = ["/usr/lib/rabbitmq/bin", "/usr/local/sbin"];

/// See the file's header.
pub(crate) struct Rabbit {
    folder: PathBuf,
    programs: &'static Path,
    pub(crate) port: u16,
    pub(crate) tls_port: u16,
    /// Signed its certificate.
    pub(crate) authority: Authority,
    mapper_port: u16,
    distribution_port: u16,
    mapper: Child,
    broker: Option<Child>,
}

impl Rabbit {
    /// Starts one and waits until it serves; `None`, saying so, where it is not installed.
    pub(crate) async fn start() -> Option<Rabbit> {
        let find = |place: &&&str| Path::new(place).join("rabbitmq-server").is_file();
        let Some(programs) = PLACES.iter().find(find).map(Path::new) else {
            println!("skipped: needs rabbitmq-server, not found");
            return None;
        };
        let mapper_port = free_port();
        let mapper = Command::new("epmd")
            .args(["-port", &mapper_port.to_string(), "-address", "127.0.0.1"])
            .stdin(Stdio::null())
            .spawn();
        let Ok(mapper) = mapper else {
            println!("skipped: needs epmd, not found");
            return None;
        };
        let folder = std::env::temp_dir().join(format!("tidegate-rabbit-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let port = free_port();
        let (tls_port, authority) = (free_port(), Authority::new("rabbit"));
        let own = authority.issue("rabbit");
        let settings = format!(
            "listeners.tcp.1 = 127.0.0.1:{port}\nlisteners.tcp.2 = ::1:{port}\n\
             listeners.ssl.1 = 127.0.0.1:{tls_port}\nssl_options.cacertfile = {}\n\
             ssl_options.certfile = {}\nssl_options.keyfile = {}\n\
             ssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true\n\
             log.console = true\nlog.file = false\ndisk_free_limit.absolute = 1MB\n",
            authority.ca().display(),
            own.certificate.display(),
            own.key.display()
        );
        std::fs::write(folder.join("rabbitmq.conf"), settings).unwrap();
        std::fs::write(folder.join("enabled_plugins"), "[].\n").unwrap();
        let distribution_port = free_port();
        let mut rabbit = Rabbit {
            folder,
            programs,
            port,
            tls_port,
            authority,
            mapper_port,
            distribution_port,
            mapper,
            broker: None,
        };
        rabbit.serve().await;
        Some(rabbit)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command
            .env("HOME", &self.folder)
            .env("ERL_EPMD_PORT", self.mapper_port.to_string())
            .env("RABBITMQ_DIST_PORT", self.distribution_port.to_string())
            .env("RABBITMQ_NODENAME", format!("test-{}@localhost", self.port))
            .env("RABBITMQ_CONFIG_FILE", self.folder.join("rabbitmq.conf"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", self.folder.join("enabled_plugins"))
            .env("RABBITMQ_MNESIA_BASE", self.folder.join("mnesia"))
            .env("RABBITMQ_LOG_BASE", self.folder.join("log"))
            .env("RABBITMQ_PID_FILE", self.folder.join("pid"))
            .env("RABBITMQ_GENERATED_CONFIG_DIR", self.folder.join("config"))
            // Its schedulers spin while idle, which would take CPU from the other tests.
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "+sbwt none +sbwtdcpu none +sbwtdio none")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    /// Starts the broker on its folders and waits until it lets a client in.
    pub(crate) async fn serve(&mut self) {
        use std::os::unix::process::CommandExt;
        // A group of its own: the script's children end with it.
        let broker = self.command("rabbitmq-server").process_group(0).spawn().unwrap();
        self.broker = Some(broker);
        let start = Instant::now();
        while Consumer::connect(self.port).await.is_none() {
            assert!(start.elapsed() < PATIENCE, "RabbitMQ does not start");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Ends the broker as a power loss would.
    pub(crate) fn kill(&mut self) {
        if let Some(mut broker) = self.broker.take() {
            let group = format!("-{}", broker.id());
            let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
            let _ = broker.wait();
        }
    }

    /// Runs `rabbitmqctl`.
    pub(crate) fn control(&self, arguments: &[&str]) {
        let status = self.command("rabbitmqctl").args(arguments).status().unwrap();
        assert!(status.success(), "rabbitmqctl {arguments:?}: {status}");
    }

    /// Options for an output to this broker.
    pub(crate) fn options(&self) -> AmqpOptions {
        AmqpOptions {
            hosts: vec![Host::new("localhost", self.port)],
            tls: None,
            virtual_host: "/".into(),
            user: "guest".into(),
            password: "guest".into(),
            exchange: "amq.topic".into(),
            routing_key: "{topic}".into(),
            persistent: true,
            classes: ["ls".into(), "lt".into()].into(),
        }
    }
}

impl Drop for Rabbit {
    fn drop(&mut self) {
        self.kill();
        let _ = self.mapper.kill();
        let _ = self.mapper.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
