//! Times of orders, by table.

use super::*;

const NOW: u64 = 1_800_000_000;

fn certificate(age: u64, life: u64) -> CertificateFacts {
    CertificateFacts {
        subject: String::new(),
        issuer: String::new(),
        serial: String::new(),
        names: Vec::new(),
        not_before: NOW - age,
        not_after: NOW - age + life,
        fingerprint: String::new(),
    }
}

fn issued(at: u64) -> Due {
    Due { issued_at: Some(at), ..Due::default() }
}

#[test]
fn a_certificate_is_renewed_in_the_window_of_the_server_or_after_two_thirds() {
    let life = 90 * DAY;
    let check = |age: u64, due: Due, expect: bool| {
        let is_due = due.next_order(Some(&certificate(age, life)), NOW) <= NOW;
        assert_eq!(is_due, expect, "{age} {due:?}");
    };
    check(59 * DAY, issued(NOW - 59 * DAY), false);
    check(60 * DAY, issued(NOW - 60 * DAY), true);
    let window = |chosen| Some(Window { start: chosen, end: chosen, chosen });
    check(70 * DAY, Due { window: window(NOW + 1), ..issued(NOW - 70 * DAY) }, false);
    check(40 * DAY, Due { window: window(NOW), ..issued(NOW - 40 * DAY) }, true);
    check(0, Due { is_requested: true, ..issued(NOW) }, true);
    // The certificate is of another server: it was not issued from this directory.
    check(0, Due::default(), true);
}

#[test]
fn a_clock_that_is_a_year_ahead_orders_once_and_not_for_ever() {
    let life = 90 * DAY;
    // The server's clock is a year behind, so the new certificate is over already.
    let certificate = certificate(365 * DAY, life);
    let due = issued(NOW);
    assert_eq!(due.next_order(Some(&certificate), NOW), NOW + life / 3);
    // The clock is set back: the certificate is good for its whole life.
    let before = NOW - 365 * DAY;
    assert_eq!(due.next_order(Some(&certificate), before), before + life / 3 * 2);
}

#[test]
fn pauses_after_failures_grow_to_a_day_and_obey_retry_after() {
    let mut due = Due::default();
    let mut pauses = Vec::new();
    for _ in 0..10 {
        due.note_failure("no".to_owned(), None, false, NOW, 0);
        pauses.push(due.next_order(None, NOW) - NOW);
    }
    assert_eq!(pauses, [10, 60, 600, HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR, 16 * HOUR, DAY, DAY]);
    let mut renewal = Due::default();
    renewal.note_failure("no".to_owned(), None, true, NOW, 0);
    assert_eq!(renewal.next_order(None, NOW), NOW + HOUR);
    for (asked, expect) in [
        (RetryAfter::Seconds(7 * DAY), 7 * DAY),
        (RetryAfter::At(NOW + 3 * DAY), 3 * DAY),
        (RetryAfter::Seconds(1), HOUR),
        (RetryAfter::At(NOW - 5), HOUR),
    ] {
        let mut due = Due::default();
        due.note_failure("no".to_owned(), Some(asked), true, NOW, 0);
        assert_eq!(due.next_order(None, NOW), NOW + expect, "{asked:?}");
    }
}

#[test]
fn the_window_is_asked_for_at_least_daily_and_its_time_stays_while_it_is_the_same() {
    let mut due = issued(NOW);
    assert!(due.is_question_due(NOW));
    due.note_window(Some((NOW, NOW + 100)), 21_600, NOW, 30);
    assert_eq!(due.window.unwrap().chosen, NOW + 30);
    assert!(!due.is_question_due(NOW + 20_000) && due.is_question_due(NOW + 21_600));
    due.note_window(Some((NOW, NOW + 100)), u64::MAX, NOW, 77);
    assert_eq!(due.window.unwrap().chosen, NOW + 30);
    assert!(!due.is_question_due(NOW + 22 * HOUR) && due.is_question_due(NOW + DAY));
    due.note_window(Some((NOW, NOW + 101)), 1, NOW, 77);
    assert_eq!(due.window.unwrap().chosen, NOW + 77);
    assert!(due.is_question_due(NOW + HOUR) && !due.is_question_due(NOW + HOUR / 2));
    assert!(!Due::default().is_question_due(NOW), "there is no certificate to ask about");
}

#[test]
fn another_directory_begins_anew() {
    let failed = Due { directory: "a".to_owned(), failures: 3, not_before: Some(NOW + 9), ..Due::default() };
    assert_eq!(failed.clone().at("a"), failed);
    assert_eq!(failed.at("b"), Due { directory: "b".to_owned(), ..Due::default() });
}
