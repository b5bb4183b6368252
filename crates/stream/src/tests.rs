use std::time::Duration;

use proptest::prelude::*;
use tidegate_types::units::Time;

use super::*;

fn name(text: &str) -> std::sync::Arc<str> {
    text.into()
}

fn row(json: &str) -> Item {
    let row = read_json(json.as_bytes()).unwrap().remove(0);
    Item { at: Time::ZERO, content: ItemContent::Row(row) }
}

/// What a step makes of rows, as JSON.
fn all(run: &mut dyn StepInstance, rows: &[&str]) -> Vec<String> {
    let mut out = Vec::new();
    for json in rows {
        let _ = run.run(row(json), &mut out);
    }
    out.into_iter().map(|item| String::from_utf8(item.into_payload().to_vec()).unwrap()).collect()
}

/// The field of each row that a step makes of numbers in `x`.
fn numbers(run: &mut dyn StepInstance, field: &str, x: &[f64]) -> Vec<f64> {
    let mut out = Vec::new();
    for x in x {
        run.run(row(&format!("{{\"x\": {x}}}")), &mut out).unwrap();
    }
    out.iter_mut().map(|item| item.row_mut().unwrap().number(field).unwrap()).collect()
}

fn parse(format: Format, payload: &str) -> Result<Vec<String>, StepError> {
    let content = ItemContent::Payload(payload.as_bytes().to_vec().into());
    let mut out = Vec::new();
    ParseRows(format).run(Item { at: Time::ZERO, content }, &mut out)?;
    Ok(out
        .into_iter()
        .map(|item| String::from_utf8(item.into_payload().to_vec()).unwrap())
        .collect())
}

fn csv(columns: &[&str]) -> CsvFormat {
    CsvFormat { columns: columns.iter().map(|column| name(column)).collect(), separator: ',' }
}

fn near(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    }
}

#[test]
fn json_is_read_flat() {
    let found = parse(Format::Json, r#"{"a":{"b":1.5,"c":[1,2]},"d":null,"e":true,"f":"x","g":7}"#);
    let expected = r#"{"a.b":1.5,"a.c":"[1,2]","e":true,"f":"x","g":7}"#;
    assert_eq!(found, Ok(vec![expected.into()]));
    assert_eq!(parse(Format::Json, r#"[{"a":1},{"a":2}]"#).unwrap().len(), 2);
    for wrong in ["", "7", "[1]", "{", "\u{0}"] {
        assert_eq!(parse(Format::Json, wrong), Err(StepError::Parse), "{wrong}");
    }
}

#[test]
fn senml_of_both_kinds_is_read() {
    // RFC 8428, 5.1.2 with base values, and 5.1.3 with times.
    let multiple = r#"[{"bn":"urn:dev:ow:10e2073a01080063:","n":"voltage","u":"V","v":120.1},{"n":"current","u":"A","v":1.2}]"#;
    let expected = r#"{"urn:dev:ow:10e2073a01080063:current":1.2,"urn:dev:ow:10e2073a01080063:voltage":120.1}"#;
    assert_eq!(parse(Format::Senml, multiple), Ok(vec![expected.into()]));
    let times = r#"[{"bn":"c","bt":100,"t":-5,"v":1.2},{"t":-4,"v":1.3},{"v":1.7}]"#;
    let rows = [r#"{"c":1.2,"time":95}"#, r#"{"c":1.3,"time":96}"#, r#"{"c":1.7,"time":100}"#];
    assert_eq!(parse(Format::Senml, times).unwrap(), rows);
    let older =
        r#"{"e":[{"u":"string","n":"id","sv":"8"},{"v":"9.08","u":"meter","n":"far"}],"bt":1000}"#;
    assert_eq!(
        parse(Format::Senml, older),
        Ok(vec![r#"{"far":9.08,"id":"8","time":1000}"#.into()])
    );
    for wrong in ["{}", "[]", "[{}]", "[7]", "{\"e\":7}"] {
        assert_eq!(parse(Format::Senml, wrong), Err(StepError::Parse), "{wrong}");
    }
}

#[test]
fn senml_that_is_written_reads_the_same() {
    let item = row(r#"{"a":1.5,"b":"x","c":true,"time":99}"#);
    let mut out = Vec::new();
    WriteRows(Format::Senml).run(item.clone(), &mut out).unwrap();
    let mut again = Vec::new();
    ParseRows(Format::Senml).run(out.remove(0), &mut again).unwrap();
    assert_eq!(again.remove(0).into_payload(), item.into_payload());
}

#[test]
fn lines_are_read_and_written() {
    let format = csv(&["id", "say", "n"]);
    let payload = "007,\"a \"\"b\"\",\nc\",1.5\r\n\nx,,-2\n";
    let found = parse(Format::Csv(format.clone()), payload).unwrap();
    let expected = [r#"{"id":"007","n":1.5,"say":"a \"b\",\nc"}"#, r#"{"id":"x","n":-2}"#];
    assert_eq!(found, expected);
    assert_eq!(parse(Format::Csv(format.clone()), "a,b,c,d"), Err(StepError::Parse));
    assert_eq!(parse(Format::Csv(format.clone()), "\"a"), Err(StepError::Parse));
    let mut out = Vec::new();
    WriteRows(Format::Csv(format)).run(row(expected[0]), &mut out).unwrap();
    assert_eq!(out.remove(0).into_payload(), "007,\"a \"\"b\"\",\nc\",1.5");
}

#[test]
fn a_range_lets_its_own_pass() {
    let mut range = RangeFilter { field: name("x"), min: 1.0, max: 2.0 };
    let rows = [r#"{"x":0.9}"#, r#"{"x":1}"#, r#"{"x":"2"}"#, r#"{"x":2.1}"#];
    assert_eq!(all(&mut range, &rows), [r#"{"x":1}"#, r#"{"x":"2"}"#]);
    assert_eq!(range.run(row("{}"), &mut Vec::new()), Err(StepError::Field));
    assert_eq!(range.run(row(r#"{"x":"far"}"#), &mut Vec::new()), Err(StepError::Number));
}

#[test]
fn a_bloom_filter_errs_to_one_side_and_as_rarely_as_it_says() {
    let mut members = BloomFilter::new(1000, 0.01);
    for member in 0..1000 {
        members.insert(&member.to_string());
    }
    assert!((0..1000).all(|member| members.contains(&member.to_string())));
    let wrong = (1000..101_000).filter(|other| members.contains(&other.to_string())).count();
    // 1000 of 100,000 are expected; a binomial spread of five standard deviations is 157.
    assert!((843..1157).contains(&wrong), "{wrong}");
    let mut bloom = Bloom { field: name("x"), members: members.into() };
    assert_eq!(all(&mut bloom, &[r#"{"x":7}"#]).len(), 1);
}

#[test]
fn repeats_are_dropped_for_as_long_as_is_promised() {
    let mut repeats = Deduplicate::new(name("x"), 100, 1e-6);
    let mut passes = |x: u64| all(&mut repeats, &[&format!("{{\"x\":{x}}}")]).len() == 1;
    assert!((0..100).all(&mut passes));
    assert!(!(0..100).any(&mut passes), "the last hundred are known");
    assert!((100..300).all(&mut passes));
    assert!(passes(0), "it is forgotten");
}

#[test]
fn what_is_missing_is_the_mean_of_what_was_there() {
    let mut step = Interpolate::new(name("x"), 2, Some(name("id")));
    let rows = [
        r#"{"id":"a"}"#,
        r#"{"id":"a","x":1}"#,
        r#"{"id":"a","x":2}"#,
        r#"{"id":"a","x":4}"#,
        r#"{"id":"b"}"#,
        r#"{"id":"a"}"#,
    ];
    let found = all(&mut step, &rows);
    assert_eq!((&*found[0], &*found[4]), (r#"{"id":"a"}"#, r#"{"id":"b"}"#));
    assert_eq!(found[5], r#"{"id":"a","x":3}"#);
}

#[test]
fn a_table_adds_what_it_knows() {
    let table = Table::read("id,city,code\na,Bern,031\nb,\"Biel, BE\",032\n", "id").unwrap();
    let mut join =
        Join { field: name("x"), table, add: [name("city")].into(), drops_unknown: false };
    let found = all(&mut join, &[r#"{"x":"b"}"#, r#"{"x":"c"}"#]);
    assert_eq!(found, [r#"{"city":"Biel, BE","x":"b"}"#, r#"{"x":"c"}"#]);
    join.drops_unknown = true;
    assert!(all(&mut join, &[r#"{"x":"c"}"#]).is_empty());
    assert_eq!(Table::read("a,b\n", "c").unwrap_err(), "no column \"c\": it has a, b");
    let fields = [(name("city"), Value::Text(name("Ulm")))].into_iter().collect::<Row>();
    assert_eq!(all(&mut Annotate(fields.into()), &["{}"]), [r#"{"city":"Ulm"}"#]);
}

#[test]
fn windows_of_rows_and_of_time() {
    let x: Vec<f64> = vec![4.0, 1.0, 4.0, 2.0, 2.0, 2.0, 9.0];
    for (of, expected) in [
        (Aggregate::Sum, [9.0, 6.0]),
        (Aggregate::Average, [3.0, 2.0]),
        (Aggregate::Min, [1.0, 2.0]),
        (Aggregate::Max, [4.0, 2.0]),
        (Aggregate::Count, [3.0, 3.0]),
        (Aggregate::Distinct, [2.0, 1.0]),
        (Aggregate::SecondMoment, [5.0, 9.0]),
    ] {
        let mut window = Window::new(name("x"), name("y"), of, WindowLength::Rows(3), None);
        near(&numbers(&mut window, "y", &x), &expected);
    }
    let span = WindowLength::Span(Duration::from_secs(2));
    let mut window = Window::new(name("x"), name("sum"), Aggregate::Sum, span, Some(name("id")));
    let mut out = Vec::new();
    for second in 0..5 {
        let item = row(&format!("{{\"x\":1,\"id\":\"a\",\"other\":{second}}}"));
        window
            .run(Item { at: Time::ZERO + Duration::from_secs(second), ..item }, &mut out)
            .unwrap();
    }
    assert_eq!(out.len(), 2);
    assert_eq!(out.remove(0).into_payload(), r#"{"id":"a","sum":2}"#);
}

#[test]
fn the_filter_of_kalman_by_hand() {
    // drift 1, noise 2: gains (2+1)/(2+1+2) = 3/5, variance 6/5; then (11/5)/(21/5) = 11/21.
    let mut step = Kalman::new(name("x"), name("y"), 1.0, 2.0, None);
    let second = 10.0 + 3.0 / 5.0 * 10.0;
    near(
        &numbers(&mut step, "y", &[10.0, 20.0, 10.0]),
        &[10.0, second, second + 11.0 / 21.0 * (10.0 - second)],
    );
}

#[test]
fn a_line_is_foretold() {
    let mut step = Regression::new(name("x"), name("y"), 3, 2.0, None);
    let foretold = [5.0, 11.0, 13.0, 15.0, 20.0 / 3.0 - 13.5];
    near(&numbers(&mut step, "y", &[5.0, 7.0, 9.0, 11.0, 0.0]), &foretold);
}

#[test]
fn models_that_were_trained_elsewhere() {
    let weights = [(name("x"), 2.0), (name("z"), -1.0)].into();
    let mut linear = Linear { intercept: 3.0, weights, into: name("y") };
    assert_eq!(all(&mut linear, &[r#"{"x":2,"z":1}"#]), [r#"{"x":2,"y":6,"z":1}"#]);
    let text = r#"{"field":"x","at_most":5,"then":{"leaf":"low"},"else":{"field":"z","at_most":1,"then":{"leaf":2},"else":{"leaf":true}}}"#;
    let mut tree = DecisionTree::read(text, name("y")).unwrap();
    let rows = [r#"{"x":5}"#, r#"{"x":6,"z":1}"#, r#"{"x":6,"z":2}"#];
    let expected = [r#"{"x":5,"y":"low"}"#, r#"{"x":6,"y":2,"z":1}"#, r#"{"x":6,"y":true,"z":2}"#];
    assert_eq!(all(&mut tree, &rows), expected);
    let wrong = DecisionTree::read(r#"{"field":"x"}"#, name("y")).unwrap_err();
    assert!(wrong.to_string().ends_with(r#"{"field":"x"}"#), "{wrong}");
}

#[test]
fn blocks_and_errors() {
    let mut step = BlockAverage::new(name("x"), name("y"), 2, None);
    near(&numbers(&mut step, "y", &[1.0, 3.0, 9.0, 11.0, 0.0]), &[1.0, 2.0, 2.0, 2.0, 10.0]);
    let fields = [name("x"), name("p"), name("a"), name("e")];
    let [field, predicted, average, into] = fields;
    let mut error = ErrorEstimate { field, predicted, average, into };
    assert_eq!(all(&mut error, &[r#"{"x":4,"p":5,"a":2}"#]), [r#"{"a":2,"e":0.5,"p":5,"x":4}"#]);
    assert_eq!(error.run(row(r#"{"x":4,"p":5,"a":0}"#), &mut Vec::new()), Err(StepError::Number));
}

#[test]
fn people_are_not_recognised() {
    let coarsen = [(name("lon"), 0.01)].into();
    let mut step = Anonymise::new([name("name")].into(), [name("id")].into(), b"Jefe", coarsen);
    let found =
        all(&mut step, &[r#"{"id":"what do ya want for nothing?","lon":-73.982071,"name":"A"}"#]);
    // RFC 4231, 4.3.
    assert_eq!(found, [r#"{"id":"5bdcc146bf60754e6a042426089575c7","lon":-73.99}"#]);
    let mut other = Anonymise::new([].into(), [name("id")].into(), b"another", [].into());
    let with = |step: &mut Anonymise| all(step, &[r#"{"id":"a"}"#]).remove(0);
    assert_eq!(with(&mut step), with(&mut step));
    assert_ne!(with(&mut step), with(&mut other));
}

#[test]
fn a_chain_counts_what_ends_on_the_way() {
    let chain = Chain::new(vec![
        std::sync::Arc::new(ParseRows(Format::Json)),
        std::sync::Arc::new(RangeFilter { field: name("x"), min: 0.0, max: 9.0 }),
    ]);
    let mut work = chain.start();
    let mut faults = Vec::new();
    let content = ItemContent::Payload(r#"[{"x":1},{},{"x":10},{"x":2}]"#.into());
    let out = work.run(Item { at: Time::ZERO, content }, |fault| faults.push(fault));
    assert_eq!((out.len(), faults), (2, vec![StepError::Field]));
    let mut faults = Vec::new();
    let content = ItemContent::Payload("no".into());
    assert!(work.run(Item { at: Time::ZERO, content }, |fault| faults.push(fault)).is_empty());
    assert_eq!(faults, [StepError::Parse]);
}

#[test]
fn topics_of_results() {
    let fill = |text: &str, topic: &str| Template::new(text).unwrap().fill(topic);
    assert_eq!(fill("clean/%2/%t", "a/b"), "clean/b/a/b");
    assert_eq!(fill("x/%9", "a"), "x/");
    for (text, filter) in [("a/b", "a/b"), ("a/%1x/c", "a/+/c"), ("a/%t/c", "a/#"), ("%t", "#")] {
        assert_eq!(Template::new(text).unwrap().filter().unwrap().as_str(), filter, "{text}");
    }
    assert!(Template::new("a/#").is_err() && Template::new("a/%x").is_err());
    let topic = bytes::Bytes::from_static(b"a/b/c");
    assert_eq!(PartitionKey::Topic.of(&topic), topic);
    assert_eq!(
        (PartitionKey::Level(1).of(&topic), PartitionKey::Level(7).of(&topic)),
        ("b".into(), "".into())
    );
}

proptest! {
    #[test]
    fn no_payload_is_too_odd(payload in prop::collection::vec(any::<u8>(), 0..200), like in "[\\[{}\\],:\"0-9a-z\\-.en ]{0,60}") {
        for bytes in [payload, like.into_bytes()] {
            for format in [Format::Json, Format::Senml, Format::Csv(csv(&["a", "b"]))] {
                let content = ItemContent::Payload(bytes.clone().into());
                let mut out = Vec::new();
                if ParseRows(format.clone()).run(Item { at: Time::ZERO, content }, &mut out).is_ok() {
                    for item in out {
                        let _ = WriteRows(format.clone()).run(item, &mut Vec::new());
                    }
                }
            }
        }
    }
}
