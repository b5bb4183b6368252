use std::fs;
use std::time::Duration;

use super::info::INFO;
use super::keeper::{FOLDER, folder_of};
use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

fn options(name: &str, keys: Vec<Key>) -> ReplicaOptions {
    let name = format!("tidegate-replica-{name}-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let _ = fs::remove_dir_all(&directory);
    ReplicaOptions { directory, each: 1 << 20, all: 1 << 30, keys }
}

fn open(options: &ReplicaOptions) -> (ReplicaDisk, Vec<CameraInfo>) {
    ReplicaDisk::open(options.clone(), &Account::new(1 << 30)).unwrap()
}

fn frame_of(camera: &str, number: u64, accuracy: f64) -> FrameMessage {
    let jpeg = vec![number as u8; 1000].into();
    let (camera, skipped, is_late) = (camera.into(), 7, true);
    FrameMessage { camera, frame: number, accuracy, jpeg, skipped, is_late, ..Default::default() }
}

fn frame(number: u64, accuracy: f64) -> FrameMessage {
    frame_of("a/b", number, accuracy)
}

fn info() -> CameraInfo {
    let (name, subscribers) = ("a/b".into(), vec!["app".into()]);
    CameraInfo { name, node: "n".into(), is_online: true, subscribers, ..Default::default() }
}

fn keep(disk: &ReplicaDisk, number: u64, accuracy: f64) {
    disk.keep(&frame(number, accuracy), &info(), false);
    settle(disk);
}

/// Waits until the thread has nothing to do.
fn settle(disk: &ReplicaDisk) {
    let is_busy = |work: &mut Work| {
        !work.frames.is_empty() || !work.told.is_empty() || work.present.is_some()
    };
    let waited = disk.shared.changed.wait_timeout_while(disk.shared.lock(), PATIENCE, is_busy);
    assert!(!waited.unwrap().1.timed_out(), "the thread goes on");
}

fn numbers_of(disk: &ReplicaDisk, camera: &str) -> Vec<(u64, f64)> {
    let mut found = Vec::new();
    let (mut next, mut reader) = (0, None);
    while let Some((number, stored)) = disk.find(camera, next) {
        let frame = stored.read(&mut reader).unwrap().unwrap();
        assert_eq!((frame.frame, frame.jpeg.len()), (number, 1000));
        assert_eq!((frame.skipped, frame.is_late), (0, false), "what was so of one flow");
        found.push((number, frame.accuracy));
        next = number + 1;
    }
    found
}

fn numbers(disk: &ReplicaDisk) -> Vec<(u64, f64)> {
    numbers_of(disk, "a/b")
}

fn folder(options: &ReplicaOptions) -> PathBuf {
    options.directory.join(FOLDER).join(folder_of("a/b"))
}

#[test]
fn frames_outlive_the_process_sealed_each_at_its_best() {
    let options = options("restart", vec![Key::new(&[7; 32])]);
    let (disk, none) = open(&options);
    assert!(none.is_empty());
    // Out of order, and one of them twice.
    for (number, accuracy) in [(3, 0.9), (1, 0.9), (2, 0.5), (2, 0.8), (2, 0.6)] {
        keep(&disk, number, accuracy);
    }
    disk.tell(&CameraInfo { subscribers: vec!["other".into()], ..info() });
    settle(&disk);
    drop(disk);
    // What is said beside the newest entries was not written.
    let mut files: Vec<_> =
        fs::read_dir(folder(&options)).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|kind| kind == "ways"));
    let said = fs::read(&files[0]).unwrap();
    fs::write(&files[0], &said[..said.len() - 200]).unwrap();
    let (disk, infos) = open(&options);
    let told = (&infos[0].subscribers[..], infos[0].newest_unix_ns, infos[0].is_online);
    assert_eq!(told, (&["other".to_owned()][..], 3, false));
    assert_eq!(numbers(&disk), [(1, 0.9), (2, 0.8), (3, 0.9)]);
    keep(&disk, 4, 0.9);
    assert_eq!(numbers(&disk).len(), 4);
    let other = ReplicaOptions { keys: vec![Key::new(&[8; 32])], ..options.clone() };
    let refused = ReplicaDisk::open(other, &Account::new(1 << 30)).unwrap_err();
    assert!(refused.to_string().ends_with("no key of [log] opens it"), "{refused}");
    for entry in fs::read_dir(folder(&options)).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        let shows = |secret: &[u8]| bytes.windows(secret.len()).any(|part| part == secret);
        assert!(!shows(b"other") && !shows(&[3; 20]) && !shows(b"kept"), "it is sealed");
    }
    disk.forget("a/b");
    assert!(disk.find("a/b", 0).is_none());
    settle(&disk);
    assert!(!folder(&options).exists());
    fs::remove_dir_all(&options.directory).unwrap();
}

#[test]
fn the_oldest_files_go_and_what_was_in_them_is_not_found() {
    let options = ReplicaOptions { each: 4 << 20, ..options("ring", Vec::new()) };
    let account = Account::new(1 << 30);
    let (disk, _) = ReplicaDisk::open(options.clone(), &account).unwrap();
    (2001..=8000).for_each(|number| keep(&disk, number, 0.9));
    let kept = numbers(&disk);
    assert!((2000..4200).contains(&kept.len()), "{}", kept.len());
    assert_eq!(kept.last(), Some(&(8000, 0.9)));
    assert_eq!(account.used(), 128 * kept.len(), "what is remembered of them");
    // A replay of older ones takes no room of newer ones, nor does a flow that is behind.
    for is_replay in [true, false] {
        (1..=2000).for_each(|number| {
            disk.keep(&frame(number, 1.0), &info(), is_replay);
            settle(&disk);
        });
    }
    assert_eq!(numbers(&disk), kept);
    disk.forget("a/b");
    settle(&disk);
    assert_eq!(account.used(), 0);
    fs::remove_dir_all(&options.directory).unwrap();
}

#[test]
fn of_all_cameras_the_one_that_is_away_longest_loses_its_oldest_frames() {
    let options = ReplicaOptions { all: 5 << 19, ..options("all", Vec::new()) };
    let (disk, _) = open(&options);
    for camera in ["a", "b", "c", "d"] {
        let info = CameraInfo { name: camera.into(), ..info() };
        for number in 1..=600 {
            disk.keep(&frame_of(camera, number, 0.9), &info, false);
            settle(&disk);
        }
    }
    let held = |disk: &ReplicaDisk| ["a", "b", "c", "d"].map(|of| numbers_of(disk, of).len());
    assert_eq!(held(&disk), [0, 600, 600, 600]);
    assert_eq!(fs::read_dir(options.directory.join(FOLDER)).unwrap().count(), 3);
    drop(disk);
    let less = ReplicaOptions { all: 3 << 19, ..options.clone() };
    assert_eq!(held(&open(&less).0).iter().filter(|held| **held > 0).count(), 2);
    fs::remove_dir_all(&options.directory).unwrap();
}

#[test]
fn what_was_not_written_is_not_found_and_costs_nothing() {
    let options = options("refused", Vec::new());
    let account = Account::new(1 << 30);
    let (disk, _) = ReplicaDisk::open(options.clone(), &account).unwrap();
    // Where the camera's folder belongs is a file.
    fs::write(folder(&options), b"").unwrap();
    (1..=3).for_each(|number| keep(&disk, number, 0.9));
    assert_eq!((numbers(&disk), account.used()), (Vec::new(), 0));
    fs::remove_file(folder(&options)).unwrap();
    drop(disk);
    let (disk, _) = ReplicaDisk::open(options.clone(), &account).unwrap();
    keep(&disk, 4, 0.5);
    drop(disk);
    // No file can be begun: the version that is known is still the one that is found.
    let account = Account::new(1 << 30);
    let (disk, _) = ReplicaDisk::open(options.clone(), &account).unwrap();
    let aside = options.directory.join("aside");
    fs::rename(folder(&options), &aside).unwrap();
    (4..=100).for_each(|number| keep(&disk, number, 0.9));
    assert_eq!(account.used(), 128);
    fs::rename(&aside, folder(&options)).unwrap();
    assert_eq!(numbers(&disk), [(4, 0.5)]);
    // What comes after a camera was forgotten is of a new one.
    disk.forget("a/b");
    disk.keep(&frame(5, 0.5), &info(), false);
    settle(&disk);
    assert_eq!(numbers(&disk), [(5, 0.5)]);
    fs::remove_dir_all(&options.directory).unwrap();
}

#[test]
fn a_folder_of_which_nobody_knows_whose_it_is_is_removed() {
    let options = options("leftover", Vec::new());
    let (disk, _) = open(&options);
    keep(&disk, 1, 0.9);
    drop(disk);
    fs::remove_file(folder(&options).join(INFO)).unwrap();
    let other = options.directory.join(FOLDER).join("not-ours");
    fs::create_dir(&other).unwrap();
    let (_disk, known) = open(&options);
    assert!(known.is_empty() && !folder(&options).exists() && other.exists());
    fs::remove_dir_all(&options.directory).unwrap();
}

#[test]
fn frames_whose_camera_cannot_be_read_are_kept_aside() {
    let options = options("damaged", Vec::new());
    for turn in 1..=2 {
        let (disk, _) = open(&options);
        keep(&disk, turn, 0.9);
        drop(disk);
        fs::write(folder(&options).join(INFO), b"damaged").unwrap();
        let (disk, known) = open(&options);
        let aside = folder(&options).with_extension(format!("unreadable-{turn}"));
        assert!(known.is_empty() && !folder(&options).exists());
        assert!(fs::read_dir(&aside).unwrap().count() >= 2, "its frames are there");
        let named = disk.aside();
        let last = named.last().unwrap();
        assert_eq!((named.len(), &*last.camera, &last.folder), (turn as usize, "a/b", &aside));
    }
    // It is named at each start, counts, and goes first.
    let (disk, _) = open(&options);
    keep(&disk, 3, 0.9);
    let bytes: u64 = disk.aside().iter().map(|one| one.bytes).sum();
    assert!(disk.aside().len() == 2 && bytes > 2000, "{:?}", disk.aside());
    drop(disk);
    let (disk, known) = open(&ReplicaOptions { all: bytes + 100, ..options.clone() });
    assert_eq!((disk.aside().len(), known.len()), (1, 1));
    assert_eq!(numbers(&disk), [(3, 0.9)]);
    disk.forget("a/b");
    settle(&disk);
    assert!(disk.aside().is_empty());
    let left = fs::read_dir(options.directory.join(FOLDER)).unwrap().count();
    assert_eq!(left, 0, "all of it is gone");
    fs::remove_dir_all(&options.directory).unwrap();
}

#[test]
fn a_frame_that_waits_is_on_the_account() {
    let options = options("waiting", Vec::new());
    let account = Account::new(40_000);
    let (disk, _) = ReplicaDisk::open(options.clone(), &account).unwrap();
    let big = FrameMessage { jpeg: vec![0; 50_000].into(), ..frame(1, 0.9) };
    disk.keep(&big, &info(), false);
    settle(&disk);
    assert!(disk.find("a/b", 0).is_none() && account.used() == 0, "no room");
    keep(&disk, 2, 0.9);
    assert_eq!(account.used(), 128);
    fs::remove_dir_all(&options.directory).unwrap();
}
