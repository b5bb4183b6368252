//! The page for people: files that are part of the program.
//!
//! Nothing on it is inline and nothing comes from elsewhere, so its policy allows neither.

use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use hyper::header::{CONTENT_SECURITY_POLICY, HeaderValue, REFERRER_POLICY};

use super::typed;

/// What a browser may do for the page: read our own files and figures. No other site may show it in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Path, kind and text of each file.
const FILES: [(&str, &str, &str); 6] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/page/style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
    ("/page/page.js", "text/javascript; charset=utf-8", include_str!("page/page.js")),
    ("/page/tables.js", "text/javascript; charset=utf-8", include_str!("page/tables.js")),
    ("/page/words.js", "text/javascript; charset=utf-8", include_str!("page/words.js")),
    ("/page/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
];

/// The file at a path; `None` where there is none.
pub(super) fn answer(path: &str) -> Option<Response<Full<Bytes>>> {
    let (_, kind, text) = FILES.iter().find(|(at, ..)| *at == path)?;
    let mut response = typed(kind, *text);
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_inline_and_nothing_comes_from_elsewhere() {
        for (path, kind, text) in FILES {
            let headers = answer(path).unwrap().into_parts().0.headers;
            assert!(!headers[CONTENT_SECURITY_POLICY].to_str().unwrap().contains("unsafe"));
            let is_page = kind.starts_with("text/html");
            for inline in
                ["<style", " style=", " onclick=", " onload=", "<script>", "innerHTML", "eval("]
            {
                assert!(!text.contains(inline), "{path}: {inline}");
            }
            let addresses = text.matches("https://").count() + text.matches("http://").count();
            let names_only = text.matches("http://www.w3.org/2000/svg").count();
            assert_eq!(addresses, names_only, "{path}");
            assert!(!is_page || text.matches("<script src=\"/page/").count() == 1, "{path}");
        }
        assert!(answer("/page/").is_none() && answer("/page/../status").is_none());
    }

    #[test]
    fn the_page_finds_all_of_its_files() {
        for (from, _, text) in FILES {
            let named = text.split(['"', '\'']).filter(|word| word.starts_with("/page/"));
            for path in named {
                assert!(answer(path).is_some(), "{from} wants {path}");
            }
        }
    }
}
