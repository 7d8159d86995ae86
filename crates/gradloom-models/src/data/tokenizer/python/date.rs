//! Dates as formatted by `strftime`.
//!
//! In: a time and a format. Out: a text. Invariant: an unsupported directive is an error.

use super::wrong;
use minijinja::Error;

/// Formats a time in seconds since 1970 (UTC) like `strftime`.
pub(in super::super) fn date(seconds: i64, format: &str) -> Result<String, Error> {
    const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = |year: i64| 365 + i64::from(is_leap(year));
    let (mut year, mut day) = (1970, days);
    while day < 0 || day >= length(year) {
        if day < 0 {
            year -= 1;
            day += length(year);
        } else {
            day -= length(year);
            year += 1;
        }
    }
    let (of_year, mut month) = (day + 1, 0);
    let lengths = [31, 28 + i64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    let (weekday, day) = ((days + 4).rem_euclid(7), day + 1);
    let from_monday = (weekday + 6) % 7;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let hour12 = (hour + 11) % 12 + 1;
    let half = if hour < 12 { "AM" } else { "PM" };
    let (name, month_name) = (DAYS[weekday as usize], MONTHS[month]);
    let month = month as i64 + 1;
    // Determine the week's year: an ISO 8601 week belongs to the year that contains its Thursday.
    let last_weekday = |year: i64| (year + year / 4 - year / 100 + year / 400) % 7;
    let weeks = |year: i64| 52 + i64::from(last_weekday(year) == 4 || last_weekday(year - 1) == 3);
    let (week_year, week) = match (of_year - from_monday + 9) / 7 {
        0 => (year - 1, weeks(year - 1)),
        week if week > weeks(year) => (year + 1, 1),
        week => (year, week),
    };
    let (mut out, mut rest) = (String::new(), format.chars());
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut kind = rest.next().unwrap_or('%');
        let flag = if matches!(kind, '-' | '_' | '^') { Some(kind) } else { None };
        if flag.is_some() {
            kind = rest.next().unwrap_or('%');
        }
        let wide = |number: i64, width: usize, fill: char| match flag {
            Some('-') => number.to_string(),
            Some('_') => format!("{number:width$}"),
            _ if fill == ' ' => format!("{number:width$}"),
            _ => format!("{number:0width$}"),
        };
        let two = |number: i64| wide(number, 2, '0');
        let text = match kind {
            'Y' => year.to_string(),
            'y' => two(year.rem_euclid(100)),
            'C' => two(year / 100),
            'm' => two(month),
            'd' => two(day),
            'e' => wide(day, 2, ' '),
            'H' => two(hour),
            'I' => two(hour12),
            'k' => wide(hour, 2, ' '),
            'l' => wide(hour12, 2, ' '),
            'M' => two(minute),
            'S' => two(second),
            'f' => "000000".to_string(),
            'j' => wide(of_year, 3, '0'),
            'U' => two((of_year + 6 - weekday) / 7),
            'W' => two((of_year + 6 - from_monday) / 7),
            'V' => two(week),
            'G' => week_year.to_string(),
            'g' => two(week_year.rem_euclid(100)),
            'p' => half.to_string(),
            'P' => half.to_lowercase(),
            'A' => name.to_string(),
            'a' => name[..3].to_string(),
            'B' => month_name.to_string(),
            'b' | 'h' => month_name[..3].to_string(),
            'w' => weekday.to_string(),
            'u' => (from_monday + 1).to_string(),
            's' => seconds.to_string(),
            // Write no time zone, as transformers formats a datetime without one.
            'Z' | 'z' => String::new(),
            'F' => format!("{year}-{month:02}-{day:02}"),
            'T' | 'X' => format!("{hour:02}:{minute:02}:{second:02}"),
            'r' => format!("{hour12:02}:{minute:02}:{second:02} {half}"),
            'R' => format!("{hour:02}:{minute:02}"),
            'D' | 'x' => format!("{month:02}/{day:02}/{:02}", year.rem_euclid(100)),
            'c' => {
                let (name, month_name) = (&name[..3], &month_name[..3]);
                format!("{name} {month_name} {day:2} {hour:02}:{minute:02}:{second:02} {year}")
            }
            'n' => "\n".to_string(),
            't' => "\t".to_string(),
            '%' => "%".to_string(),
            other => return Err(wrong(format!("the date format %{other} is not known"))),
        };
        out.push_str(&if flag == Some('^') { text.to_uppercase() } else { text });
    }
    Ok(out)
}
