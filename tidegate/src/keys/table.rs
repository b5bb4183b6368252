//! The one declaration of a key: `keys!` makes of it a field, its default, how it is read, and the check of its bounds.
//! The reference, the JSON schema and the page of keys are written from the same declaration
//! (docs/decisions/0103-a-key-is-declared-once.md).
//!
//! ```text
//! keys! {
//!     /// `sink` of an `[[output]]`.
//!     pub struct SinkConfig: Eq {
//!         /// Folder of the files.
//!         pub directory: PathBuf = "tidegate-data".into(),
//!         /// Files kept; the oldest goes.
//!         pub files: u32 = 8; at_least(1, "nothing could be kept"),
//!         /// Only every so many records are written. Default: each.
//!         pub every | "sample": Option<u32>; sample("10"),
//!     }
//! }
//! ```
//!
//! A key is its sentence, its name (and in `as "..."` that of the file, where it is no name in Rust), former names behind
//! `|`, its type, its default, and words behind a semicolon: the functions of [`Key`] that give
//! a `Key`. Without a default a key is `None` where it is left out; in a table marked `whole` it must be given unless it
//! is an `Option`. Fields under `inner` are no keys.

use serde::de::{DeserializeSeed, Deserializer, Error, Visitor};

use super::key::Key;

/// What a value that is no table is told.
pub(crate) const EXPECTED: &str = "a table, as in { key = \"value\" }";

/// A table whose keys are declared.
pub trait Table: Sized {
    /// Its keys, in the order of the declaration.
    fn keys() -> Vec<Key>;

    /// The keys whose values are not the same.
    fn differences(&self, other: &Self) -> Vec<Key>;
}

/// Reads the name of one of these keys: gives its present name.
#[derive(Debug)]
pub(crate) struct Name {
    /// Names of the keys.
    pub(crate) names: &'static [&'static str],
    /// Former names of each of them.
    pub(crate) former: &'static [&'static [&'static str]],
}

impl<'de> DeserializeSeed<'de> for Name {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Name {
    type Value = &'static str;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the name of a key")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<&'static str, E> {
        let mut all = self.names.iter().zip(self.former);
        let found = all.find(|(name, former)| **name == text || former.contains(&text));
        found.map(|(name, _)| *name).ok_or_else(|| E::unknown_field(text, self.names))
    }
}

/// Declares the keys of a table; see the file's header.
macro_rules! keys {
    (
        $(#[doc = $about:literal])+
        pub struct $Table:ident $(: $($Trait:ident),+)? {
            $($fields:tt)*
        }
    ) => {
        $crate::keys::table::keys! {
            @declare ($(#[doc = $about])+) $Table ($($($Trait),+)?) $($fields)*
        }
        impl Default for $Table {
            fn default() -> Self {
                $crate::keys::table::keys! { @default $($fields)* }
            }
        }
    };
    (
        $(#[doc = $about:literal])+
        pub struct $Table:ident whole $(: $($Trait:ident),+)? {
            $($fields:tt)*
        }
    ) => {
        $crate::keys::table::keys! {
            @declare ($(#[doc = $about])+) $Table ($($($Trait),+)?) $($fields)*
        }
    };
    (@default
        $(
            $(#[doc = $doc:literal])+
            pub $field:ident $(as $name:literal)? $(| $former:literal)*: $ty:ty $(= $default:expr)?
            $(; $($word:ident ($($argument:expr),*))+)?,
        )+
        $(inner { $($(#[doc = $inner_doc:literal])+ pub $inner:ident: $inner_ty:ty,)+ })?
    ) => {
        Self {
            $($field: $crate::keys::table::keys!(@value $($default)?),)+
            $($($inner: <$inner_ty>::default(),)+)?
        }
    };
    (@value) => { None };
    (@value $default:expr) => { $default };
    (@absent $ty:ty) => { <$ty as $crate::keys::values::Value>::absent() };
    (@absent $ty:ty, $default:expr) => { Some($default) };
    (@written $ty:ty) => { None };
    (@written $ty:ty, $default:expr) => {
        Some(|| { let value: $ty = $default; $crate::keys::values::Value::written(&value) })
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
    (@declare ($(#[doc = $about:literal])+) $Table:ident ($($Trait:ident),*)
        $(
            $(#[doc = $doc:literal])+
            pub $field:ident $(as $name:literal)? $(| $former:literal)*: $ty:ty $(= $default:expr)?
            $(; $($word:ident ($($argument:expr),*))+)?,
        )+
        $(inner { $($(#[doc = $inner_doc:literal])+ pub $inner:ident: $inner_ty:ty,)+ })?
    ) => {
        $(#[doc = $about])+
        #[allow(
            rustdoc::bare_urls,
            rustdoc::broken_intra_doc_links,
            rustdoc::private_intra_doc_links,
            reason = "the sentences are for the reference, too, which is no page of rustdoc"
        )]
        #[derive(Clone, Debug, PartialEq, $($Trait),*)]
        pub struct $Table {
            $($(#[doc = $doc])+ pub $field: $ty,)+
            $($($(#[doc = $inner_doc])+ pub $inner: $inner_ty,)+)?
        }

        impl $crate::keys::table::Table for $Table {
            fn keys() -> Vec<$crate::keys::key::Key> {
                vec![$(
                    $crate::keys::key::Key::new::<$ty>(
                        $crate::keys::table::keys!(@name $field $($name)?),
                        &[$($former),*],
                        &[$($doc),+],
                        $crate::keys::table::keys!(@written $ty $(, $default)?),
                    )$($(.$word($($argument),*))+)?,
                )+]
            }

            fn differences(&self, other: &Self) -> Vec<$crate::keys::key::Key> {
                let differs = [$(self.$field != other.$field),+];
                let keys = <Self as $crate::keys::table::Table>::keys().into_iter().zip(differs);
                keys.filter_map(|(key, differs)| differs.then_some(key)).collect()
            }
        }

        impl $crate::keys::values::Value for $Table {
            fn read<'de, D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                ::serde::Deserialize::deserialize(deserializer)
            }

            fn shape() -> $crate::keys::values::Shape {
                $crate::keys::values::Shape::Table(<Self as $crate::keys::table::Table>::keys)
            }

            fn written(&self) -> Option<String> {
                let parts = [$((
                    $crate::keys::table::keys!(@name $field $($name)?),
                    $crate::keys::values::Value::written(&self.$field),
                )),+];
                Some($crate::keys::values::inline_table(parts))
            }

            fn check(
                &self,
                place: &$crate::keys::places::Place,
                findings: &mut $crate::keys::findings::Findings,
            ) {
                let keys = <Self as $crate::keys::table::Table>::keys();
                let mut keys = keys.iter();
                $(if let Some(key) = keys.next() {
                    key.check(&self.$field, place, findings);
                })+
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $Table {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                const NAMES: &[&str] = &[$($crate::keys::table::keys!(@name $field $($name)?)),+];

                struct Keys;

                impl<'de> ::serde::de::Visitor<'de> for Keys {
                    type Value = $Table;

                    fn expecting(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                        f.write_str($crate::keys::table::EXPECTED)
                    }

                    fn visit_map<A: ::serde::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> Result<$Table, A::Error> {
                        $(let mut $field: Option<$ty> = None;)+
                        let name = || $crate::keys::table::Name {
                            names: NAMES,
                            former: &[$(&[$($former),*]),+],
                        };
                        while let Some(found) = map.next_key_seed(name())? {
                            $(if found == $crate::keys::table::keys!(@name $field $($name)?) {
                                $crate::keys::values::read_once(&mut $field, found, &mut map)?;
                                continue;
                            })+
                        }
                        $(let $field = match $field {
                            Some(given) => Some(given),
                            None => $crate::keys::table::keys!(@absent $ty $(, $default)?),
                        };)+
                        Ok($Table {
                            $($field: $field.ok_or_else(|| ::serde::de::Error::missing_field(
                                $crate::keys::table::keys!(@name $field $($name)?),
                            ))?,)+
                            $($($inner: <$inner_ty>::default(),)+)?
                        })
                    }
                }

                deserializer.deserialize_struct(stringify!($Table), NAMES, Keys)
            }
        }
    };
}
pub(crate) use keys;

/// Declares values that are one of a list of names, each with what it means:
///
/// ```text
/// choices! {
///     /// `order` of a `[[stream]]`.
///     pub enum Order: Copy, Eq {
///         /// The oldest first.
///         Fifo = "fifo",
///     }
/// }
/// ```
///
/// A variant may hold a value: `Csv(CsvConfig) = "csv"` is written `{ csv = {...} }`.
macro_rules! choices {
    (
        $(#[doc = $about:literal])+
        pub enum $Enum:ident $(: $($Trait:ident),+)? {
            $($(#[doc = $doc:literal])+ $Variant:ident $(($Inner:ty))? = $name:literal,)+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, ::serde::Deserialize, $($($Trait),+)?)]
        pub enum $Enum {
            $($(#[doc = $doc])+ #[serde(rename = $name)] $Variant $(($Inner))?,)+
        }

        impl $crate::keys::values::Value for $Enum {
            fn read<'de, D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                ::serde::Deserialize::deserialize(deserializer)
            }

            fn shape() -> $crate::keys::values::Shape {
                $crate::keys::values::Shape::Choice(vec![$(
                    $crate::keys::values::Choice::new($name, &[$($doc),+])
                        $(.of(<$Inner as $crate::keys::values::Value>::shape))?,
                )+])
            }

            fn written(&self) -> Option<String> {
                $crate::keys::table::choices!(@written self, $Enum, $($Variant $(($Inner))? = $name,)+)
            }

            fn check(
                &self,
                place: &$crate::keys::places::Place,
                findings: &mut $crate::keys::findings::Findings,
            ) {
                let _ = (place, &findings);
                $($(
                    if let $Enum::$Variant(inner) = self {
                        let inner: &$Inner = inner;
                        return $crate::keys::values::Value::check(inner, &place.to($name), findings);
                    }
                )?)+
            }
        }
    };
    (@written $self:ident, $Enum:ident, $($Variant:ident $(($Inner:ty))? = $name:literal,)+) => {
        match $self {
            $($Enum::$Variant { .. } => Some(format!("\"{}\"", $name)),)+
        }
    };
}
pub(crate) use choices;

#[cfg(test)]
#[expect(unreachable_pub, reason = "the macro declares public tables")]
mod tests {
    use super::super::findings::Findings;
    use super::super::places::Place;
    use super::super::values::Value;
    use super::*;

    keys! {
        /// A table.
        pub struct Sample {
            /// How many.
            pub count | "number" | "amount": u32 = 3; at_least(2, "too few"),
            /// Which.
            pub kind as "type": Option<String>; sample("a"),
            /// More of it.
            pub more: Vec<Whole> = Vec::new(),
            inner {
                /// Whether it was made here.
                pub is_own: bool,
            }
        }
    }

    keys! {
        /// A table whose keys are needed.
        pub struct Whole whole {
            /// A name.
            pub name: String,
            /// A share.
            pub share: f64 = 0.5; between(0.0, 1.0, "no share"),
        }
    }

    fn read(text: &str) -> Result<Sample, String> {
        toml::from_str(text).map_err(|error| error.message().to_owned())
    }

    fn found(sample: &Sample) -> Vec<(String, String)> {
        let mut findings = Findings::default();
        Value::check(sample, &Place::default(), &mut findings);
        findings.0.into_iter().map(|found| (found.place.to_string(), found.text)).collect()
    }

    #[test]
    fn a_key_is_read_by_its_name_and_by_its_former_ones() {
        let wanted = Sample { count: 5, kind: Some("b".into()), ..Sample::default() };
        for name in ["count", "number", "amount"] {
            assert_eq!(read(&format!("{name} = 5\ntype = \"b\"")), Ok(wanted.clone()));
        }
        assert_eq!(read(""), Ok(Sample { count: 3, kind: None, more: Vec::new(), is_own: false }));
        let unknown = read("kind = \"b\"").unwrap_err();
        assert_eq!(unknown, "unknown field `kind`, expected one of `count`, `type`, `more`");
        assert!(read("is_own = true").is_err(), "it is no key");
        assert_eq!(read("count = 5\nnumber = 6").unwrap_err(), "duplicate field `count`");
    }

    #[test]
    fn what_has_no_default_must_be_given_in_a_whole_table() {
        assert_eq!(read("more = [{ share = 0.1 }]").unwrap_err(), "missing field `name`");
        let read = read("more = [{ name = \"a\" }]").unwrap();
        assert_eq!(read.more, [Whole { name: "a".into(), share: 0.5 }]);
        assert!(Whole::keys()[0].is_required && !Whole::keys()[1].is_required);
    }

    #[test]
    fn bounds_are_checked_at_any_depth() {
        let more = vec![Whole { name: "a".into(), share: f64::NAN }];
        let sample = Sample { count: 1, more, ..Sample::default() };
        let wanted = [("count", "too few: give at least 2"), ("more.share", "no share")];
        assert_eq!(found(&sample), wanted.map(|(at, text)| (at.into(), text.into())));
        assert_eq!(found(&Sample::default()), []);
    }

    #[test]
    fn keys_that_differ_are_named() {
        let other = Sample { count: 4, ..Sample::default() };
        let differ = Sample::default().differences(&other);
        assert_eq!(differ.iter().map(|key| key.name).collect::<Vec<_>>(), ["count"]);
        assert_eq!(other.written().unwrap(), "{ count = 4, more = [] }");
    }
}
