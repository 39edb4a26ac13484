#!/usr/bin/env python3
"""Prints the records of a topic for tests: read_topic.py BROKER TOPIC ISOLATION.

It reads by librdkafka, so it shares no code with the program. It reads each partition up to its end at the
call. With `read_committed` it waits until the transactions that are open before this end are over.

A record is a line: partition, headers, key and value, separated by U+001F. U+001E separates headers. A value
with the header `tollgate-format` is no text, and is printed in hexadecimal digits.
"""

import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

WAIT_S = 60
READ_MAX_S = 240


def open_consumer(broker: str, isolation: str) -> Consumer:
    """Returns a consumer without a group, which reports the end of each partition."""
    options = {
        "bootstrap.servers": broker,
        "group.id": "read_topic",
        "isolation.level": isolation,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    return Consumer(options)


def ends_of(broker: str, topic: str) -> dict[int, int]:
    """Returns the end of each partition that has records, with the records of open transactions."""
    consumer = open_consumer(broker, "read_uncommitted")
    found = consumer.list_topics(topic, timeout=WAIT_S).topics[topic]
    if found.error:
        raise KafkaException(found.error)
    places = [TopicPartition(topic, partition) for partition in found.partitions]
    offsets = {place.partition: consumer.get_watermark_offsets(place, timeout=WAIT_S) for place in places}
    consumer.close()
    return {partition: end for partition, (first, end) in offsets.items() if end > first}


def text_of(part: bytes | None) -> str:
    """Returns a key, a value or a header as text. Bytes that are no text, and line ends, are U+FFFD."""
    return "null" if part is None else part.decode(errors="replace").replace("\n", "\ufffd")


def line_of(record) -> str:
    """Returns the line of a record."""
    headers = "\x1e".join(f"{name}:{text_of(value)}" for name, value in record.headers() or [])
    is_text = all(name != "tollgate-format" for name, _ in record.headers() or [])
    value = text_of(record.value()) if is_text else record.value().hex()
    parts = [str(record.partition()), headers, text_of(record.key()), value]
    return "\x1f".join(parts)


def main() -> None:
    """Prints all records."""
    broker, topic, isolation = sys.argv[1:]
    ends = ends_of(broker, topic)
    consumer = open_consumer(broker, isolation)
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in ends])
    deadline = time.monotonic() + READ_MAX_S
    while ends:
        if time.monotonic() > deadline:
            raise SystemExit(f"partitions {sorted(ends)} of {topic} are not read after {READ_MAX_S} s")
        record = consumer.poll(1)
        if record is None:
            continue
        next_offset = record.offset()
        if record.error() is None:
            print(line_of(record))
            next_offset += 1
        elif record.error().code() != KafkaError._PARTITION_EOF:
            if record.error().retriable():
                continue
            raise KafkaException(record.error())
        # The end of a partition may have the offset after a marker, which is no record.
        if next_offset >= ends.get(record.partition(), next_offset + 1):
            del ends[record.partition()]
    consumer.close()


if __name__ == "__main__":
    main()
