//! The processor beside Istio: what to give to `kubectl apply`, from one configuration.
//!
//! The container comes into a pod by Istio's own injection, with the template of
//! `packaging/kubernetes/injection.yaml`: no webhook of ours is needed.

use std::fmt::Write;

use anyhow::Context;

use super::write::{PROCESSOR, filter, indented, processor};
use crate::cli::envoy::EnvoyConfigArguments;
use crate::config::Config;
use crate::services::proxy::envoy::needs::Needs;

/// Where the template mounts the configuration.
const FOLDER: &str = "/etc/tidegate";

/// A ConfigMap with the configuration and its scripts, and an EnvoyFilter.
///
/// # Errors
/// A file cannot be read, or two scripts' files have one name.
pub(super) fn render(
    needs: &Needs,
    config: &Config,
    arguments: &EnvoyConfigArguments,
) -> anyhow::Result<String> {
    let name = &arguments.name;
    let mut text = format!(
        "# `tidegate ext-proc` beside Istio. Written by `tidegate envoy-config --istio`.
# Pods take part that have the label tidegate: {name} and the annotation
# inject.istio.io/templates: sidecar,tidegate (packaging/kubernetes/injection.yaml).
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
data:
"
    );
    let own = std::fs::read_to_string(arguments.file.path())?;
    let mut files: Vec<(String, String)> = Vec::new();
    let mut moved = own;
    for file in config.script.iter().flat_map(|script| script.files()) {
        let base = file.file_name().context("a script is a file")?.to_string_lossy().into_owned();
        let told = file.display().to_string();
        let text = std::fs::read_to_string(file).with_context(|| told.clone())?;
        // The file in the pod has another folder.
        moved = moved.replace(&format!("\"{told}\""), &format!("\"{FOLDER}/{base}\""));
        match files.iter().find(|(known, _)| *known == base) {
            Some((_, known)) if *known == text => continue,
            Some(_) => anyhow::bail!("two scripts' files are called {base:?}: rename one"),
            None => files.push((base, text)),
        }
    }
    files.insert(0, ("proxy.toml".to_owned(), moved));
    for (file, content) in &files {
        let _ = write!(text, "  {file}: |\n{}", indented(content, 4));
    }
    let filter = filter(needs, PROCESSOR, arguments.pass_when_absent, 10);
    let _ = write!(
        text,
        "---
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata:
  name: {name}
spec:
  workloadSelector:
    labels: {{tidegate: {name}}}
  configPatches:
  - applyTo: CLUSTER
    match: {{context: ANY}}
    patch:
      operation: ADD
      value:
{}  - applyTo: HTTP_FILTER
    match:
      context: {}
      listener:
        filterChain:
          filter:
            name: envoy.filters.network.http_connection_manager
            subFilter: {{name: envoy.filters.http.router}}
    patch:
      operation: INSERT_BEFORE
      value:
        name: envoy.filters.http.ext_proc
        typed_config:
{filter}",
        processor(needs, 8),
        arguments.direction.context()
    );
    Ok(text)
}
