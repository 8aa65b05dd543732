//! A strict reader of Prometheus' text format, version 0.0.4: what a scraper may refuse or misread, it refuses.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// One metric with all its series.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) kind: Kind,
    /// Values by the sample's name and labels as they stand on the page.
    pub(crate) samples: BTreeMap<String, f64>,
}

/// The families of a page by name.
///
/// # Errors
///
/// What is wrong with it.
pub(crate) fn read(page: &str) -> Result<BTreeMap<String, Family>, String> {
    let mut families = BTreeMap::new();
    let mut helped: BTreeSet<String> = BTreeSet::new();
    let mut current: Option<String> = None;
    if !page.ends_with('\n') {
        return Err("the last line has no end".to_owned());
    }
    for line in page.lines().filter(|line| !line.is_empty()) {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, text) = rest.split_once(' ').ok_or_else(|| format!("no help text: {line}"))?;
            if text.is_empty() || !helped.insert(name.to_owned()) {
                return Err(format!("no help text, or a second one: {line}"));
            }
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or_else(|| format!("no type: {line}"))?;
            let family = Family { kind: read_kind(name, kind)?, samples: BTreeMap::new() };
            if !helped.contains(name) || families.insert(name.to_owned(), family).is_some() {
                return Err(format!("a type without help before it, or a second one: {line}"));
            }
            current = Some(name.to_owned());
        } else {
            let (series, value) = line.rsplit_once(' ').ok_or_else(|| format!("no value: {line}"))?;
            let name = current.as_ref().ok_or_else(|| format!("no family before {line}"))?;
            let family = families.get_mut(name).ok_or_else(|| format!("no family before {line}"))?;
            check_series(name, family.kind, series)?;
            let value = value.parse().map_err(|_| format!("no number: {line}"))?;
            if family.samples.insert(series.to_owned(), value).is_some() {
                return Err(format!("a second sample of {series}"));
            }
        }
    }
    for (name, family) in &families {
        check_values(name, family)?;
    }
    Ok(families)
}

fn read_kind(name: &str, kind: &str) -> Result<Kind, String> {
    if !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') {
        return Err(format!("an odd name: {name}"));
    }
    match (kind, name.ends_with("_total")) {
        ("counter", true) => Ok(Kind::Counter),
        ("gauge", false) => Ok(Kind::Gauge),
        ("histogram", false) => Ok(Kind::Histogram),
        _ => Err(format!("{name} cannot be a {kind}: counters, and only they, end in _total")),
    }
}

/// Whether a sample belongs to the family, and its labels are well-formed.
fn check_series(family: &str, kind: Kind, series: &str) -> Result<(), String> {
    let wrong = || format!("{series} is no sample of {family}");
    let rest = series.strip_prefix(family).ok_or_else(wrong)?;
    let suffix = rest.split('{').next().unwrap_or(rest);
    let fits = match kind {
        Kind::Counter | Kind::Gauge => suffix.is_empty(),
        Kind::Histogram => ["_bucket", "_sum", "_count"].contains(&suffix),
    };
    let names: Vec<String> = labels(series)?.into_keys().collect();
    let has_bound = names.iter().any(|name| name == "le");
    if fits && has_bound == (suffix == "_bucket") { Ok(()) } else { Err(wrong()) }
}

/// The labels of a series; none of the proxy's values needs an escape.
pub(crate) fn labels(series: &str) -> Result<BTreeMap<String, String>, String> {
    let wrong = || format!("odd labels: {series}");
    let Some((_, rest)) = series.split_once('{') else { return Ok(BTreeMap::new()) };
    let mut labels = BTreeMap::new();
    for label in rest.strip_suffix('}').ok_or_else(wrong)?.split(',') {
        let (name, value) = label.split_once('=').ok_or_else(wrong)?;
        let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).ok_or_else(wrong)?;
        let plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        if name.is_empty()
            || !plain
            || value.contains(['"', '\\'])
            || labels.insert(name.to_owned(), value.to_owned()).is_some()
        {
            return Err(wrong());
        }
    }
    Ok(labels)
}

fn check_values(name: &str, family: &Family) -> Result<(), String> {
    if family.samples.is_empty() {
        return Err(format!("{name} has no sample"));
    }
    if let Some((series, value)) =
        family.samples.iter().find(|(_, value)| !value.is_finite() || **value < 0.0)
    {
        return Err(format!("{series} is {value}"));
    }
    if family.kind != Kind::Histogram {
        return Ok(());
    }
    let mut workers = BTreeSet::new();
    for series in family.samples.keys() {
        workers.insert(labels(series)?.get("worker").cloned().ok_or_else(|| format!("no worker: {series}"))?);
    }
    workers.iter().try_for_each(|worker| check_histogram(name, worker, family))
}

/// The buckets of one histogram only grow, and the last is its count.
fn check_histogram(name: &str, worker: &str, family: &Family) -> Result<(), String> {
    let mut buckets = Vec::new();
    for (series, value) in &family.samples {
        let labels = labels(series)?;
        if let (Some(bound), true) = (labels.get("le"), labels.get("worker").is_some_and(|of| of == worker)) {
            let bound: f64 = bound.parse().map_err(|_| format!("no bound: {series}"))?;
            buckets.push((bound, *value));
        }
    }
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    let of = |suffix: &str| family.samples.get(&format!("{name}{suffix}{{worker=\"{worker}\"}}")).copied();
    let (Some(sum), Some(count)) = (of("_sum"), of("_count")) else {
        return Err(format!("{name} of worker {worker} has no sum or no count"));
    };
    let grows = buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1);
    let ends = buckets.last().is_some_and(|(bound, value)| bound.is_infinite() && *value == count);
    if grows && ends && (sum > 0.0) == (count > 0.0) {
        Ok(())
    } else {
        Err(format!("{name} of worker {worker}: {buckets:?}, sum {sum}, count {count}"))
    }
}

#[test]
fn what_a_scraper_would_misread_is_refused() {
    const GOOD: &str = "# HELP a_total A.\n# TYPE a_total counter\na_total{worker=\"0\"} 1\n\
                        # HELP h H.\n# TYPE h histogram\nh_bucket{worker=\"0\",le=\"1\"} 1\n\
                        h_bucket{worker=\"0\",le=\"+Inf\"} 2\nh_sum{worker=\"0\"} 5\nh_count{worker=\"0\"} 2\n";
    assert_eq!(read(GOOD).map(|families| families.len()), Ok(2));
    for (part, instead) in [
        ("# HELP a_total A.\n", ""),
        ("# TYPE a_total counter\n", ""),
        ("# TYPE a_total counter\n", "# TYPE a_total counter\n# TYPE a_total counter\n"),
        ("a_total counter", "a_total gauge"),
        ("a_total", "a"),
        ("a_total{worker=\"0\"} 1\n", ""),
        ("a_total{worker=\"0\"} 1\n", "a_total{worker=\"0\"} 1\na_total{worker=\"0\"} 1\n"),
        ("a_total{worker=\"0\"} 1", "a_total{worker=\"0\"} -1"),
        ("a_total{worker=\"0\"} 1", "a_total{worker=\"0\"} one"),
        ("a_total{worker=\"0\"}", "a_total{worker=0}"),
        ("a_total{worker=\"0\"}", "b_total{worker=\"0\"}"),
        ("le=\"1\"} 1", "le=\"1\"} 3"),
        ("h_count{worker=\"0\"} 2", "h_count{worker=\"0\"} 3"),
        ("h_sum{worker=\"0\"} 5\n", ""),
        ("h_bucket{worker=\"0\",le=\"+Inf\"} 2\n", ""),
        ("h_count{worker=\"0\"} 2\n", "h_count{worker=\"0\"} 2"),
    ] {
        let page = GOOD.replace(part, instead);
        assert_ne!(page, GOOD);
        assert!(read(&page).is_err(), "{page}");
    }
}
