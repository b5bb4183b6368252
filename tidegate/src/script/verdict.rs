//! The verdicts that scripts can give, for whoever counts them.

tidegate_types::named! {
    /// A verdict, by the name of its function.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Verdict {
        /// `drop`.
        Drop = "drop",
        /// `redirect`.
        Redirect = "redirect",
        /// `transform`.
        Transform = "transform",
        /// `replace` of a header, or another payload.
        Replace = "replace",
        /// `insert`.
        Insert = "insert",
        /// `moveToFront`, `moveToBack`.
        Move = "move",
        /// `notify`.
        Notify = "notify",
    }
}
