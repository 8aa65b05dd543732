//! [`Resolver`]: turns what was given for a key into the value of its type, or says what is allowed.
//!
//! The structs of the concerns call it, key by key; what each key means and which bounds it has stands there.

use std::fmt;
use std::num::NonZeroU8;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::cpu_list::CpuList;
use crate::error::{ConfigError, Origin};
use crate::raw::{Given, Raw, Value};
use crate::secret::Secret;
use crate::sources::{ReadFile, Sources};

pub(crate) struct Resolver<'a> {
    raw: Raw,
    read_file: ReadFile<'a>,
}

/// A number with or without a unit.
pub(crate) trait Quantity: Copy + PartialOrd + fmt::Display {
    /// How it is written, for error messages.
    const FORM: &'static str;

    fn parse(text: &str) -> Option<Self>;
}

/// One of a few names.
pub(crate) trait Choice: Copy + 'static {
    const ALL: &'static [Self];

    fn name(self) -> &'static str;
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(sources: &Sources<'a>) -> Result<Self, ConfigError> {
        Ok(Self { raw: Raw::new(sources)?, read_file: sources.read_file })
    }

    pub(crate) fn given(&self, key: &'static str) -> Option<&Given> {
        self.raw.find(key)
    }

    /// A quantity within `allowed`, both ends included.
    pub(crate) fn quantity<T: Quantity>(
        &self,
        key: &'static str,
        default: T,
        allowed: RangeInclusive<T>,
    ) -> Result<T, ConfigError> {
        let Some(given) = self.given(key) else { return Ok(default) };
        let parsed = given.value.scalar().and_then(T::parse).filter(|value| allowed.contains(value));
        let form = || format!("{}, from {} to {}", T::FORM, allowed.start(), allowed.end());
        parsed.ok_or_else(|| given.refuse(&given.value, form()))
    }

    pub(crate) fn choice<T: Choice>(&self, key: &'static str, default: T) -> Result<T, ConfigError> {
        let Some(given) = self.given(key) else { return Ok(default) };
        let chosen = T::ALL.iter().copied().find(|choice| given.value.text() == Some(choice.name()));
        let names = || T::ALL.iter().map(|choice| choice.name()).collect::<Vec<_>>().join(", ");
        chosen.ok_or_else(|| given.refuse(&given.value, format!("one of {}", names())))
    }

    /// True or false; in a variable as words.
    pub(crate) fn flag(&self, key: &'static str, default: bool) -> Result<bool, ConfigError> {
        let Some(given) = self.given(key) else { return Ok(default) };
        let flag = match &given.value {
            Value::Boolean(flag) => Some(*flag),
            value => value.text().and_then(|text| text.parse().ok()),
        };
        flag.ok_or_else(|| given.refuse(&given.value, "true or false"))
    }

    /// Numbers of CPUs or nodes, none if none are given.
    pub(crate) fn cpu_list(&self, key: &'static str) -> Result<CpuList, ConfigError> {
        let Some(given) = self.given(key) else { return Ok(CpuList::default()) };
        let list = given.value.scalar().and_then(|text| text.parse().ok());
        list.ok_or_else(|| given.refuse(&given.value, CpuList::FORM))
    }

    /// The path of a folder.
    pub(crate) fn folder(&self, key: &'static str, default: PathBuf) -> Result<PathBuf, ConfigError> {
        let Some(given) = self.given(key) else { return Ok(default) };
        match given.value.text().filter(|text| !text.is_empty()) {
            Some(text) => Ok(beside_config_file(&given.place.origin, text)),
            None => Err(given.refuse(&given.value, "the path of a folder")),
        }
    }

    /// A list that may be empty, which is the same as if it were not given.
    pub(crate) fn list_or_none<T>(
        &self,
        key: &'static str,
        allowed: &'static str,
        parse: fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, ConfigError> {
        match self.given(key).map(|given| &given.value) {
            Some(Value::List(values)) if values.is_empty() => Ok(Vec::new()),
            _ => Ok(self.list(key, allowed, parse)?.unwrap_or_default()),
        }
    }

    /// A list that is not empty; as one text, its items are separated by commas. `None` if it is not given.
    pub(crate) fn list<T>(
        &self,
        key: &'static str,
        allowed: &'static str,
        parse: fn(&str) -> Option<T>,
    ) -> Result<Option<Vec<T>>, ConfigError> {
        let Some(given) = self.given(key) else { return Ok(None) };
        let item =
            |text: &str| parse(text).ok_or_else(|| given.refuse(&Value::Text(text.to_owned()), allowed));
        match &given.value {
            Value::Text(text) => {
                text.split(',').map(|part| item(part.trim())).collect::<Result<_, _>>().map(Some)
            }
            Value::List(values) if !values.is_empty() => values
                .iter()
                .map(|value| value.text().map_or_else(|| Err(given.refuse(value, allowed)), item))
                .collect::<Result<_, _>>()
                .map(Some),
            other => Err(given.refuse(other, allowed)),
        }
    }

    /// A password, given as text or by the name of a file. The last source that has either counts: a
    /// `TSUBAKI_PASSWORD` replaces a `password_file` of the file.
    pub(crate) fn secret(
        &self,
        key: &'static str,
        file_key: &'static str,
    ) -> Result<Option<Secret>, ConfigError> {
        for layer in self.raw.latest_first() {
            match (layer.find(key), layer.find(file_key)) {
                (None, None) => {}
                (Some(text), None) => return secret_text(text).map(Some),
                (None, Some(file)) => return self.secret_file(file).map(Some),
                (Some(text), Some(file)) => {
                    return Err(ConfigError::PasswordTwice {
                        place: text.place.clone(),
                        other: file.place.clone(),
                    });
                }
            }
        }
        Ok(None)
    }

    fn secret_file(&self, given: &Given) -> Result<Secret, ConfigError> {
        let Some(text) = given.value.text().filter(|text| !text.is_empty()) else {
            return Err(given.refuse(&given.value, "the path of a file that holds the password"));
        };
        let path = beside_config_file(&given.place.origin, text);
        let place = given.place.clone();
        match (self.read_file)(&path) {
            Ok(content) => {
                let password = content.trim_end_matches(['\r', '\n']);
                Secret::new(password).ok_or(ConfigError::PasswordFileContent { place, path })
            }
            Err(source) => Err(ConfigError::PasswordFile { place, path, source }),
        }
    }
}

impl Quantity for NonZeroU8 {
    const FORM: &'static str = "a whole number";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Quantity for u16 {
    const FORM: &'static str = "a whole number";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Quantity for u32 {
    const FORM: &'static str = "a whole number";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

fn secret_text(given: &Given) -> Result<Secret, ConfigError> {
    const ALLOWED: &str =
        "a quoted text that is not empty and has no line break; leave the key out for no password";
    let secret = given.value.text().and_then(Secret::new);
    secret.ok_or_else(|| ConfigError::Password { place: given.place.clone(), allowed: ALLOWED })
}

/// A relative path in the configuration file starts at that file; elsewhere at the working directory.
fn beside_config_file(origin: &Origin, path: &str) -> PathBuf {
    match origin {
        Origin::File { path: config, .. } => {
            Path::new(config).parent().map_or_else(|| PathBuf::from(path), |folder| folder.join(path))
        }
        Origin::Env(_) | Origin::Flag(_) => PathBuf::from(path),
    }
}
