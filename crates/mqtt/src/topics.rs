//! What topics are called at the far end: lines as a Mosquitto bridge has them, each with a pattern and a prefix for
//! either end.

use std::borrow::Cow;

use tidegate_types::topic::Filter;

/// Stands in [`There::One`] for the topic here, percent-encoded.
const TOPIC: &str = "%t";

/// The name at the far end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum There {
    /// This prefix, and what the pattern has matched.
    Prefix(String),
    /// One topic for all that the pattern matches; `%t` in it is the topic here, percent-encoded.
    One(String),
}

/// One line: topics that begin with a prefix and go on as the pattern says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicLine {
    /// Filter of what stands behind the prefix; `None` is nothing: the prefixes are two topics.
    pub pattern: Option<Filter>,
    /// What topics begin with here.
    pub here: String,
    /// Their name there.
    pub there: There,
}

impl TopicLine {
    /// All topics that it takes here.
    pub fn here(&self) -> String {
        format!("{}{}", self.here, self.pattern())
    }

    /// All topics that it stands for there.
    pub fn there(&self) -> String {
        match &self.there {
            There::Prefix(prefix) => format!("{prefix}{}", self.pattern()),
            There::One(topic) => topic.clone(),
        }
    }

    fn pattern(&self) -> &str {
        self.pattern.as_ref().map_or("", Filter::as_str)
    }

    fn rest<'t>(&self, topic: &'t str, prefix: &str) -> Option<&'t str> {
        let rest = topic.strip_prefix(prefix)?;
        let fits = match &self.pattern {
            None => rest.is_empty(),
            Some(pattern) if prefix.is_empty() => pattern.matches(rest),
            Some(pattern) => pattern.matches_below(rest),
        };
        fits.then_some(rest)
    }
}

/// Lines, of which the first that fits a topic counts. Without any, a topic has one name at both ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicMap(pub Vec<TopicLine>);

impl TopicMap {
    /// The name at the far end of a topic here; `None` where no line takes it.
    pub fn there<'t>(&self, topic: &'t str) -> Option<Cow<'t, str>> {
        if self.0.is_empty() {
            return Some(topic.into());
        }
        self.0.iter().find_map(|line| {
            let rest = line.rest(topic, &line.here)?;
            Some(match &line.there {
                There::Prefix(prefix) if *prefix == line.here => topic.into(),
                There::Prefix(prefix) => format!("{prefix}{rest}").into(),
                There::One(name) if name.contains(TOPIC) => {
                    name.replace(TOPIC, &encoded(topic)).into()
                }
                There::One(name) => name.clone().into(),
            })
        })
    }

    /// The name here of a topic of the far end. One that no line stands for keeps its name: it came by a subscription of
    /// former days.
    pub fn here<'t>(&self, topic: &'t str) -> Cow<'t, str> {
        let named = self.0.iter().find_map(|line| {
            let There::Prefix(prefix) = &line.there else { return None };
            let rest = line.rest(topic, prefix)?;
            Some(if *prefix == line.here {
                topic.into()
            } else {
                format!("{}{rest}", line.here).into()
            })
        });
        named.unwrap_or_else(|| topic.into())
    }
}

/// A text of which all but letters, digits and `-._~` is percent-encoded (RFC 3986, 2.1 and 2.3).
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for &byte in text.as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(pattern: &str, here: &str, there: &str) -> TopicLine {
        let pattern = (!pattern.is_empty()).then(|| Filter::new(pattern).unwrap());
        TopicLine { pattern, here: here.into(), there: There::Prefix(there.into()) }
    }

    #[test]
    fn prefixes_are_exchanged_in_both_directions() {
        let map = TopicMap(vec![
            line("+/alarm", "sensors/", "site7/alarms/"),
            line("#", "sensors/", "site7/sensors/"),
            line("#", "same/", "same/"),
            line("", "state", "site7/up"),
        ]);
        for (here, there) in [
            ("sensors/3/alarm", "site7/alarms/3/alarm"),
            ("sensors/3/heat", "site7/sensors/3/heat"),
            ("same/a", "same/a"),
            ("state", "site7/up"),
        ] {
            assert_eq!(map.there(here).as_deref(), Some(there));
            assert_eq!(map.here(there), here);
        }
        for other in ["sensor/3", "state/a", "b"] {
            assert_eq!(map.there(other), None, "{other}");
            assert_eq!(map.here(other), other);
        }
        assert_eq!(TopicMap::default().there("a/b").as_deref(), Some("a/b"));
        assert_eq!(map.0[0].here(), "sensors/+/alarm");
        assert_eq!(map.0[3].there(), "site7/up");
    }

    #[test]
    fn a_dollar_behind_a_prefix_is_a_letter() {
        let map = TopicMap(vec![line("#", "plant/", "site7/")]);
        assert_eq!(map.there("plant/$tag/3").as_deref(), Some("site7/$tag/3"));
        assert_eq!(map.here("site7/$tag/3"), "plant/$tag/3");
        let bare = TopicMap(vec![line("#", "", "site7/")]);
        assert_eq!(bare.there("$SYS/load"), None);
        assert_eq!(bare.here("site7/$tag"), "$tag");
    }

    #[test]
    fn one_topic_can_carry_the_name_of_each() {
        let to = |name: &str| {
            let there = There::One(name.into());
            TopicMap(vec![TopicLine { there, ..line("#", "", "") }])
        };
        let map = to("devices/g/messages/events/topic=%t");
        let name = "devices/g/messages/events/topic=plant%2F3%20a%2F%C3%A4";
        assert_eq!(map.there("plant/3 a/ä").as_deref(), Some(name));
        assert_eq!(to("all").there("plant/3").as_deref(), Some("all"));
        assert_eq!(map.here("plant"), "plant");
    }
}
