//! What must hold for any bytes that are replayed as a scenario. The fuzz target and its twin among the ordinary tests
//! (`tests/fuzz_twin.rs`) share it.

use std::io::{BufRead, BufReader};

use broker_failover::engine::Timestamp;
use broker_failover::scenario::{Answer, Fault, Golden, ReplayError, Tally, replay};

/// Each line of output, and how the replay ended.
type Replayed = (Vec<String>, Result<Tally, Fault>);

/// Panics when it doesn't hold; the replay itself must never panic either.
pub(crate) fn replay_holds(data: &[u8]) {
    let mut latest = None;
    let whole = replayed_with(data, |answer| latest = Some(restoring(answer)));
    let (answers, end) = &whole;

    // The same file gives the same answers, however it arrives.
    assert_eq!(whole, replayed(data), "a second replay differs");
    assert_eq!(whole, replayed(BufReader::with_capacity(1, data)), "read byte by byte it differs");

    // One line of JSON for each input, numbered upward.
    let mut last = 0;
    for answer in answers {
        let number = answer.strip_prefix("{\"line\":").and_then(|rest| rest.split_once(',')).map(|(number, _)| number);
        let number: u64 = number.and_then(|number| number.parse().ok()).expect("an answer starts with its line");
        assert!(number > last && answer.ends_with('}') && !answer.contains('\n'), "after line {last}: {answer}");
        last = number;
    }
    match end {
        Ok(tally) => assert_eq!(tally.taken + tally.refused, answers.len() as u64, "{tally:?}"),
        Err(fault) => {
            assert!(fault.line > last && fault.column > 0, "{fault:?} after line {last}");
            assert!(!fault.found.is_empty() && !fault.expected.is_empty(), "{fault:?}");
            // Only from the fault's line on nothing is evaluated: what is before it is a scenario.
            let before = replayed(lines_before(data, fault.line));
            assert_eq!(&before.0, answers, "without the faulty line the answers differ");
            assert!(before.1.is_ok() || answers.is_empty(), "{:?} before {fault:?}", before.1);
        }
    }

    // An output is its own golden output.
    let text = answers.join("\n");
    let mut golden = Golden::new(&text);
    for answer in answers {
        golden.compare(answer).expect("it equals itself");
    }
    golden.finish().expect("it has as many lines as itself");

    // Wherever it ends, its snapshot is one that a file can start from.
    if let Some(latest) = latest {
        let (status, end) = replayed(latest.as_bytes());
        assert!(end.is_ok() && status.len() == 1, "{end:?}\n{latest}");
    }

    // How lines end is no part of what they say. (A line may be too long with its end, and isn't without it.)
    if !data.contains(&b'\r') && data.len() < 1 << 16 {
        let crlf = data.split(|&byte| byte == b'\n').collect::<Vec<_>>().join(&b"\r\n"[..]);
        assert_eq!(whole, replayed(&*crlf), "with CRLF it differs");
    }
}

fn replayed(input: impl BufRead) -> Replayed {
    replayed_with(input, |_| ())
}

fn replayed_with(input: impl BufRead, mut look: impl FnMut(&Answer<'_>)) -> Replayed {
    let mut answers = Vec::new();
    let end = replay(input, |answer| {
        look(answer);
        answers.push(answer.to_json());
        Ok(())
    });
    let end = end.map_err(|error| match error {
        ReplayError::Fault(fault) => fault,
        ReplayError::Read { .. } | ReplayError::Deliver(_) => unreachable!("neither side fails: {error}"),
    });
    (answers, end)
}

/// The engine's snapshot after this answer, as a scenario that starts from it.
fn restoring(answer: &Answer<'_>) -> String {
    let origin = answer.file_time(Timestamp::ZERO).unwrap_or_default();
    let snapshot = answer.engine.snapshot(Timestamp::from_nanos(answer.step.at - origin));
    let snapshot = serde_json::to_string(&snapshot).expect("a snapshot has a text");
    format!("{{\"config\":{{\"endpoints\":[]}}}}\n{{\"restore\":{snapshot}}}\n{{\"at\":0.0,\"status\":true}}")
}

fn lines_before(data: &[u8], line: u64) -> &[u8] {
    let mut rest = data;
    for _ in 1..line {
        let end = rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |at| at + 1);
        rest = &rest[end..];
    }
    &data[..data.len() - rest.len()]
}
