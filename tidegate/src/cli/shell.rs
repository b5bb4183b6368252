//! `tidegate completions` and `tidegate man`: what shells and `man` know of the commands, from their definition.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, ValueEnum};
use clap_complete::{Generator, Shell, generate};
use clap_mangen::Man;

/// Shells whose completions are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompletedShell {
    /// GNU Bash, with bash-completion
    Bash,
    /// Z shell
    Zsh,
    /// Friendly interactive shell
    Fish,
}

/// Arguments of `completions`.
#[derive(Clone, Debug, Args)]
pub struct CompletionsArguments {
    /// The shell
    pub shell: CompletedShell,
}

/// Arguments of `man`.
#[derive(Clone, Debug, Args)]
pub struct ManArguments {
    /// Where to write a page for each command; it is made if it is not there
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
}

pub(super) const COMPLETIONS_HELP: &str = "\
Packages bring these files. By hand:
  tidegate completions bash > ~/.local/share/bash-completion/completions/tidegate
  tidegate completions zsh > ~/.zfunc/_tidegate            with fpath+=~/.zfunc before compinit
  tidegate completions fish > ~/.config/fish/completions/tidegate.fish";

pub(super) const MAN_HELP: &str = "\
Packages bring these files. By hand:
  tidegate man ~/.local/share/man/man1 && man tidegate-check";

/// Prints completions of the program's commands.
///
/// # Errors
/// Nobody reads any more.
pub fn completions(
    arguments: &CompletionsArguments,
    program: clap::Command,
) -> anyhow::Result<ExitCode> {
    let shell = match arguments.shell {
        CompletedShell::Bash => Shell::Bash,
        CompletedShell::Zsh => Shell::Zsh,
        CompletedShell::Fish => Shell::Fish,
    };
    io::stdout().write_all(&completed(shell, program))?;
    Ok(ExitCode::SUCCESS)
}

/// The generator writes at once, and panics where it cannot: so into memory.
fn completed(shell: impl Generator, mut program: clap::Command) -> Vec<u8> {
    let mut text = Vec::new();
    generate(shell, &mut program, "tidegate", &mut text);
    text
}

/// Writes a page for each command and those below it.
///
/// # Errors
/// The folder cannot be written to.
pub fn man(arguments: &ManArguments, program: clap::Command) -> anyhow::Result<ExitCode> {
    let folder = &arguments.folder;
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let pages = pages(program)?;
    for (name, text) in &pages {
        let file = folder.join(name);
        std::fs::write(&file, text).with_context(|| file.display().to_string())?;
    }
    writeln!(io::stdout(), "{}: {} pages", folder.display(), pages.len())?;
    Ok(ExitCode::SUCCESS)
}

/// Every page, by its file's name.
fn pages(program: clap::Command) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut root = program.disable_help_subcommand(true);
    // Options of all commands are told once more in each page, as `--help` does.
    root.build();
    let mut pages = Vec::new();
    page(&root, "tidegate", &mut pages)?;
    Ok(pages)
}

fn page(
    command: &clap::Command,
    name: &str,
    pages: &mut Vec<(String, Vec<u8>)>,
) -> anyhow::Result<()> {
    let mut text = Vec::new();
    let own = command.clone().display_name(name.to_owned());
    let title = name.to_uppercase();
    // The date of a page is that of the package: the same commit gives the same bytes.
    Man::new(own).title(title).manual("Tidegate").render(&mut text)?;
    pages.push((format!("{name}.1"), text));
    for inner in command.get_subcommands() {
        page(inner, &format!("{name}-{}", inner.get_name()), pages)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_command_is_completed_and_has_a_page() {
        let shells =
            [Shell::Bash, Shell::Zsh, Shell::Fish].map(|shell| completed(shell, Cli::command()));
        let pages = pages(Cli::command()).unwrap();
        let mut seen = 0;
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            for text in &shells {
                assert!(String::from_utf8_lossy(text).contains(name), "{name} is not completed");
            }
            let page = pages.iter().find(|(file, _)| *file == format!("tidegate-{name}.1"));
            let text = String::from_utf8_lossy(&page.expect("a page for each command").1);
            assert!(text.contains(".SH NAME") && text.contains(".SH OPTIONS"), "{text}");
            seen += 1;
        }
        assert!(seen > 20);
        assert!(pages.iter().any(|(name, _)| name == "tidegate-log-cat.1"));
        assert!(pages.iter().all(|(_, text)| !text.is_empty()));
    }
}
