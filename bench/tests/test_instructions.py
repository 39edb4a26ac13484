"""The kinds of requests whose instructions are counted."""

import unittest

from cases.events import EVENT
from instructions import COLLECT, FIXED, Kind, request_of


class Requests(unittest.TestCase):
    def test_a_kind_without_a_body_is_a_get(self):
        kind = Kind("fixed reply", FIXED, "/fixed", 16, b"hello")
        self.assertEqual(request_of(kind), b"GET /fixed HTTP/1.1\r\nHost: a\r\n\r\n")

    def test_a_connection_for_each_request_is_closed_by_it(self):
        kind = Kind("fixed reply", FIXED, "/fixed", 1, b"hello", is_each=True)
        self.assertEqual(request_of(kind), b"GET /fixed HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")

    def test_a_kind_with_a_body_is_a_post_of_its_length(self):
        head, body = request_of(Kind("collect", COLLECT, "/event", 16, b"", EVENT)).split(b"\r\n\r\n", 1)
        self.assertEqual(head, b"POST /event HTTP/1.1\r\nHost: a\r\nContent-Length: 200")
        self.assertEqual(body, EVENT)


if __name__ == "__main__":
    unittest.main()
