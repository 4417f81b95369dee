//! The environment variables, read once per process.
//!
//! A value that gridz does not know is an error where there is somebody to tell (dataset creation,
//! the C API); on decode it is only a warning, because a reader must never fail over a typo.

use std::env::{self, VarError};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;

use once_cell::race::OnceBox;

use crate::error::{Error, Result};

/// How much `GRIDZ_LOG` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Only warnings.
    Quiet,
    /// One line per dataset or context.
    Info,
    /// One line per chunk.
    Debug,
}

/// The settings of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `GRIDZ_THREADS`: worker threads; `None` = available cores ÷ local MPI ranks.
    pub threads: Option<usize>,
    /// `GRIDZ_LOG`.
    pub log: LogLevel,
}

/// Most worker threads that can be asked for.
pub const MAX_THREADS: usize = 1024;

const DEFAULT: Settings = Settings { threads: None, log: LogLevel::Quiet };

/// The settings, or why they are not usable.
///
/// # Errors
/// `InvalidArgument` naming the variable, its value and what is allowed.
pub fn checked() -> Result<&'static Settings> {
    // A race cell instead of a lock: a lock held by another thread at the moment of a fork would stay
    // locked in the child for ever.
    static SETTINGS: OnceBox<Result<Settings>> = OnceBox::new();
    SETTINGS.get_or_init(|| Box::new(parse(|name| env::var(name)))).as_ref().map_err(Clone::clone)
}

/// The settings, with the defaults where they are not usable.
pub fn or_default() -> &'static Settings {
    checked().unwrap_or(&DEFAULT)
}

/// Prints one line to stderr if `GRIDZ_LOG` asks for `level`. `line` is built only then.
pub fn log(level: LogLevel, line: impl FnOnce() -> String) {
    if or_default().log >= level {
        print(&line());
    }
}

/// Prints one line to stderr, if that is open. `eprintln!` would panic where it is closed, and would
/// take a lock, which a forked child may find taken for ever.
pub fn print(line: &str) {
    if let Ok(stderr) = std::io::stderr().as_fd().try_clone_to_owned() {
        // One write, so that lines of several processes do not mix.
        let _ = File::from(stderr).write_all(format!("gridz: {line}\n").as_bytes());
    }
}

fn parse(get: impl Fn(&str) -> std::result::Result<String, VarError>) -> Result<Settings> {
    let get = |name: &str| match get(name) {
        Ok(value) => Ok(Some(value).filter(|v| !v.is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(value)) => Err(unknown(name, &value.to_string_lossy(), "plain text")),
    };
    let mut settings = DEFAULT;
    if let Some(value) = get("GRIDZ_THREADS")? {
        let threads = value.parse().ok().filter(|n| (1..=MAX_THREADS).contains(n));
        settings.threads = Some(
            threads
                .ok_or_else(|| unknown("GRIDZ_THREADS", &value, &format!("a number from 1 to {MAX_THREADS}")))?,
        );
    }
    if let Some(value) = get("GRIDZ_LOG")? {
        settings.log = match value.as_str() {
            "info" => LogLevel::Info,
            "debug" => LogLevel::Debug,
            _ => return Err(unknown("GRIDZ_LOG", &value, "info or debug")),
        };
    }
    // There is one back end so far. Who demands another must not get the CPU in silence.
    if let Some(value) = get("GRIDZ_BACKEND")?
        && !matches!(value.as_str(), "auto" | "cpu")
    {
        return Err(unknown("GRIDZ_BACKEND", &value, "auto or cpu (this version has no GPU back end)"));
    }
    Ok(settings)
}

fn unknown(name: &str, value: &str, allowed: &str) -> Error {
    Error::invalid(format!("{name}={value} is not a value gridz knows; use {allowed}, or unset it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(vars: &[(&str, &str)]) -> Result<Settings> {
        parse(|name| {
            let found = vars.iter().find(|(n, _)| *n == name);
            found.map(|(_, v)| (*v).to_owned()).ok_or(VarError::NotPresent)
        })
    }

    #[test]
    fn unset_and_empty_mean_the_defaults() {
        assert_eq!(with(&[]).unwrap(), DEFAULT);
        assert_eq!(with(&[("GRIDZ_THREADS", ""), ("GRIDZ_LOG", "")]).unwrap(), DEFAULT);
    }

    #[test]
    fn known_values_are_taken() {
        let settings = with(&[("GRIDZ_THREADS", "3"), ("GRIDZ_LOG", "debug"), ("GRIDZ_BACKEND", "cpu")]).unwrap();
        assert_eq!(settings, Settings { threads: Some(3), log: LogLevel::Debug });
    }

    #[test]
    fn unknown_values_are_errors_that_name_the_variable() {
        for (name, value) in [
            ("GRIDZ_THREADS", "0"),
            ("GRIDZ_THREADS", "1025"),
            ("GRIDZ_THREADS", "many"),
            ("GRIDZ_LOG", "loud"),
            ("GRIDZ_BACKEND", "cuda"),
        ] {
            let error = with(&[(name, value)]).unwrap_err();
            assert!(error.context().starts_with(&format!("{name}={value} ")), "{error}");
        }
    }
}
