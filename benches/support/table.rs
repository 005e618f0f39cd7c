//! Numbers and tables as they are printed.

/// Three significant digits.
pub(crate) fn number(value: f64) -> String {
    let decimals = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else if value >= 0.1 {
        2
    } else {
        4
    };
    format!("{value:.decimals$}")
}

/// A Markdown table that is also readable as it is.
pub(crate) fn print_table<const N: usize>(head: [&str; N], lines: impl IntoIterator<Item = [String; N]>) {
    let lines: Vec<[String; N]> = std::iter::once(head.map(str::to_owned)).chain(lines).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let print = |cells: &[String; N]| {
        let padded = cells.iter().zip(widths).map(|(cell, width)| format!(" {cell:<width$} "));
        println!("|{}|", padded.collect::<Vec<_>>().join("|"));
    };
    for (index, line) in lines.iter().enumerate() {
        print(line);
        if index == 0 {
            print(&widths.map(|width| "-".repeat(width)));
        }
    }
}
