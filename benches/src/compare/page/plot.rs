//! The plots of a page: for each cell, one row a subject.
//!
//! Must not know: what a figure means beyond its axis.

use anyhow::anyhow;
use plotters::{
    coord::Shift,
    prelude::{
        Circle, Color as _, DrawingArea, IntoDrawingArea as _, IntoFont as _, PathElement, RGBColor,
        Rectangle, SVGBackend, Text,
    },
};

use crate::compare::{
    goal::least_throughput,
    record::CellResults,
    subject::{DIRECT, TSUBAKI, names},
    summary::Row,
};

/// All lengths are pixels.
const WIDTH: i32 = 1000;
const LEFT: i32 = 100;
const RIGHT: i32 = 870;
const ROW: i32 = 17;
const TITLE: i32 = 26;

const INK: RGBColor = RGBColor(34, 34, 34);
const FAINT: RGBColor = RGBColor(205, 205, 205);
const OWN: RGBColor = RGBColor(194, 24, 91);
const OTHER: RGBColor = RGBColor(148, 170, 186);
const NODES: RGBColor = RGBColor(74, 127, 181);
const GOAL: RGBColor = RGBColor(27, 127, 59);

/// The scale of ratios; a cell with greater ones, as where the nodes are the bottleneck, has one of its own.
const RATIOS: f64 = 2.0;

/// The decades of the latency axis, in milliseconds.
const DECADES: [&str; 7] = ["0.01", "0.1", "1", "10", "100", "1000", "10000 ms"];

/// The least latency on that axis.
const LEAST_MS: f64 = 0.01;

/// Bars of throughput as a multiple of direct's.
///
/// # Errors
/// If it cannot be drawn.
pub fn throughput(cells: &[CellResults]) -> anyhow::Result<String> {
    let greatest = |cell: &CellResults| {
        let ratios = rows(cell).into_iter().filter_map(|(_, row)| row.to_direct);
        ratios.chain(least_throughput(&cell.name)).fold(RATIOS, f64::max)
    };
    draw(
        cells,
        &[],
        |name, row| name != DIRECT && row.to_direct.is_some(),
        |sheet, cell, name, row, y| {
            let (most, ratio) = (greatest(cell), row.to_direct.unwrap_or_default());
            sheet.bar(0.0, ratio / most, y, if name == TSUBAKI { OWN } else { OTHER })?;
            sheet.line(1.0 / most, y, FAINT, 1)?;
            if let Some(goal) = least_throughput(&cell.name).filter(|_| name == TSUBAKI) {
                sheet.line(goal / most, y, GOAL, 3)?;
            }
            sheet.value(&format!("{ratio:.2}"), y)
        },
    )
}

/// Dots on a logarithmic axis.
///
/// # Errors
/// If it cannot be drawn.
pub fn latency(cells: &[CellResults]) -> anyhow::Result<String> {
    let decades = (DECADES.len() - 1) as f64;
    let place = |ms: f64| (ms / LEAST_MS).log10() / decades;
    draw(
        cells,
        &DECADES,
        |_, _| true,
        |sheet, _, name, row, y| {
            for decade in 0..DECADES.len() {
                sheet.line(decade as f64 / decades, y, FAINT, 1)?;
            }
            let colour = if name == TSUBAKI { OWN } else { OTHER };
            for (ms, size) in [(Some(row.p50_ms), 5), (Some(row.p99_ms), 4), (row.p999_ms, 2)] {
                if let Some(ms) = ms {
                    sheet.dot(place(ms), y, size, colour)?;
                }
            }
            let last = row.p999_ms.map_or_else(String::new, |ms| format!(" / {ms:.2}"));
            sheet.value(&format!("{:.2} / {:.2}{last}", row.p50_ms, row.p99_ms), y)
        },
    )
}

/// Stacked bars; those of one cell share a scale.
///
/// # Errors
/// If it cannot be drawn.
pub fn cpu(cells: &[CellResults]) -> anyhow::Result<String> {
    let parts =
        |row: &Row| [(row.proxy_us.unwrap_or_default(), OWN), (row.nodes_us, NODES), (row.load_us, FAINT)];
    let sum = |row: &Row| parts(row).iter().map(|(us, _)| us).sum::<f64>();
    draw(
        cells,
        &[],
        |_, _| true,
        |sheet, cell, _, row, y| {
            let most = rows(cell).iter().map(|(_, row)| sum(row)).fold(f64::MIN_POSITIVE, f64::max);
            let mut from = 0.0;
            for (us, colour) in parts(row) {
                sheet.bar(from / most, (from + us) / most, y, colour)?;
                from += us;
            }
            let [proxy, nodes, load] = parts(row).map(|(us, _)| us);
            sheet.value(&format!("{proxy:.1} + {nodes:.1} + {load:.1}"), y)
        },
    )
}

fn rows(cell: &CellResults) -> Vec<(&'static str, Row)> {
    names().into_iter().filter_map(|name| Some((name, Row::of(cell, name)?))).collect()
}

/// Draws the axis, if it has labels, and every row that `shown` picks, under its cell's title.
fn draw(
    cells: &[CellResults],
    axis: &[&str],
    shown: impl Fn(&str, &Row) -> bool,
    row: impl Fn(&Sheet<'_>, &CellResults, &str, &Row, i32) -> anyhow::Result<()>,
) -> anyhow::Result<String> {
    let picked: Vec<_> = cells
        .iter()
        .map(|cell| (cell, rows(cell).into_iter().filter(|(name, row)| shown(name, row)).collect::<Vec<_>>()))
        .filter(|(_, rows)| !rows.is_empty())
        .collect();
    let rows: i32 = picked.iter().map(|(_, rows)| TITLE + ROW * rows.len() as i32).sum();
    let size = (WIDTH as u32, (ROW + rows) as u32);
    let mut svg = String::new();
    {
        let sheet = Sheet { area: SVGBackend::with_string(&mut svg, size).into_drawing_area() };
        for (index, label) in axis.iter().enumerate() {
            sheet.text(label, at(index as f64 / (axis.len() - 1) as f64) - 8, 3, 12)?;
        }
        let mut y = ROW;
        for (cell, rows) in &picked {
            sheet.text(&cell.title, 0, y + 9, 13)?;
            y += TITLE;
            for (name, figures) in rows {
                sheet.text(name, 8, y + 3, 12)?;
                row(&sheet, cell, name, figures, y)?;
                y += ROW;
            }
        }
        sheet.area.present().map_err(|error| anyhow!("cannot draw: {error}"))?;
    }
    Ok(svg)
}

/// The paper; what is drawn stands in the row that begins at `y`, at shares of the axis from 0 to 1.
struct Sheet<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
}

impl Sheet<'_> {
    fn bar(&self, from: f64, to: f64, y: i32, colour: RGBColor) -> anyhow::Result<()> {
        let bar = Rectangle::new([(at(from), y + 2), (at(to), y + ROW - 2)], colour.filled());
        self.area.draw(&bar).map_err(|error| anyhow!("cannot draw: {error}"))
    }

    fn line(&self, place: f64, y: i32, colour: RGBColor, width: u32) -> anyhow::Result<()> {
        let line = PathElement::new([(at(place), y), (at(place), y + ROW)], colour.stroke_width(width));
        self.area.draw(&line).map_err(|error| anyhow!("cannot draw: {error}"))
    }

    fn dot(&self, place: f64, y: i32, size: i32, colour: RGBColor) -> anyhow::Result<()> {
        let dot = Circle::new((at(place), y + ROW / 2), size, colour.filled());
        self.area.draw(&dot).map_err(|error| anyhow!("cannot draw: {error}"))
    }

    fn value(&self, text: &str, y: i32) -> anyhow::Result<()> {
        self.text(text, RIGHT + 8, y + 3, 12)
    }

    fn text(&self, text: &str, x: i32, y: i32, size: i32) -> anyhow::Result<()> {
        let text = Text::new(text.to_owned(), (x, y), ("sans-serif", size).into_font().color(&INK));
        self.area.draw(&text).map_err(|error| anyhow!("cannot draw: {error}"))
    }
}

fn at(share: f64) -> i32 {
    LEFT + (f64::from(RIGHT - LEFT) * share.clamp(0.0, 1.0)) as i32
}
