//! Words that are sent and never shown.

use std::fmt;
use std::ops::Deref;

/// A password, a token or a key, to be sent and never to be shown: what is printed for a developer leaves it out.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Hidden(String);

impl<S: Into<String>> From<S> for Hidden {
    fn from(text: S) -> Self {
        Hidden(text.into())
    }
}

impl Deref for Hidden {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_of_options_leaves_passwords_out() {
        let hidden = Hidden::from("open sesame");
        assert_eq!((&*hidden, format!("{hidden:?}")), ("open sesame", "Hidden(..)".to_owned()));
    }
}
