"""The packs of the fuzz corpus."""

import unittest
import zlib

from pack import DamagedPack, packed, unpacked

INPUTS = {b"", b"GET / HTTP/1.1\r\n\r\n", b"\x00", b"\xff" * 300}


class Packs(unittest.TestCase):
    def test_a_pack_gives_its_inputs_back(self):
        self.assertEqual(unpacked(packed(INPUTS)), sorted(INPUTS))
        self.assertEqual(unpacked(packed(set())), [])

    def test_a_pack_has_the_format_of_its_description(self):
        content = b"TGPACK01" + b"\2\0\0\0" + b"\1\0\0\0a" + b"\3\0\0\0b\r\n"
        self.assertEqual(packed({b"b\r\n", b"a"}), content + zlib.crc32(content).to_bytes(4, "little"))

    def test_the_order_of_the_inputs_does_not_matter(self):
        inputs = {bytes([byte]) for byte in range(255, -1, -1)}
        self.assertEqual(unpacked(packed(inputs)), [bytes([byte]) for byte in range(256)])

    def test_a_pack_with_an_altered_byte_is_refused(self):
        pack = packed(INPUTS)
        for at in range(len(pack)):
            with self.subTest(at=at), self.assertRaises(DamagedPack):
                unpacked(pack[:at] + bytes([pack[at] ^ 1]) + pack[at + 1 :])

    def test_a_pack_that_was_cut_is_refused(self):
        pack = packed(INPUTS)
        for length in range(len(pack)):
            with self.subTest(length=length), self.assertRaises(DamagedPack):
                unpacked(pack[:length])


if __name__ == "__main__":
    unittest.main()
