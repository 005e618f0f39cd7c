//! A disk with a write-back cache whose power is cut at any moment, also while a start puts right what the last cut left.
//!
//! What was not synced survives in part: any of its sectors, any length between the old and the new one, any of the
//! names that were given or taken. Whatever is left, no acknowledged record may be missing, none may be there that was
//! never written, and only where there are no recent records may a hole in what nobody was told to be durable stop a start.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use broker_failover::engine::*;
use broker_failover::supervisor::journal::*;

use crate::desk::*;

const SECTOR: usize = 512;

/// Files by name, as a cut leaves them.
type Image = BTreeMap<String, Vec<u8>>;

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end.max(1)
    }

    fn between(&mut self, one: usize, other: usize) -> usize {
        one.min(other) + self.below(one.abs_diff(other) + 1)
    }
}

/// A file: what is on disk, and what a process sees.
#[derive(Clone, Default)]
struct Content {
    disk: Arc<Vec<u8>>,
    cache: Arc<Vec<u8>>,
}

impl Content {
    fn survives(&self, random: &mut Random) -> Vec<u8> {
        let (disk, cache) = (&*self.disk, &*self.cache);
        let length = match random.below(4) {
            0 => disk.len(),
            1 => random.between(disk.len(), cache.len()),
            _ => cache.len(),
        };
        let mut left = disk.clone();
        left.resize(length, 0);
        let sectors = length.div_ceil(SECTOR);
        let (way, changed) =
            (random.below(6), (0..sectors).filter(|sector| part(disk, *sector) != part(cache, *sector)));
        let changed: Vec<_> = changed.collect();
        let one = changed.get(random.below(changed.len())).copied().unwrap_or(0);
        for sector in changed {
            let survives = match way {
                0 => true,
                1 => sector < one,
                2 => sector > one,
                3 => sector != one,
                4 => (sector / 8) % 2 == one % 2,
                _ => random.below(2) == 0,
            };
            let bytes = part(cache, sector);
            let begin = sector * SECTOR;
            let end = (begin + bytes.len()).min(length);
            if survives && begin < end {
                left[begin..end].copy_from_slice(&bytes[..end - begin]);
            }
        }
        left
    }
}

fn part(bytes: &[u8], sector: usize) -> &[u8] {
    let end = bytes.len().min((sector + 1) * SECTOR);
    bytes.get(sector * SECTOR..end).unwrap_or_default()
}

#[derive(Clone)]
enum Named {
    Added(String, usize),
    Renamed(String, String, usize),
    Removed(String),
}

impl Named {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Added(name, file) => drop(names.insert(name.clone(), *file)),
            Self::Removed(name) => drop(names.remove(name)),
            Self::Renamed(from, to, file) => {
                names.remove(from);
                names.insert(to.clone(), *file);
            }
        }
    }
}

/// Everything that a cut can leave a part of.
#[derive(Clone, Default)]
struct State {
    files: Vec<Content>,
    on_disk: BTreeMap<String, usize>,
    names: BTreeMap<String, usize>,
    /// Changes of names that are not on disk.
    changed: Vec<Named>,
}

impl State {
    fn synced(image: &Image) -> Self {
        let content = |bytes: &Vec<u8>| Content { disk: Arc::new(bytes.clone()), cache: Arc::new(bytes.clone()) };
        let names: BTreeMap<_, _> = image.keys().cloned().zip(0..).collect();
        Self { files: image.values().map(content).collect(), on_disk: names.clone(), names, changed: Vec::new() }
    }

    /// A start changed `before` into `after` and got to no sync that says so.
    fn between(before: &Image, after: &Image) -> Self {
        let mut state = Self::synced(before);
        for (name, bytes) in after {
            if let Some(file) = state.names.get(name) {
                state.files[*file].cache = Arc::new(bytes.clone());
            } else {
                state.change(|file| Named::Added(name.clone(), file));
                state.files.push(Content { disk: Arc::default(), cache: Arc::new(bytes.clone()) });
            }
        }
        state
    }

    fn settle(&mut self) {
        self.files.iter_mut().for_each(|file| file.disk = Arc::clone(&file.cache));
        self.changed.clear();
        self.on_disk = self.names.clone();
    }

    fn change(&mut self, change: impl FnOnce(usize) -> Named) {
        let change = change(self.files.len());
        change.apply(&mut self.names);
        self.changed.push(change);
    }

    fn cut(&self, random: &mut Random) -> Image {
        let mut names = self.on_disk.clone();
        let (way, one) = (random.below(4), random.below(self.changed.len() + 1));
        for (at, change) in self.changed.iter().enumerate() {
            let survives = match way {
                0 => true,
                1 => at < one,
                2 => at != one,
                _ => random.below(2) == 0,
            };
            if survives {
                change.apply(&mut names);
            }
        }
        names.into_iter().map(|(name, file)| (name, self.files[file].survives(random))).collect()
    }
}

/// A moment at which the power may be cut, and the last record that was acknowledged then.
struct Moment(State, Seq);

#[derive(Default)]
struct Disk {
    state: Mutex<State>,
    moments: Mutex<Vec<Moment>>,
    acknowledged: AtomicU64,
}

impl Disk {
    fn moment(&self) {
        let acknowledged = self.acknowledged.load(Ordering::SeqCst);
        let moment = Moment(self.state.lock().unwrap().clone(), acknowledged);
        self.moments.lock().unwrap().push(moment);
    }

    fn acknowledge(&self, seq: Seq) {
        self.acknowledged.fetch_max(seq, Ordering::SeqCst);
    }

    fn step<T>(&self, step: impl FnOnce(&mut State) -> T) -> T {
        let done = step(&mut self.state.lock().unwrap());
        self.moment();
        done
    }
}

/// The folder as the journal sees it, while the disk behind it lags.
struct Cached {
    folder: std::path::PathBuf,
    disk: Arc<Disk>,
    /// What the last cut left, until the journal asks for anything: by then a start has put it right.
    before: Option<Image>,
    /// Whether recent records can be kept.
    prepares: bool,
}

struct CachedFile {
    file: fs::File,
    at: usize,
    disk: Arc<Disk>,
}

impl CachedFile {
    fn put(&self, bytes: &[u8], begin: Option<u64>) {
        self.disk.step(|state| {
            let cache = Arc::make_mut(&mut state.files[self.at].cache);
            let begin = begin.map_or(cache.len(), |begin| begin as usize);
            cache.resize(cache.len().max(begin + bytes.len()), 0);
            cache[begin..begin + bytes.len()].copy_from_slice(bytes);
        });
    }

    fn synced(&self) {
        self.disk.step(|state| state.files[self.at].disk = Arc::clone(&state.files[self.at].cache));
    }
}

impl SegmentFile for CachedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.put(bytes, None);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.synced();
        Ok(())
    }

    fn reserve(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }
}

impl PreparedFile for CachedFile {
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, at)?;
        self.put(bytes, Some(at));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.synced();
        Ok(())
    }
}

impl Cached {
    fn begin(&mut self) {
        if let Some(before) = self.before.take() {
            let after = image(&self.folder);
            *self.disk.state.lock().unwrap() = State::between(&before, &after);
            self.disk.moment();
            self.disk.state.lock().unwrap().settle();
        }
    }

    fn file(&self, file: fs::File, at: usize) -> CachedFile {
        CachedFile { file, at, disk: Arc::clone(&self.disk) }
    }
}

impl Storage for Cached {
    fn create(&mut self, name: &str) -> io::Result<Box<dyn SegmentFile>> {
        self.begin();
        let file = OpenOptions::new().append(true).create_new(true).open(self.folder.join(name))?;
        let at = self.disk.step(|state| {
            state.change(|file| Named::Added(name.to_owned(), file));
            state.files.push(Content::default());
            state.files.len() - 1
        });
        Ok(Box::new(self.file(file, at)))
    }

    fn append(&mut self, name: &str) -> io::Result<Box<dyn SegmentFile>> {
        self.begin();
        let file = OpenOptions::new().append(true).open(self.folder.join(name))?;
        let at = self.disk.state.lock().unwrap().names[name];
        Ok(Box::new(self.file(file, at)))
    }

    fn prepare(&mut self, name: &str, bytes: usize) -> io::Result<Box<dyn PreparedFile>> {
        self.begin();
        if self.folder.join(name).exists() {
            Storage::remove(self, name)?;
        }
        if !self.prepares {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = OpenOptions::new().write(true).create_new(true).open(self.folder.join(name))?;
        let at = self.disk.step(|state| {
            state.change(|file| Named::Added(name.to_owned(), file));
            state.files.push(Content::default());
            state.files.len() - 1
        });
        let mut file = self.file(file, at);
        file.write_at(&vec![0; bytes], 0)?;
        PreparedFile::sync(&mut file)?;
        Ok(Box::new(file))
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.begin();
        fs::rename(self.folder.join(from), self.folder.join(to))?;
        self.disk.step(|state| {
            let file = state.names[from];
            state.change(|_| Named::Renamed(from.to_owned(), to.to_owned(), file));
        });
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.begin();
        fs::remove_file(self.folder.join(name))?;
        self.disk.step(|state| state.change(|_| Named::Removed(name.to_owned())));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.begin();
        self.disk.step(|state| {
            state.changed.clear();
            state.on_disk = state.names.clone();
        });
        Ok(())
    }
}

fn image(folder: &Path) -> Image {
    let entries = fs::read_dir(folder).into_iter().flatten().map(Result::unwrap);
    let files = entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()));
    files.filter(|(name, _)| name != "LOCK").collect()
}

fn laid_down(name: &str, image: &Image) -> Folder {
    let folder = Folder::new(name);
    fs::create_dir_all(&folder.0).unwrap();
    for (name, bytes) in image {
        // Blanks at the end say nothing, and would be most of what this test writes.
        let end = if name == "RECENT" {
            bytes.iter().rposition(|byte| *byte != 0).map_or(0, |end| end + 1)
        } else {
            bytes.len()
        };
        fs::write(folder.0.join(name), &bytes[..end]).unwrap();
    }
    folder
}

/// Every segment that ever was, as it was in the end: what was truly written.
struct Truth {
    files: Image,
    records: BTreeMap<Seq, Record>,
}

impl Truth {
    fn of(disk: &Disk) -> Self {
        let state = disk.state.lock().unwrap();
        let mut names = BTreeMap::new();
        let moments = disk.moments.lock().unwrap();
        for named in moments.iter().map(|moment| &moment.0.names).chain([&state.names]) {
            names.extend(
                named.iter().filter(|(name, _)| name.ends_with(".jsonl")).map(|(name, file)| (name.clone(), *file)),
            );
        }
        let files: Image = names.into_iter().map(|(name, file)| (name, state.files[file].cache.to_vec())).collect();
        let records = laid_down("truth", &files).records();
        Self { files, records: records.into_iter().map(|record| (record.seq, record)).collect() }
    }

    /// The number of the first record of the newest segment that `left` does not have as it was written, and whether
    /// anything is behind it.
    fn first_missing(&self, left: &Image) -> (Seq, bool) {
        let (name, left) = left.iter().rfind(|(name, _)| name.ends_with(".jsonl")).unwrap();
        let truth = &self.files[name];
        let same = left.iter().zip(truth).take_while(|(left, truth)| left == truth).count();
        let lines = truth[..same].iter().filter(|byte| **byte == b'\n').count() as Seq;
        let begin = truth[..same].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let line = truth[begin..].iter().position(|byte| *byte == b'\n').map_or(left.len(), |end| begin + end + 1);
        (name[..20].parse::<Seq>().unwrap() + lines, left.len() > line)
    }
}

#[derive(Default)]
struct Found {
    cuts: usize,
    put_back: usize,
    torn: usize,
    refused: usize,
    /// There were always recent records, so that no hole may stop a start.
    strict: bool,
}

impl Found {
    /// One cut: gives what is left if a supervisor can go on with it.
    fn check(
        &mut self,
        Moment(state, acknowledged): &Moment,
        truth: &Truth,
        random: &mut Random,
        what: &str,
    ) -> Option<Image> {
        let left = state.cut(random);
        self.cuts += 1;
        let folder = laid_down("write-back-cut", &left);
        let keep = |why: &str| -> ! {
            let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("write-back-failed");
            let _ = fs::remove_dir_all(&kept);
            fs::rename(&folder.0, &kept).unwrap();
            panic!("{what}: {why}; see {}", kept.display());
        };
        let recovered = match folder.recover() {
            Ok(recovered) => recovered,
            Err(error) => {
                let (missing, follows) = truth.first_missing(&left);
                if missing <= *acknowledged || !follows || (self.strict && left.contains_key("RECENT")) {
                    keep(&format!("{error}; record {missing} is missing, {acknowledged} was acknowledged"));
                }
                self.refused += 1;
                return None;
            }
        };
        if recovered.next <= *acknowledged {
            keep(&format!("record {acknowledged} was acknowledged, {} is next", recovered.next));
        }
        let records = folder.records();
        if let Some(other) = records.iter().find(|record| truth.records.get(&record.seq) != Some(*record)) {
            keep(&format!("record {} was never written so", other.seq));
        }
        if *acknowledged > 0 && records.last().map(|record| record.seq + 1) != Some(recovered.next) {
            keep("not every record is read");
        }
        if records.windows(2).any(|pair| pair[1].seq != pair[0].seq + 1) {
            keep("a record is missing, or there twice");
        }
        if let Err(error) = folder.verify() {
            keep(&error.to_string());
        }
        self.torn += usize::from(recovered.torn.is_some());
        let whole = left.iter().rfind(|(name, _)| name.ends_with(".jsonl"));
        self.put_back += usize::from(whole.is_some() && truth.first_missing(&left).0 < recovered.next);
        Some(left)
    }
}

/// A supervisor's life on what a cut left: whatever it does, the disk may be cut at any moment of it.
fn live(left: &Image, acknowledged: Seq, prepares: bool, random: &mut Random) -> Arc<Disk> {
    let folder = laid_down("write-back", left);
    let disk = Arc::new(Disk::default());
    disk.acknowledge(acknowledged);
    let keep = Keep { age: Duration::MAX, size: [u64::MAX, 20_000][random.below(2)] };
    let segment_size = [u64::MAX, 6_000, 60_000][random.below(3)];
    let options = Options { segment_size, keep, ..folder.options() };
    let storage = Cached { folder: folder.0.clone(), disk: Arc::clone(&disk), before: Some(left.clone()), prepares };
    let (journal, recovered) = Journal::open_on(options, at(0), Box::new(storage)).unwrap();
    disk.acknowledge(recovered.next);
    disk.moment();
    let mut desk = Desk::new_or_recovered("main", &journal.handle(), &recovered);
    for _ in 0..random.below(30) {
        act(&mut desk, &disk, random);
    }
    if random.below(2) == 0 {
        journal.close(at(desk.now), "end").unwrap();
    } else {
        drop(journal);
    }
    disk.moment();
    disk
}

fn act(desk: &mut Desk, disk: &Disk, random: &mut Random) {
    match random.below(16) {
        0..4 => (0..random.below(30)).for_each(|_| desk.probe("west", true)),
        4..6 => desk.append(note(&"observed ".repeat(random.below(300)))),
        6..9 => disk.acknowledge(desk.evaluate(FenceClaim::None).unwrap()),
        9..11 => disk.acknowledge(desk.durably(note(&"decided ".repeat(random.below(300))))),
        // Nobody waits to hear of it.
        11..13 => drop(desk.journal.append_durable(desk.entry(note("decided")))),
        // What does not fit among the recent ones.
        13 if random.below(8) == 0 => {
            (0..20).for_each(|_| disk.acknowledge(desk.durably(note(&"x".repeat(60_000)))));
        }
        // The segment is synced because it is time.
        14 if random.below(8) == 0 => std::thread::sleep(SYNC_EVERY + WRITE_WITHIN * 10),
        _ => std::thread::sleep(WRITE_WITHIN * 2),
    }
    disk.moment();
}

/// Some lives, each on what a cut of the one before left.
fn lives(seed: u64, found: &mut Found) {
    let mut random = Random(seed);
    let (mut left, mut acknowledged) = (Image::new(), 0);
    for life in 0..4 {
        let prepares = random.below(8) != 0;
        found.strict &= prepares;
        let disk = live(&left, acknowledged, prepares, &mut random);
        let truth = Truth::of(&disk);
        let moments = disk.moments.lock().unwrap();
        for _ in 0..40 {
            let moment = &moments[random.below(moments.len())];
            if let Some(next) = found.check(moment, &truth, &mut random, &format!("seed {seed}, life {life}")) {
                (left, acknowledged) = (next, moment.1);
            }
        }
    }
}

#[test]
fn whatever_a_power_cut_leaves_no_acknowledged_record_is_lost_and_none_is_invented() {
    let seeds = std::env::var("WRITE_BACK_SEEDS").map_or(2, |seeds| seeds.parse().unwrap());
    let found = Mutex::new(Found::default());
    std::thread::scope(|scope| {
        for thread in 0..2_u64 {
            let found = &found;
            scope.spawn(move || {
                for seed in 0..seeds {
                    let mut mine = Found { strict: true, ..Found::default() };
                    lives(0x9E37_79B9_7F4A_7C15 ^ ((seed * 2 + thread + 1) << 20), &mut mine);
                    let mut all = found.lock().unwrap();
                    all.cuts += mine.cuts;
                    all.put_back += mine.put_back;
                    all.torn += mine.torn;
                    all.refused += mine.refused;
                }
            });
        }
    });
    let Found { cuts, put_back, torn, refused, .. } = found.into_inner().unwrap();
    println!("{cuts} cuts: records put back after {put_back}, torn lines after {torn}, {refused} refused for a hole");
    assert!(put_back > cuts / 100 && torn > cuts / 100 && refused < cuts / 4);
}
