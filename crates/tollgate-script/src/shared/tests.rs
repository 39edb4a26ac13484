//! Tests of the values that threads share.

use std::thread;

use super::*;

const ROOM: usize = 1 << 20;

fn number(value: f64) -> SharedValue {
    SharedValue::Number(value)
}

fn text(value: &[u8]) -> SharedValue {
    SharedValue::Text(value.into())
}

fn writing(now: Instant, ttl_s: Option<u64>) -> Writing {
    Writing { now, ttl: ttl_s.map(Duration::from_secs), bytes_max: ROOM }
}

/// Returns the sum of the sizes of all entries, in bytes.
fn counted(shared: &SharedStore) -> usize {
    let of_shard = |shard: &Mutex<Shard>| {
        let shard = locked(shard);
        assert_eq!(shard.ends.len(), shard.entries.values().filter(|entry| entry.end.is_some()).count());
        shard.entries.iter().map(|(key, entry)| entry_bytes(key, &entry.value)).sum::<usize>()
    };
    shared.shards.iter().map(of_shard).sum()
}

#[test]
fn a_value_is_there_until_its_end() {
    let (shared, now) = (SharedStore::default(), Instant::now());
    let at = |seconds| now + Duration::from_secs(seconds);
    assert_eq!(shared.value(b"a", now), None);
    assert_eq!(shared.put(b"a", &text(b"1"), When::Always, writing(now, Some(10))), Ok(true));
    assert_eq!(shared.value(b"a", at(9)), Some(text(b"1")));
    assert_eq!(shared.value(b"a", at(10)), None);
    assert_eq!(shared.bytes(), 0);

    assert_eq!(shared.put(b"a", &number(1.0), When::Always, writing(now, Some(10))), Ok(true));
    assert_eq!(shared.put(b"a", &number(2.0), When::Always, writing(at(1), None)), Ok(true));
    assert_eq!(shared.value(b"a", at(1000)), Some(number(2.0)));
    assert!(shared.delete(b"a", now) && !shared.delete(b"a", now));
    assert_eq!((shared.bytes(), counted(&shared)), (0, 0));
}

#[test]
fn a_value_is_written_where_what_is_there_is_as_asked() {
    let (shared, now) = (SharedStore::default(), Instant::now());
    let put = |value: f64, when: When<'_>| shared.put(b"a", &number(value), when, writing(now, None));
    assert_eq!(put(1.0, When::Is(Some(&number(0.0)))), Ok(false));
    assert_eq!(put(1.0, When::Absent), Ok(true));
    assert_eq!(put(2.0, When::Absent), Ok(false));
    assert_eq!(put(2.0, When::Is(None)), Ok(false));
    assert_eq!(put(2.0, When::Is(Some(&text(b"1")))), Ok(false));
    assert_eq!(put(2.0, When::Is(Some(&number(1.0)))), Ok(true));
    assert_eq!(shared.value(b"a", now), Some(number(2.0)));
}

#[test]
fn a_counter_keeps_its_end_and_begins_anew_after_it() {
    let (shared, now) = (SharedStore::default(), Instant::now());
    let at = |seconds| now + Duration::from_secs(seconds);
    let increase = |seconds| shared.increase(b"n", 1.0, 10.0, writing(at(seconds), Some(60)));
    assert_eq!(increase(0), Ok(11.0));
    assert_eq!(increase(59), Ok(12.0));
    assert_eq!(increase(60), Ok(11.0));
    assert_eq!(counted(&shared), shared.bytes());
    assert_eq!(shared.put(b"t", &text(b"x"), When::Always, writing(now, None)), Ok(true));
    assert_eq!(shared.increase(b"t", 1.0, 0.0, writing(now, None)), Err(SharedError::NoNumber));
    for by in [f64::NAN, f64::INFINITY, 2.0 * NUMBER_MAX] {
        assert_eq!(shared.increase(b"n", by, 0.0, writing(now, None)), Err(SharedError::TooLarge));
    }
    assert_eq!(shared.increase(b"n", -1.5, 0.0, writing(now, None)), Ok(9.5));
}

#[test]
fn a_value_without_room_is_refused_and_an_expired_one_makes_room() {
    let (shared, now) = (SharedStore::default(), Instant::now());
    let later = now + Duration::from_secs(10);
    let value = text(&[b'x'; 1000]);
    let mut count: u32 = 0;
    while shared.put(&count.to_le_bytes(), &value, When::Always, writing(now, Some(10))).is_ok() {
        count += 1;
    }
    let each = ENTRY_BYTES + 4 + 1000;
    assert_eq!(usize::try_from(count).unwrap(), ROOM / each);
    let full = SharedError::Full { needed: each, used: shared.bytes(), limit: ROOM };
    assert_eq!(shared.put(b"more", &value, When::Always, writing(now, None)), Err(full));

    // A present value may be replaced by a value that is not longer, even at or above the limit.
    let tight = Writing { bytes_max: 1, ..writing(now, Some(10)) };
    assert_eq!(shared.put(&0_u32.to_le_bytes(), &value, When::Always, tight), Ok(true));
    assert_eq!(shared.put(&0_u32.to_le_bytes(), &text(b""), When::Always, tight), Ok(true));
    assert_eq!(counted(&shared), shared.bytes());

    let large = text(&vec![b'x'; ROOM / 2]);
    assert_eq!(shared.put(b"large", &large, When::Always, writing(later, None)), Ok(true));
    assert_eq!(counted(&shared), shared.bytes());
    assert!(shared.bytes() <= ROOM, "{}", shared.bytes());
    let whole = text(&vec![b'x'; ROOM]);
    let refused = shared.put(b"whole", &whole, When::Always, writing(later, None));
    assert!(matches!(refused, Err(SharedError::Full { .. })), "{refused:?}");
}

#[test]
fn threads_lose_no_count_and_win_each_place_once() {
    const THREADS: usize = 8;
    const TURNS: usize = 2000;
    let (shared, now) = (SharedStore::default(), Instant::now());
    let work = |thread: usize| {
        let mut won = 0;
        for turn in 0..TURNS {
            shared.increase(b"all", 1.0, 0.0, writing(now, None)).unwrap();
            let place = turn.to_le_bytes();
            won += usize::from(shared.put(&place, &number(0.0), When::Absent, writing(now, None)).unwrap());
            // Repeats the swap until no other thread has changed the value in between.
            loop {
                let before = shared.value(b"swapped", now);
                let next = match &before {
                    Some(SharedValue::Number(number)) => number + 1.0,
                    _ => 1.0,
                };
                let when = When::Is(before.as_ref());
                if shared.put(b"swapped", &number(next), when, writing(now, None)).unwrap() {
                    break;
                }
            }
            let own = [thread.to_le_bytes(), place].concat();
            shared.put(&own, &text(&own), When::Always, writing(now, Some(1))).unwrap();
            assert!(shared.delete(&own, now));
        }
        won
    };
    let won: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let all = number((THREADS * TURNS) as f64);
    assert_eq!(won, TURNS);
    assert_eq!(shared.value(b"all", now), Some(all.clone()));
    assert_eq!(shared.value(b"swapped", now), Some(all));
    assert_eq!(counted(&shared), shared.bytes());
}

#[test]
fn threads_that_fill_it_stay_within_the_limit() {
    let (shared, now) = (SharedStore::default(), Instant::now());
    let fill = |thread: u64| {
        let mut is_full = false;
        for turn in 0..4000_u64 {
            let key = [thread.to_le_bytes(), turn.to_le_bytes()].concat();
            // The time advances by one second after each thousand turns.
            let now = now + Duration::from_secs(turn / 1000);
            let writing = Writing { ttl: Some(Duration::from_millis(500)), ..writing(now, None) };
            is_full |= shared.put(&key, &text(&[b'x'; 500]), When::Always, writing).is_err();
            assert!(shared.bytes() <= ROOM);
        }
        is_full
    };
    let fill = &fill;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || fill(thread))).collect();
        assert!(threads.into_iter().any(|thread| thread.join().unwrap()), "it never was full");
    });
    assert_eq!(counted(&shared), shared.bytes());
}
