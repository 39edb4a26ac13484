"""The packs of the fuzz corpus."""

import unittest

from pack import DamagedPack, packed, unpacked

INPUTS = {b"", b"GET / HTTP/1.1\r\n\r\n", b"\x00", b"\xff" * 300}


class Packs(unittest.TestCase):
    def test_a_pack_gives_its_inputs_back(self):
        self.assertEqual(unpacked(packed(INPUTS)), sorted(INPUTS))
        self.assertEqual(unpacked(packed(set())), [])

    def test_the_same_inputs_give_the_same_pack(self):
        self.assertEqual(packed(INPUTS), packed(set(sorted(INPUTS, reverse=True))))

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
