pub(crate) fn run(_: crate::config::Config) -> anyhow::Result<std::process::ExitCode> {
    anyhow::bail!("to be built")
}
