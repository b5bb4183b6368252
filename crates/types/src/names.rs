//! The names of an enum's variants, each written once, beside its variant.

/// Declares an enum whose variants have names: `ALL` has every variant in order, `name()` gives the name of one. With a
/// text behind the enum's own name, which says what is chosen, a variant is also read by its name.
///
/// Variants under `unlisted` have names, but stand in no list and are not read: nobody can choose them.
///
/// ```
/// tidegate_types::named! {
///     /// The order of records.
///     #[derive(Clone, Copy, Debug, PartialEq, Eq)]
///     pub enum OrderName: "order" {
///         /// The oldest record first.
///         Oldest = "oldest-first",
///         /// The newest record first.
///         Newest = "newest-first",
///     }
/// }
///
/// assert_eq!(OrderName::ALL.map(OrderName::name), ["oldest-first", "newest-first"]);
/// assert_eq!("newest-first".parse(), Ok(OrderName::Newest));
/// let error = "newest".parse::<OrderName>().unwrap_err();
/// assert_eq!(error, r#"no order is called "newest": there are oldest-first, newest-first"#);
/// ```
#[macro_export]
macro_rules! named {
    (
        $(#[$about:meta])*
        $visible:vis enum $Enum:ident $(: $what:literal)? {
            $($(#[$its:meta])* $Variant:ident = $name:literal,)+
        }
        $(unlisted {
            $($(#[$whose:meta])* $Other:ident = $other:literal,)+
        })?
    ) => {
        $(#[$about])*
        $visible enum $Enum {
            $($(#[$its])* $Variant,)+
            $($($(#[$whose])* $Other,)+)?
        }

        impl $Enum {
            /// Every variant that can be chosen, in order.
            $visible const ALL: [Self; [$($name),+].len()] = [$(Self::$Variant),+];

            /// Its name in configuration, metrics and messages.
            $visible fn name(self) -> &'static str {
                match self {
                    $(Self::$Variant => $name,)+
                    $($(Self::$Other => $other,)+)?
                }
            }
        }

        $(impl ::std::str::FromStr for $Enum {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.into_iter().find(|one| one.name() == text).ok_or_else(|| {
                    let names = Self::ALL.map(Self::name).join(", ");
                    format!(concat!("no ", $what, " is called {:?}: there are {}"), text, names)
                })
            }
        })?
    };
}
