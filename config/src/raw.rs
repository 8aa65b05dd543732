//! What the sources give, layer by layer, by known names only: nothing is interpreted yet.

use std::collections::BTreeMap;
use std::fmt;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{ConfigError, Origin, Place};
use crate::settings::{Setting, is_foreign, is_section};
use crate::sources::{ConfigFile, Overrides, Sources};

/// The layers in rising order: file, environment, flags.
pub(crate) struct Raw {
    layers: [Layer; 3],
}

/// What one source gives. A missing key means that the source says nothing about it.
#[derive(Default)]
pub(crate) struct Layer(BTreeMap<&'static str, Given>);

/// One value, and where it was given.
pub(crate) struct Given {
    pub(crate) place: Place,
    pub(crate) value: Value,
}

/// A value as far as its own syntax says.
pub(crate) enum Value {
    /// A string of the file, or what a variable or flag holds.
    Text(String),
    /// A whole number of the file, in decimal.
    Number(String),
    /// A boolean of the file.
    Boolean(bool),
    List(Vec<Self>),
    Table(Vec<(String, Self)>),
    /// Floats and dates, as they were written: no setting takes one.
    Other(String),
}

impl Raw {
    pub(crate) fn new(sources: &Sources<'_>) -> Result<Self, ConfigError> {
        let file = sources.file.as_ref().map(Layer::from_file).transpose()?.unwrap_or_default();
        let env = Layer::from_env(&sources.env)?;
        Ok(Self { layers: [file, env, Layer::from_flags(&sources.flags)] })
    }

    /// What the last layer that has the key says.
    pub(crate) fn find(&self, key: &'static str) -> Option<&Given> {
        self.latest_first().find_map(|layer| layer.find(key))
    }

    pub(crate) fn latest_first(&self) -> impl Iterator<Item = &Layer> {
        self.layers.iter().rev()
    }
}

impl Layer {
    pub(crate) fn find(&self, key: &'static str) -> Option<&Given> {
        debug_assert!(Setting::by_key(key).is_some(), "{key} is not in the table of settings");
        self.0.get(key)
    }

    fn from_file(file: &ConfigFile) -> Result<Self, ConfigError> {
        let table = DeTable::parse(&file.text).map_err(|error| syntax_error(file, &error))?;
        let mut layer = Self::default();
        for (name, value) in table.into_inner() {
            match value.get_ref() {
                DeValue::Table(section) if is_section(name.get_ref()) => {
                    for (key, value) in section {
                        layer.add_from_file(
                            file,
                            &format!("{}.{}", name.get_ref(), key.get_ref()),
                            key,
                            value,
                        )?;
                    }
                }
                _ => layer.add_from_file(file, name.get_ref(), &name, &value)?,
            }
        }
        Ok(layer)
    }

    fn add_from_file<K>(
        &mut self,
        file: &ConfigFile,
        key: &str,
        name: &Spanned<K>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), ConfigError> {
        let (line, _) = position(&file.text, name.span().start);
        let path = file.path.clone();
        let Some(setting) = Setting::by_key(key) else {
            let nearest = Setting::nearest_key(key);
            return Err(ConfigError::UnknownKey { path, line, key: key.to_owned(), nearest });
        };
        self.add(setting, Origin::File { path, line }, Value::from_toml(value.get_ref()));
        Ok(())
    }

    fn from_env(env: &BTreeMap<String, String>) -> Result<Self, ConfigError> {
        let mut layer = Self::default();
        for (name, value) in
            env.iter().filter(|(name, value)| name.starts_with("TSUBAKI_") && !value.is_empty())
        {
            match Setting::by_env(name) {
                Some(setting) => layer.add(setting, Origin::Env(setting.env), Value::Text(value.clone())),
                None if is_foreign(name, value) => {}
                None => {
                    let nearest = Setting::nearest_env(name);
                    return Err(ConfigError::UnknownVariable { name: name.clone(), nearest });
                }
            }
        }
        Ok(layer)
    }

    fn from_flags(flags: &Overrides) -> Self {
        let given = [
            ("listen", &flags.listen),
            ("cluster.seeds", &flags.cluster),
            ("placement.workers", &flags.workers),
            ("admin.listen", &flags.admin),
        ];
        let mut layer = Self::default();
        for (key, value) in given {
            if let (Some(setting), Some(text)) = (Setting::by_key(key), value) {
                let flag = setting.flag.unwrap_or(key);
                layer.add(setting, Origin::Flag(flag), Value::Text(text.clone()));
            }
        }
        layer
    }

    fn add(&mut self, setting: &'static Setting, origin: Origin, value: Value) {
        let place = Place { key: setting.key, origin };
        self.0.insert(setting.key, Given { place, value });
    }
}

impl Given {
    /// The error for `value`, which is this setting's or a part of it.
    pub(crate) fn refuse(&self, value: &Value, allowed: impl Into<String>) -> ConfigError {
        ConfigError::Value { place: self.place.clone(), value: value.to_string(), allowed: allowed.into() }
    }
}

impl Value {
    /// A string: for settings that a bare number would not be understood for.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A string or a whole number.
    pub(crate) fn scalar(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Number(text) => Some(text),
            _ => None,
        }
    }

    fn from_toml(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Self::Text(text.to_string()),
            DeValue::Integer(digits) => match i128::from_str_radix(digits.as_str(), digits.radix()) {
                Ok(number) => Self::Number(number.to_string()),
                Err(_) => Self::Other(digits.to_string()),
            },
            DeValue::Float(float) => Self::Other(float.to_string()),
            DeValue::Boolean(boolean) => Self::Boolean(*boolean),
            DeValue::Datetime(datetime) => Self::Other(datetime.to_string()),
            DeValue::Array(items) => {
                Self::List(items.iter().map(|item| Self::from_toml(item.get_ref())).collect())
            }
            DeValue::Table(table) => Self::Table(
                table
                    .iter()
                    .map(|(key, value)| (key.to_string(), Self::from_toml(value.get_ref())))
                    .collect(),
            ),
        }
    }
}

/// For error messages: quoted, short, and without what may be a password in an address
/// (`redis://user:password@host`).
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 64;
        match self {
            Self::Text(text) => {
                let shown = without_credentials(text);
                match shown.char_indices().nth(LONGEST) {
                    Some((end, _)) => write!(f, "{:?}", format!("{}…", shown.get(..end).unwrap_or_default())),
                    None => write!(f, "{shown:?}"),
                }
            }
            Self::Number(text) | Self::Other(text) => f.write_str(text),
            Self::Boolean(boolean) => boolean.fmt(f),
            Self::List(items) if items.is_empty() => f.write_str("[]"),
            Self::List(_) => f.write_str("[…]"),
            Self::Table(_) => f.write_str("{…}"),
        }
    }
}

fn without_credentials(text: &str) -> String {
    match (text.split_once("://"), text.rsplit_once('@')) {
        (_, Some((_, host))) => format!("…@{host}"),
        (Some((scheme, _)), None) => format!("{scheme}://…"),
        (None, None) => text.to_owned(),
    }
}

/// The parser's own rendering shows the line, which may hold a password: only its reason is kept.
fn syntax_error(file: &ConfigFile, error: &toml::de::Error) -> ConfigError {
    let (line, column) = position(&file.text, error.span().map_or(0, |span| span.start));
    ConfigError::Syntax { path: file.path.clone(), line, column, message: error.message().to_owned() }
}

/// Line and column of a byte offset, both from 1.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}
