"""The smallest change that would let a waiting ask run, found by trying changes on copies of the state. Nothing of the
live state is touched: the caller makes the copies (docs/adr/explanations-and-previews.md)."""
