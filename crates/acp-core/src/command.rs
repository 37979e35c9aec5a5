//! A command line in one string, for configuration files and flags.

/// Splits a command line into its arguments, without a shell.
///
/// The quoting rules are those of the POSIX shell: white space separates; `'…'` is literal; in `"…"` a
/// backslash escapes `"`, `\`, `$`, `` ` `` and a newline; outside of quotes it escapes any character; a
/// `#` at the start of a word begins a comment. Nothing is expanded: no variables, no globs, no `~`, no
/// operators, so `a | b` is three arguments.
///
/// # Errors
///
/// A quote that is not closed, or a string with no argument in it.
///
/// ```
/// let argv = acp_core::split_command(r#"npx "my agent" --acp"#)?;
/// assert_eq!(argv, ["npx", "my agent", "--acp"]);
/// assert!(acp_core::split_command("agent 'open").is_err());
/// # Ok::<(), acp_core::LoadError>(())
/// ```
pub fn split_command(line: &str) -> Result<Vec<String>, crate::LoadError> {
    let argv = shell_words::split(line).map_err(|_| {
        let line = crate::Secrets::default().mask(line).into_owned();
        crate::LoadError::InvalidOptions(format!(
            "the command `{line}` has a quote that is not closed"
        ))
    })?;
    if argv.is_empty() {
        return Err(crate::LoadError::InvalidOptions(
            "the command is empty".to_owned(),
        ));
    }
    Ok(argv)
}
