"""The parts that cases and studies share."""
