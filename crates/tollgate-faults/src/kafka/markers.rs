//! Requests that end transactions in their partitions, and answers to them.
//!
//! The layout is in `WriteTxnMarkersRequest.json` and `WriteTxnMarkersResponse.json` of Kafka 4.4, for the
//! versions 1 and 2. A length of an array or a name is an unsigned varint, one larger than the length.

/// API key of WriteTxnMarkers.
const KEY: i16 = 27;
/// The version whose markers have the version of their transaction.
const WITH_TRANSACTION_VERSION: i16 = 2;
/// Bytes of the epoch of the producer, and of the result, which the answer lacks.
const EPOCH_AND_RESULT: usize = 2 + 1;

/// Returns the answer that all markers of a request are written. `None`: the bytes are no such request.
///
/// # Panics
/// The request has another layout.
pub(super) fn answer(request: &[u8]) -> Option<Vec<u8>> {
    let key = request.get(4..6)?;
    (key == KEY.to_be_bytes()).then(|| answer_markers(request).expect("the layout of Kafka 4.4"))
}

fn answer_markers(request: &[u8]) -> Option<Vec<u8>> {
    let mut input = Input(request.get(6..)?);
    let version = i16::from_be_bytes(*input.take(2)?.first_chunk()?);
    let mut answer = vec![0; 4];
    // The number of the request, then no tags.
    answer.extend(input.take(4)?);
    answer.push(0);
    let client_bytes = i16::from_be_bytes(*input.take(2)?.first_chunk()?);
    input.take(client_bytes.try_into().ok()?)?;
    input.no_tags()?;
    for _ in 0..input.copy_count(&mut answer)? {
        // The id of the producer.
        answer.extend(input.take(8)?);
        input.take(EPOCH_AND_RESULT)?;
        for _ in 0..input.copy_count(&mut answer)? {
            let name_bytes = input.copy_count(&mut answer)?;
            answer.extend(input.take(name_bytes)?);
            for _ in 0..input.copy_count(&mut answer)? {
                answer.extend(input.take(4)?);
                // No error, no tags.
                answer.extend([0; 3]);
            }
            input.no_tags()?;
            answer.push(0);
        }
        // The epoch of the coordinator.
        input.take(4)?;
        input.take(usize::from(version >= WITH_TRANSACTION_VERSION))?;
        input.no_tags()?;
        answer.push(0);
    }
    answer.push(0);
    let bytes = u32::try_from(answer.len() - 4).ok()?;
    answer[..4].copy_from_slice(&bytes.to_be_bytes());
    Some(answer)
}

/// The part of a request that is not read yet.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Copies the length of an array or a name, and returns it. The requests of a test have short ones.
    fn copy_count(&mut self, answer: &mut Vec<u8>) -> Option<usize> {
        let count = self.take(1)?[0];
        answer.push(count);
        (1..0x80).contains(&count).then(|| usize::from(count) - 1)
    }

    fn no_tags(&mut self) -> Option<()> {
        (self.take(1)? == [0]).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_partition_of_a_request_is_answered() {
        let head = [0, 27, 0, 2, 0, 0, 0, 9, 0, 1, b'c', 0];
        let marker = [2, 0, 0, 0, 0, 0, 0, 0, 5, 0, 3, 1, 2, 2, b't', 3, 0, 0, 0, 4, 0, 0, 0, 6, 0];
        let tail = [0, 0, 0, 8, 2, 0, 0];
        let body = [&head[..], &marker, &tail].concat();
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        let found = answer(&[&length[..], &body].concat()).unwrap();
        let partitions = [3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0];
        let expected = [&[0, 0, 0, 9, 0, 2, 0, 0, 0, 0, 0, 0, 0, 5, 2, 2, b't'][..], &partitions, &[0, 0, 0]];
        let expected = expected.concat();
        let length = u32::try_from(expected.len()).unwrap().to_be_bytes();
        assert_eq!(found, [&length[..], &expected].concat());
    }

    #[test]
    fn other_requests_have_no_answer() {
        assert_eq!(answer(&[0, 0, 0, 4, 0, 26, 0, 2]), None);
        assert_eq!(answer(b"short"), None);
    }
}
