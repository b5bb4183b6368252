//! The evaluator's tool.

#![expect(clippy::print_stdout, reason = "a command for people")]

use std::process::ExitCode;

use anyhow::{Context, bail};
use tidegate_lab::bench::{self, hol, ingest};
use tidegate_lab::load::{self, Job};
use tidegate_lab::net::namespace::Link;
use tidegate_lab::net::spinner;
use tidegate_lab::sim;

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words.iter().map(String::as_str).collect::<Vec<_>>()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(words: &[&str]) -> anyhow::Result<()> {
    match words {
        [spinner::COMMAND] => spinner::spin(),
        [load::COMMAND, job] => Job::run(job).await?,
        ["bench", "hol", options @ ..] => {
            let options = hol_options(options)?;
            if let Err(reason) = Link::probe() {
                println!("skipped: {reason}");
                return Ok(());
            }
            let lines = tokio::select! {
                lines = hol::run(options) => lines?,
                stopped = bench::interrupted() => return stopped,
            };
            lines.iter().for_each(|line| println!("{line}"));
        }
        ["bench", "ingest", options @ ..] => {
            let options = ingest_options(options)?;
            let run = tokio::task::spawn_blocking(move || ingest::run(&options));
            run.await??.iter().for_each(|line| println!("{line}"));
        }
        ["sim", words @ ..] => {
            let options = sim::Options::parse(words)?;
            sim::run(&options)?.iter().for_each(|line| println!("{line}"));
        }
        _ => bail!(
            "usage: lab bench hol|ingest [--seconds N] [--drain N] [--runs N] [--only NAME]..."
        ),
    }
    Ok(())
}

fn hol_options(words: &[&str]) -> anyhow::Result<hol::Options> {
    let mut options = hol::Options::default();
    let mut only = Vec::new();
    for pair in words.chunks(2) {
        let [name, value] = pair else { bail!("{} needs a value", pair[0]) };
        let number = || value.parse().with_context(|| format!("{name} needs a number"));
        match *name {
            "--seconds" => options.seconds = number()?,
            "--drain" => options.drain = number()?,
            "--runs" => options.runs = number()?,
            "--only" => {
                let found = hol::Contestant::ALL.into_iter().find(|one| one.name() == *value);
                only.push(found.with_context(|| format!("no contestant is called {value}"))?);
            }
            _ => bail!("unknown option {name}"),
        }
    }
    if !only.is_empty() {
        options.contestants = only;
    }
    Ok(options)
}

fn ingest_options(words: &[&str]) -> anyhow::Result<ingest::Options> {
    let mut options = ingest::Options::new(bench::tidegate_program()?);
    for pair in words.chunks(2) {
        let [name, value] = pair else { bail!("{} needs a value", pair[0]) };
        let number = || value.parse::<usize>().with_context(|| format!("{name} needs a number"));
        match *name {
            "--records" => options.records = number()? as u64,
            "--runs" => options.runs = number()?,
            "--connections" => options.connections = number()?,
            _ => bail!("unknown option {name}"),
        }
    }
    Ok(options)
}
