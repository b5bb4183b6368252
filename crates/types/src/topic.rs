//! MQTT topic filters: parsing and matching (MQTT 5.0, section 4.7).

use crate::limits::TOPIC_LEVELS_MAX;

/// A checked topic filter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Filter {
    /// Its levels are read from it: kept one by one they would take many times as much.
    text: Box<str>,
}

/// One level of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterLevel<'a> {
    /// A level of exactly this text.
    Exact(&'a str),
    /// `+`.
    One,
    /// `#`, always the last one.
    Rest,
}

impl<'a> FilterLevel<'a> {
    /// A level of a filter that is checked.
    fn of(part: &'a str) -> Self {
        match part {
            "#" => FilterLevel::Rest,
            "+" => FilterLevel::One,
            exact => FilterLevel::Exact(exact),
        }
    }
}

/// Why a text is no topic filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// Nothing.
    #[error("a topic filter is not empty")]
    Empty,
    /// `#` before the end, or beside other characters.
    #[error("in {0:?}, # must be the whole last level, as in a/b/#")]
    Rest(String),
    /// `+` beside other characters.
    #[error("in {0:?}, + must be a whole level, as in a/+/b")]
    One(String),
    /// A NUL character.
    #[error("{0:?} has a NUL character")]
    Nul(String),
    /// More than `TOPIC_LEVELS_MAX`.
    #[error("more than {TOPIC_LEVELS_MAX} levels")]
    TooDeep,
}

impl Filter {
    /// Parses a filter such as `factory/+/plc/#`.
    ///
    /// # Errors
    /// See [`FilterError`].
    pub fn new(text: &str) -> Result<Self, FilterError> {
        if text.is_empty() {
            return Err(FilterError::Empty);
        }
        if text.contains('\0') {
            return Err(FilterError::Nul(text.into()));
        }
        let parts: Vec<&str> = text.split('/').take(TOPIC_LEVELS_MAX + 1).collect();
        if parts.len() > TOPIC_LEVELS_MAX {
            return Err(FilterError::TooDeep);
        }
        let last = parts.len() - 1;
        for (place, part) in parts.iter().enumerate() {
            match *part {
                "#" if place == last => {}
                "+" => {}
                part if part.contains('#') => return Err(FilterError::Rest(text.into())),
                part if part.contains('+') => return Err(FilterError::One(text.into())),
                _ => {}
            }
        }
        Ok(Filter { text: text.into() })
    }

    /// Whether the filter covers this topic. Topics that begin with `$` are covered only by filters
    /// that begin with the same level.
    pub fn matches(&self, topic: &str) -> bool {
        (!topic.starts_with('$') || !self.is_wild()) && self.matches_below(topic)
    }

    /// Whether the filter covers this part of a topic, in front of which something stands: a `$` there is a letter like
    /// any other.
    pub fn matches_below(&self, topic: &str) -> bool {
        // It is asked for every record: so it goes byte by byte.
        let (mut filter, mut topic) = (self.text.as_bytes(), topic.as_bytes());
        let end_of = |text: &[u8]| text.iter().position(|byte| *byte == b'/').unwrap_or(text.len());
        loop {
            // Both are at the beginning of a level.
            match filter {
                b"#" => return true,
                [b'+', rest @ ..] => (filter, topic) = (rest, &topic[end_of(topic)..]),
                _ => {
                    let (level, rest) = filter.split_at(end_of(filter));
                    let Some(after) = topic.strip_prefix(level) else { return false };
                    (filter, topic) = (rest, after);
                }
            }
            match (filter, topic) {
                ([b'/', filters @ ..], [b'/', topics @ ..]) => (filter, topic) = (filters, topics),
                // `a/#` covers `a` as well.
                (rest, []) => return rest.is_empty() || rest == b"/#",
                _ => return false,
            }
        }
    }

    /// Whether every topic that `other` covers is covered by this one too.
    pub fn covers(&self, other: &Filter) -> bool {
        if self.is_wild() && other.text.starts_with('$') {
            return false;
        }
        let mut theirs = other.levels();
        for level in self.levels() {
            match (level, theirs.next()) {
                (FilterLevel::Rest, _) => return true,
                (FilterLevel::One, Some(FilterLevel::Exact(_) | FilterLevel::One)) => {}
                (FilterLevel::Exact(exact), Some(FilterLevel::Exact(part))) if exact == part => {}
                _ => return false,
            }
        }
        theirs.next().is_none()
    }

    /// Whether there is a topic that this one and `other` both cover.
    pub fn overlaps(&self, other: &Filter) -> bool {
        if self.is_wild() && other.text.starts_with('$')
            || other.is_wild() && self.text.starts_with('$')
        {
            return false;
        }
        let (mut ours, mut theirs) = (self.levels(), other.levels());
        loop {
            match (ours.next(), theirs.next()) {
                (Some(FilterLevel::Rest), _) | (_, Some(FilterLevel::Rest)) | (None, None) => {
                    return true;
                }
                (Some(FilterLevel::Exact(ours)), Some(FilterLevel::Exact(theirs)))
                    if ours != theirs =>
                {
                    return false;
                }
                (Some(_), Some(_)) => {}
                _ => return false,
            }
        }
    }

    /// Its levels, at least one.
    pub fn levels(&self) -> impl Iterator<Item = FilterLevel<'_>> {
        self.text.split('/').map(FilterLevel::of)
    }

    /// Whether its first level is a wildcard.
    fn is_wild(&self) -> bool {
        !matches!(self.levels().next(), Some(FilterLevel::Exact(_)))
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Whether `text` can be published to: not empty, no wildcard, no NUL.
pub fn is_topic(text: &str) -> bool {
    !text.is_empty() && !text.contains(['+', '#', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the specification says it, level by level.
    fn matches_by_level(filter: &Filter, topic: &str) -> bool {
        let mut parts = topic.split('/');
        for level in filter.levels() {
            match (level, parts.next()) {
                (FilterLevel::Rest, _) => return true,
                (FilterLevel::One, Some(_)) => {}
                (FilterLevel::Exact(exact), Some(part)) if exact == part => {}
                _ => return false,
            }
        }
        parts.next().is_none()
    }

    /// Every text of at most `length` of these characters.
    fn texts(characters: &str, length: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        for begin in 0..length {
            let longest = all.iter().filter(|text| text.len() == begin);
            let longer =
                longest.flat_map(|text| characters.chars().map(move |c| format!("{text}{c}")));
            let longer: Vec<String> = longer.collect();
            all.extend(longer);
        }
        all
    }

    #[test]
    fn every_short_filter_covers_the_topics_that_its_levels_cover() {
        let topics = texts("ab/", 5);
        let mut pairs = [0, 0];
        for filter in texts("ab/+#", 4).iter().filter_map(|text| Filter::new(text).ok()) {
            for topic in &topics {
                let expected = matches_by_level(&filter, topic);
                assert_eq!(filter.matches(topic), expected, "{} {topic}", filter.text);
                pairs[usize::from(expected)] += 1;
            }
        }
        assert!(pairs.iter().all(|count| *count > 1000), "{pairs:?}");
    }

    #[test]
    fn examples_of_the_standard() {
        // MQTT 5.0, 4.7.1.2 and 4.7.1.3 (non-normative comments)
        let cases = [
            ("sport/tennis/player1/#", "sport/tennis/player1", true),
            ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", true),
            ("sport/#", "sport", true),
            ("#", "a/b/c", true),
            ("sport/tennis/+", "sport/tennis/player1", true),
            ("sport/tennis/+", "sport/tennis/player1/ranking", false),
            ("sport/+", "sport", false),
            ("sport/+", "sport/", true),
            ("+/+", "/finance", true),
            ("/+", "/finance", true),
            ("+", "/finance", false),
            ("#", "$SYS/uptime", false),
            ("+/uptime", "$SYS/uptime", false),
            ("$SYS/#", "$SYS/uptime", true),
            ("ACCOUNTS", "Accounts", false),
        ];
        for (filter, topic, expected) in cases {
            assert_eq!(Filter::new(filter).unwrap().matches(topic), expected, "{filter} {topic}");
        }
    }

    #[test]
    fn behind_a_beginning_a_dollar_is_a_letter() {
        for (filter, part, expected) in [
            ("#", "$tag/7", true),
            ("+/7", "$tag/7", true),
            ("$tag/+", "$tag/7", true),
            ("a", "$a", false),
        ] {
            assert_eq!(
                Filter::new(filter).unwrap().matches_below(part),
                expected,
                "{filter} {part}"
            );
        }
    }

    #[test]
    fn a_filter_covers_what_is_within_it() {
        let covers = |ours: &str, theirs: &str| {
            Filter::new(ours).unwrap().covers(&Filter::new(theirs).unwrap())
        };
        for (ours, theirs) in
            [("#", "a/+/b"), ("a/#", "a/#"), ("a/#", "a"), ("a/+", "a/b"), ("+/b", "+/b")]
        {
            assert!(covers(ours, theirs), "{ours} {theirs}");
        }
        for (ours, theirs) in [
            ("a/#", "#"),
            ("a/+", "a/#"),
            ("a/b", "a/+"),
            ("#", "$SYS/#"),
            ("+", "a/b"),
            ("a", "+"),
        ] {
            assert!(!covers(ours, theirs), "{ours} {theirs}");
        }
    }

    #[test]
    fn filters_overlap_where_a_topic_is_in_both() {
        let overlap = |one: &str, two: &str| {
            let (one, two) = (Filter::new(one).unwrap(), Filter::new(two).unwrap());
            assert_eq!(one.overlaps(&two), two.overlaps(&one), "{one:?} {two:?}");
            one.overlaps(&two)
        };
        for (one, two) in [("a/+", "+/b"), ("#", "a"), ("a/#", "a"), ("a/#", "a/b/+"), ("a", "a")] {
            assert!(overlap(one, two), "{one} {two}");
        }
        for (one, two) in [("a/+", "b/+"), ("a", "a/b"), ("#", "$SYS/a"), ("a/+", "a/b/c")] {
            assert!(!overlap(one, two), "{one} {two}");
        }
    }

    #[test]
    fn what_the_standard_forbids_is_named() {
        let error = |text: &str| Filter::new(text).unwrap_err();
        assert_eq!(error(""), FilterError::Empty);
        assert_eq!(error("sport/tennis#"), FilterError::Rest("sport/tennis#".into()));
        assert_eq!(error("sport/#/ranking"), FilterError::Rest("sport/#/ranking".into()));
        assert_eq!(error("sport+"), FilterError::One("sport+".into()));
        assert_eq!(error("a\0"), FilterError::Nul("a\0".into()));
        assert_eq!(error(&"a/".repeat(200)), FilterError::TooDeep);
    }

    #[test]
    fn topics_have_no_wildcards() {
        assert!(is_topic("a/b") && !is_topic("a/+") && !is_topic("#") && !is_topic(""));
    }
}
