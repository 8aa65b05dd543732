//! What `docker/` promises, checked without a Docker engine. The image itself is not built.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use tsubaki::dev_cluster::{Client, ProcessGroup, Server, free_port};
use tsubaki_config::{Config, ConfigFile, Overrides, Sources};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The arguments of every `instruction` in the Dockerfile, without flags; lines that go on are joined.
fn dockerfile(instruction: &str) -> Vec<Vec<String>> {
    let text = read("docker/Dockerfile").replace("\\\n", " ");
    let lines = text.lines().filter_map(|line| line.strip_prefix(instruction)?.strip_prefix(' '));
    lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

/// What is copied out of the source tree.
fn copied() -> Vec<String> {
    let from_here =
        dockerfile("COPY").into_iter().filter(|words| !words.iter().any(|w| w.starts_with("--from")));
    from_here
        .flat_map(|mut words| {
            words.pop();
            words.retain(|word| !word.starts_with("--"));
            words
        })
        .collect()
}

fn image_config() -> Config {
    let text = read("docker/tsubaki.toml");
    let file = Some(ConfigFile { path: "docker/tsubaki.toml".to_owned(), text });
    let read_file = |_: &Path| Err(io::Error::from(io::ErrorKind::NotFound));
    let sources = Sources { file, env: BTreeMap::new(), flags: Overrides::default(), read_file: &read_file };
    Config::load(&sources).unwrap()
}

#[test]
fn what_the_image_copies_is_in_the_source_tree_and_in_the_build_context() {
    let ignored = read(".dockerignore");
    let copied = copied();
    assert!(copied.len() > 5, "{copied:?}");
    for path in copied {
        assert!(root().join(&path).exists(), "{path} is copied and does not exist");
        assert!(!ignored.lines().any(|line| line == path), "{path} is copied and ignored");
    }
}

#[test]
fn the_image_is_built_from_every_member_of_the_workspace() {
    let manifest = read("Cargo.toml");
    let members = manifest.lines().find_map(|line| line.strip_prefix("members = [")).unwrap();
    let copied = copied();
    for member in members.trim_end_matches(']').split(',').map(|member| member.trim().trim_matches('"')) {
        let folder = member.split('/').next().unwrap();
        assert!(copied.iter().any(|path| path == folder), "{member} is not copied");
    }
}

#[test]
fn alerts_are_on_metrics_that_the_manual_knows() {
    let (alerts, manual) = (read("docker/alerts.yaml"), read("docs/operations.md"));
    let words = alerts.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let metrics: Vec<&str> = words.filter(|word| word.starts_with("tsubaki_")).collect();
    assert!(metrics.len() >= 6, "{metrics:?}");
    for metric in metrics {
        let name = metric.strip_suffix("_bucket").unwrap_or(metric);
        assert!(manual.contains(&format!("`{name}`")), "{metric}");
    }
}

#[test]
fn the_image_does_not_run_as_root() {
    let users = dockerfile("USER");
    let user = users.last().unwrap().first().unwrap();
    assert!(user.split(':').all(|id| id.parse::<u32>().unwrap() > 0), "{user}");
}

#[test]
fn the_image_stops_and_starts_as_its_command_line_says() {
    assert_eq!(dockerfile("STOPSIGNAL"), [["SIGTERM"]]);
    let start = dockerfile("CMD").pop().unwrap().join(" ");
    assert_eq!(start, r#"["run", "--config", "/etc/tsubaki/tsubaki.toml"]"#);
    let config = dockerfile("COPY").into_iter().find(|words| words.first().unwrap() == "docker/tsubaki.toml");
    assert_eq!(config.unwrap().last().unwrap(), "/etc/tsubaki/tsubaki.toml");
}

#[test]
fn ports_agree_in_configuration_image_compose_file_and_health_check() {
    let config = image_config();
    let clients = config.listen.addresses.first().unwrap().port();
    let admin = config.admin.listen.unwrap().port();

    assert_eq!(dockerfile("EXPOSE"), [[clients.to_string(), admin.to_string()]]);
    let compose = read("docker/compose.yaml");
    for port in [clients, admin] {
        assert!(compose.contains(&format!("\"127.0.0.1:{port}:{port}\"")), "{port} is not published");
    }
    assert!(read("docker/healthcheck.sh").contains(&format!("${{1:-{admin}}}")));
}

#[test]
fn the_configured_seeds_are_services_of_the_compose_file() {
    let compose = read("docker/compose.yaml");
    for seed in image_config().cluster.seeds {
        assert!(compose.contains(&format!("\n  {}: *node\n", seed.host)), "{} is no service", seed.host);
        assert_eq!(seed.port, 6379);
    }
}

#[test]
fn the_files_that_compose_mounts_exist() {
    let compose = read("docker/compose.yaml");
    let mounts: Vec<&str> =
        compose.lines().filter_map(|line| line.trim().strip_prefix("- ./")?.split(':').next()).collect();
    assert_eq!(mounts, ["create-cluster.sh"]);
    assert!(root().join("docker/create-cluster.sh").exists());
}

/// The exit status of the health check when the admin server answers with `status`.
fn health(status: &'static str) -> bool {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let admin = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = String::new();
        let mut lines = BufReader::new(stream.try_clone().unwrap());
        while !request.ends_with("\r\n\r\n") {
            lines.read_line(&mut request).unwrap();
        }
        stream.write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").as_bytes()).unwrap();
        request
    });
    let output = run_script("healthcheck.sh", &[port.to_string()]);
    assert!(admin.join().unwrap().starts_with("GET /health/ready HTTP/1.1\r\n"));
    output.status.success()
}

fn run_script(name: &str, arguments: &[String]) -> Output {
    Command::new(root().join("docker").join(name)).args(arguments).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn the_health_check_tells_ready_from_not_ready() {
    assert!(health("200 OK"));
    assert!(!health("503 Service Unavailable"));
}

#[test]
fn the_health_check_fails_where_nothing_listens() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert!(!run_script("healthcheck.sh", &[port.to_string()]).status.success());
}

/// Six servers that know nothing of each other, as compose starts them.
fn six_strangers(server: &Server, group: &ProcessGroup, dir: &Path) -> Vec<(Child, String)> {
    let start = || {
        let (port, bus) = (free_port().unwrap(), free_port().unwrap());
        let options = format!(
            "--port {port} --cluster-port {bus} --cluster-enabled yes --cluster-config-file {port}.conf \
             --bind 127.0.0.1 --appendonly no"
        );
        let mut command = Command::new(server.path());
        command.args(options.split_whitespace()).args(["--save", ""]).current_dir(dir);
        (group.spawn(command.stdout(Stdio::null())).unwrap(), format!("127.0.0.1:{port}"))
    };
    std::iter::repeat_with(start).take(6).collect()
}

#[test]
fn the_script_makes_one_cluster_of_six_nodes_and_leaves_it_alone_the_second_time() {
    let server = match Server::redis() {
        Ok(server) => server,
        Err(error) if env::var_os("TSUBAKI_REQUIRE_SERVERS").is_some() => panic!("{error}"),
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let dir = tempfile::tempdir().unwrap();
    let group = ProcessGroup::new(None).unwrap();
    let (mut processes, nodes): (Vec<_>, Vec<_>) =
        six_strangers(&server, &group, dir.path()).into_iter().unzip();

    for expected in ["[OK] All 16384 slots covered.", "create-cluster: ok"] {
        let output = run_script("create-cluster.sh", &nodes);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && said.contains(expected), "{said}");
    }
    for node in &nodes {
        let mut client = Client::connect(node.parse().unwrap(), None).unwrap();
        let info = client.call(&["CLUSTER", "INFO"]).unwrap().text().unwrap();
        assert!(info.contains("cluster_known_nodes:6\r\ncluster_size:3\r\n"), "{info}");
    }

    drop(group);
    for process in &mut processes {
        process.wait().unwrap();
    }
}

#[test]
fn the_script_wants_six_nodes() {
    let output = run_script("create-cluster.sh", &["127.0.0.1:1".to_owned()]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("at least six nodes"));
}
