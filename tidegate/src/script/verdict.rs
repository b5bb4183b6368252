//! The verdicts that scripts can give, for whoever counts them.

/// A verdict, by the name of its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// `drop`.
    Drop,
    /// `redirect`.
    Redirect,
    /// `transform`.
    Transform,
    /// `replace` of a header, or another payload.
    Replace,
    /// `insert`.
    Insert,
    /// `moveToFront`, `moveToBack`.
    Move,
    /// `notify`.
    Notify,
}

impl Verdict {
    /// Every one, in order.
    pub const ALL: [Verdict; 7] = [
        Verdict::Drop,
        Verdict::Redirect,
        Verdict::Transform,
        Verdict::Replace,
        Verdict::Insert,
        Verdict::Move,
        Verdict::Notify,
    ];

    /// Label in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Drop => "drop",
            Verdict::Redirect => "redirect",
            Verdict::Transform => "transform",
            Verdict::Replace => "replace",
            Verdict::Insert => "insert",
            Verdict::Move => "move",
            Verdict::Notify => "notify",
        }
    }
}
