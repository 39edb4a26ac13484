//! The command behind `make cycles`, which prints import cycles, and `make wrap`, which wraps comments.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::{Parser, Subcommand};
use tollgate_tidy::{
    graph::Names,
    rules,
    workspace::{self, Imports},
    wrap::wrapped,
};

/// Reads the source of the workspace.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Prints the import cycles of each crate.
    Cycles {
        /// Prints only the cycles of this crate.
        #[arg(long = "crate", value_name = "NAME")]
        name: Option<String>,
        /// Also prints each import inside of a cycle: file -> file: names (lines).
        #[arg(long)]
        edges: bool,
        /// Also prints imports whose removal leaves no cycle.
        #[arg(long)]
        cut: bool,
        /// Compares the modules that the root of a crate declares instead of files.
        #[arg(long)]
        modules: bool,
    },
    /// Wraps the comments of source files that are too wide.
    Wrap {
        /// Rust files, and folders with Rust files.
        #[arg(required = true)]
        paths: Vec<PathBuf>,
    },
    /// Prints the imports of each file of a crate.
    Imports {
        #[arg(long = "crate", value_name = "NAME")]
        name: String,
        /// Prints only the imports of files whose path contains this text.
        #[arg(long, default_value = "")]
        file: String,
    },
}

fn main() -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match Cli::parse().command {
        Command::Cycles { name, edges, cut, modules } => {
            for imports in read(name.as_deref())? {
                let imports = if modules { imports.of_modules() } else { imports };
                print_cycles(&mut out, &imports, edges, cut)?;
            }
        }
        Command::Wrap { paths } => wrap_files(&mut out, &paths)?,
        Command::Imports { name, file } => {
            for imports in read(Some(&name))? {
                print_imports(&mut out, &imports, &file)?;
            }
        }
    }
    Ok(())
}

/// Wraps the tracked Rust files that are, or are below, the paths.
fn wrap_files(out: &mut impl Write, paths: &[PathBuf]) -> anyhow::Result<()> {
    let root = workspace::root();
    let is_meant = |file: &Path| paths.iter().any(|path| file.starts_with(path));
    let files = rules::tracked(&root)?.into_iter();
    for file in files.filter(|file| file.extension().is_some_and(|end| end == "rs") && is_meant(file)) {
        if let Some(text) = wrapped(&fs::read_to_string(root.join(&file))?) {
            fs::write(root.join(&file), text)?;
            writeln!(out, "{}", file.display())?;
        }
    }
    Ok(())
}

/// The imports of all crates, or of one.
fn read(name: Option<&str>) -> anyhow::Result<Vec<Imports>> {
    let crates = workspace::crates(&workspace::root())?;
    let mut read = Vec::new();
    for one in crates.iter().filter(|one| name.is_none_or(|name| name == one.name)) {
        read.extend(one.imports()?);
    }
    if read.is_empty() {
        bail!("unknown crate {}: allowed is the name of a crate of the workspace", name.unwrap_or_default());
    }
    Ok(read)
}

fn print_cycles(out: &mut impl Write, imports: &Imports, edges: bool, cut: bool) -> std::io::Result<()> {
    let cycles = imports.graph.cycles();
    let nodes = if imports.files.iter().any(|file| file.ends_with(".rs")) { "files" } else { "modules" };
    let sizes = cycles.iter().map(|cycle| cycle.len().to_string()).collect::<Vec<_>>();
    let told =
        if sizes.is_empty() { "no cycle".to_owned() } else { format!("cycles of {}", sizes.join(", ")) };
    writeln!(out, "{}: {} {nodes}, {told}", imports.name, imports.files.len())?;
    for cycle in cycles {
        let mut names = cycle.iter().map(|&file| imports.files[file].as_str()).collect::<Vec<_>>();
        names.sort_unstable();
        writeln!(out, "  {} {nodes}: {}", cycle.len(), names.join(" "))?;
        if edges {
            for (from, to, names) in imports.graph.within(&cycle) {
                print_edge(out, imports, from, to, names)?;
            }
        }
        if cut {
            let edges = imports.graph.cut(&cycle);
            writeln!(out, "  cut {} imports:", edges.len())?;
            for (from, to) in edges {
                print_edge(out, imports, from, to, &imports.graph.from(from)[&to])?;
            }
        }
    }
    Ok(())
}

fn print_imports(out: &mut impl Write, imports: &Imports, file: &str) -> std::io::Result<()> {
    for from in (0..imports.files.len()).filter(|&from| imports.files[from].contains(file)) {
        for (&to, names) in imports.graph.from(from) {
            print_edge(out, imports, from, to, names)?;
        }
    }
    Ok(())
}

fn print_edge(
    out: &mut impl Write,
    imports: &Imports,
    from: usize,
    to: usize,
    names: &Names,
) -> std::io::Result<()> {
    let names = names.iter().map(|(name, lines)| {
        // The imports of modules have no lines.
        let lines = lines.iter().filter(|line| **line > 0).map(usize::to_string).collect::<Vec<_>>();
        if lines.is_empty() { name.clone() } else { format!("{name} ({})", lines.join(" ")) }
    });
    let names = names.collect::<Vec<_>>().join(", ");
    writeln!(out, "    {} -> {}: {names}", imports.files[from], imports.files[to])
}
