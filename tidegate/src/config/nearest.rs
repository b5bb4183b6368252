//! What a misspelt word was probably meant to be.

/// The known word nearest to `word`, if one is near enough to be a slip of the hand: at most a third
/// of its letters differ, or it begins the known word or the known word begins it.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 64;
    if word.is_empty() || word.len() > LONGEST {
        return None;
    }
    let folded = word.to_lowercase();
    let distance = |known: &str| {
        let edits = strsim::damerau_levenshtein(&folded, &known.to_lowercase());
        let begins = known.len() >= 2 && folded.starts_with(known)
            || folded.len() >= 2 && known.starts_with(&folded);
        let near = edits <= (word.chars().count().max(known.chars().count())).div_ceil(3);
        (near || begins).then_some(edits)
    };
    let candidates = known.into_iter().filter(|known| known.len() <= LONGEST);
    let near = candidates.filter_map(|known| distance(known).map(|edits| (edits, known)));
    near.min_by_key(|(edits, _)| *edits).map(|(_, known)| known)
}

/// `did you mean "x"?`, or every known word.
pub(super) fn suggest<'a>(word: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(word, known.clone()) {
        Some(meant) => format!("did you mean {meant:?}?"),
        None => {
            let known: Vec<&str> = known.into_iter().collect();
            format!("known here: {}", known.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        let keys = ["topics", "latency", "class", "to", "ttl", "full"];
        let near = |word: &str| nearest(word, keys);
        assert_eq!(near("latncy"), Some("latency"));
        assert_eq!(near("topic"), Some("topics"));
        assert_eq!(near("Class"), Some("class"));
        assert_eq!(near("clsas"), Some("class"));
        assert_eq!(near("latency_ms"), Some("latency"));
        assert_eq!(near("priority"), None);
        assert_eq!(near(""), None);
        assert_eq!(near(&"x".repeat(100_000)), None);
        assert_eq!(suggest("qos", ["ls", "nm"]), "known here: ls, nm");
    }
}
