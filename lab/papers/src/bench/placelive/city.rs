//! The topics of a city's taxis at one moment: RIoTBench's rides over New York, in regions of 500 m.
//! Source: papers/topic-placement.txt, §III-A and §VI-A; the grid is that of the DEBS grand challenge of 2015.
//!
//! Each region with a taxi has two topics: `gps`, to which every taxi in it publishes once a second and which one client reads, and
//! `update`, to which the service publishes once a second and which every taxi in the region has subscribed to.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tidegate_cluster::place::Topic;

use super::plans::WORK_CV;
use crate::sim::random::Random;

/// The rides, in the folder of data.
const FILE: &str = "iot/riotbench/TAXI_sample_data_senml.csv";
/// Rides begin evenly over so many seconds, whatever their dates, for the sample is one of many nights; the city is seen at their end.
const MOMENT: f64 = 600.0;
/// The middle of the region in the north-western corner, and 500 m in degrees.
const ORIGIN: (f64, f64) = (41.474_937, -74.913_585);
const SIDE: (f64, f64) = (0.004_491_556, 0.005_986);
/// Work of a record, milliseconds: RIoTBench's ETL and prediction take as long.
const WORK_MS: [u64; 4] = [10, 20, 30, 40];
/// What all are to keep.
const BOUND: Duration = Duration::from_secs(1);

/// Latitude and longitude.
type Place = (f64, f64);

/// How far east and south of the origin a region is, in regions from 1. Places beyond its western or northern edge are in the first one there.
fn region((latitude, longitude): Place) -> (u32, u32) {
    let cell = |way: f64| (way + 0.5).floor().max(0.0) as u32 + 1;
    (cell((longitude - ORIGIN.1) / SIDE.1), cell((ORIGIN.0 - latitude) / SIDE.0))
}

/// Where a ride begins and ends, and how many seconds it takes; `None` for one without places or time.
fn ride(line: &str) -> Option<(Place, Place, f64)> {
    let pack: Value = serde_json::from_str(line.split_once(',')?.1).ok()?;
    let entries = pack["e"].as_array()?;
    let number = |name: &str| {
        let entry = entries.iter().find(|entry| entry["n"] == name)?;
        let text = entry["v"].as_str().or(entry["sv"].as_str())?;
        text.parse::<f64>().ok().filter(|number| *number != 0.0)
    };
    let place = |name: &str| {
        Some((number(&format!("{name}_latitude"))?, number(&format!("{name}_longitude"))?))
    };
    Some((place("pickup")?, place("dropoff")?, number("trip_time_in_secs").filter(|&s| s > 0.0)?))
}

/// Taxis in each region at the moment that is looked at.
fn taxis(text: &str) -> BTreeMap<(u32, u32), u32> {
    let rides: Vec<_> = text.lines().filter_map(ride).collect();
    let mut all = BTreeMap::new();
    for (number, (from, to, seconds)) in rides.iter().enumerate() {
        let part = (MOMENT - MOMENT * number as f64 / rides.len() as f64) / seconds;
        if part < 1.0 {
            let at = (from.0 + (to.0 - from.0) * part, from.1 + (to.1 - from.1) * part);
            *all.entry(region(at)).or_default() += 1;
        }
    }
    all
}

/// The topics of all regions: `gps` and `update` of each in turn.
///
/// # Errors
/// A file that cannot be read, or has no rides.
pub(super) fn draw(data: &Path, seed: u64) -> io::Result<Vec<Topic>> {
    let file = data.join(FILE);
    let text = std::fs::read_to_string(&file)
        .map_err(|error| io::Error::other(format!("{}: {error}", file.display())))?;
    let topics = topics(&taxis(&text), seed);
    if topics.is_empty() {
        return Err(io::Error::other(format!("{}: no rides", file.display())));
    }
    Ok(topics)
}

fn topics(taxis: &BTreeMap<(u32, u32), u32>, seed: u64) -> Vec<Topic> {
    let mut random = Random::new(seed, 92);
    let mut topic = |rate: u32, subscribers| Topic {
        work: Duration::from_millis(random.pick(&WORK_MS)),
        work_cv: WORK_CV,
        rate: rate.into(),
        subscribers,
        bound: BOUND,
        is_serial: false,
    };
    taxis.values().flat_map(|&taxis| [topic(taxis, 1), topic(1, taxis)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(from: Place, to: Place, seconds: u32) -> String {
        format!(
            "1358101800000,{{\"e\":[{{\"n\":\"pickup_latitude\",\"sv\":\"{}\"}},{{\"n\":\"pickup_longitude\",\"sv\":\"{}\"}},\
             {{\"n\":\"dropoff_latitude\",\"sv\":\"{}\"}},{{\"n\":\"dropoff_longitude\",\"sv\":\"{}\"}},\
             {{\"n\":\"trip_time_in_secs\",\"v\":\"{seconds}\"}}]}}",
            from.0, from.1, to.0, to.1
        )
    }

    #[test]
    fn every_taxi_under_way_publishes_in_one_region_and_has_subscribed_to_its_updates() {
        let (here, there) = ((40.7512, -73.9871), (40.7512, -73.9271));
        // The third has arrived, the fourth is nowhere; the first is a tenth of its way from where it began.
        let rides = [
            line(here, there, 6000),
            line(here, here, 9000),
            line(here, here, 60),
            line((0.0, 0.0), here, 9000),
        ];
        let taxis = taxis(&rides.join("\n"));
        let home = region(here);
        assert_eq!(taxis, BTreeMap::from([(home, 1), ((home.0 + 1, home.1), 1)]));
        let topics = topics(&BTreeMap::from([(home, 7)]), 1);
        let told: Vec<_> = topics.iter().map(|topic| (topic.rate, topic.subscribers)).collect();
        assert_eq!(told, [(7.0, 1), (1.0, 7)]);
    }

    #[test]
    fn a_region_is_500_m_wide() {
        let here = (40.7512, -73.9871);
        let (east, south) = region(here);
        assert_eq!(region((here.0, here.1 + SIDE.1)), (east + 1, south));
        assert_eq!(region((here.0 - SIDE.0, here.1)), (east, south + 1));
        let metres = 111_320.0 * SIDE.1 * 41.0_f64.to_radians().cos();
        assert!((metres - 500.0).abs() < 5.0, "{metres}");
    }
}
