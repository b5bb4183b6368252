//! The names of an enum's variants, each written once, beside its variant.

/// An enum whose variants have names.
pub trait NamedVariants: 'static {
    /// The names that can be chosen, in order.
    const NAMES: &'static [&'static str];
    /// Names that could be chosen once, and what to write in their place.
    const GONE: &'static [(&'static str, &'static str)];
}

/// Declares an enum whose variants have names: `ALL` has every variant in order, `name()` gives the name of one. With a
/// text behind the enum's own name, which says what is chosen, a variant is also read by its name.
///
/// Variants under `unlisted` have names, but stand in no list and are not read: nobody can choose them. Under `gone` stand names that
/// could be chosen once, each with what to write now.
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
///     gone { "lifo" => "write \"newest-first\"", }
/// }
///
/// assert_eq!(OrderName::ALL.map(OrderName::name), ["oldest-first", "newest-first"]);
/// assert_eq!("newest-first".parse(), Ok(OrderName::Newest));
/// let error = "newest".parse::<OrderName>().unwrap_err();
/// assert_eq!(error, r#"no order is called "newest": there are oldest-first, newest-first"#);
/// let error = "lifo".parse::<OrderName>().unwrap_err();
/// assert_eq!(error, r#"no order is called "lifo" any more: write "newest-first""#);
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
        $(gone {
            $($was:literal => $instead:literal,)+
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

        impl $crate::names::NamedVariants for $Enum {
            const NAMES: &'static [&'static str] = &[$($name),+];
            const GONE: &'static [(&'static str, &'static str)] = &[$($(($was, $instead)),+)?];
        }

        $(impl ::std::str::FromStr for $Enum {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                use $crate::names::NamedVariants as Variants;
                let gone = <Self as Variants>::GONE.iter().find(|(was, _)| *was == text);
                Self::ALL.into_iter().find(|one| one.name() == text).ok_or_else(|| {
                    if let Some((_, instead)) = gone {
                        return format!(
                            concat!("no ", $what, " is called {:?} any more: {}"),
                            text, instead
                        );
                    }
                    let names = <Self as Variants>::NAMES.join(", ");
                    format!(concat!("no ", $what, " is called {:?}: there are {}"), text, names)
                })
            }
        })?
    };
}

/// Declares algorithms that are chosen by name. Each is one file and one line here, which gives its variant, its name, its
/// module and what it does:
///
/// ```text
/// /// The schedulers, by name.
/// pub enum SchedulerName: "scheduler" -> SchedulerEntry {
///     mod baselines { Native = "native" in native: "One FIFO for everything.", }
///     mod { #[default] Tidegate = "tidegate" in tidegate: "Urgent first.", }
/// }
/// ```
///
/// The macro declares the modules, in the folder `baselines` or beside the list, and the enum as [`named!`](crate::named)
/// does. `entry()` is the constant `ENTRY` of the chosen module; `about()` is the sentence of its line. Other crates must
/// have an answer for variants that they do not know (`non_exhaustive`), so that a new line never breaks them.
///
/// `cargo fmt` does not see modules that a macro declares: `scripts/format.sh` gives their files to `rustfmt`.
#[macro_export]
macro_rules! algorithms {
    (
        $(#[$about:meta])*
        $visible:vis enum $Enum:ident: $what:literal -> $Entry:ty {
            $(mod $($folder:ident)? {
                $($(#[$its:meta])* $Variant:ident = $name:literal in $module:ident: $text:literal,)+
            })+
        }
        $(unlisted {
            $($(#[$whose:meta])* $Other:ident = $other:literal in $file:ident: $line:literal,)+
        })?
        $(gone {
            $($was:literal => $instead:literal,)+
        })?
    ) => {
        $($crate::algorithms!(@modules $($folder)? { $($module)+ });)+
        $($crate::algorithms!(@modules { $($file)+ });)?

        $crate::named! {
            $(#[$about])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            #[non_exhaustive]
            $visible enum $Enum: $what {
                $($($(#[$its])* #[doc = $text] $Variant = $name,)+)+
            }
            $(unlisted {
                $($(#[$whose])* #[doc = $line] $Other = $other,)+
            })?
            $(gone { $($was => $instead,)+ })?
        }

        impl $Enum {
            /// What it does, in a sentence.
            $visible fn about(self) -> &'static str {
                match self {
                    $($(Self::$Variant => $text,)+)+
                    $($(Self::$Other => $line,)+)?
                }
            }

            /// How the crate uses it.
            fn entry(self) -> $Entry {
                match self {
                    $($(Self::$Variant => $module::ENTRY,)+)+
                    $($(Self::$Other => $file::ENTRY,)+)?
                }
            }
        }
    };
    (@modules { $($module:ident)+ }) => {
        $(mod $module;)+
    };
    (@modules $folder:ident { $($module:ident)+ }) => {
        mod $folder {
            $(pub(crate) mod $module;)+
        }
        use $folder::{$($module),+};
    };
}
