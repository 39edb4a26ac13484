//! Choices from the bytes of an input.

/// Reads an input from its start. After its end all choices are the first one.
#[derive(Debug)]
pub struct Choices<'a> {
    rest: &'a [u8],
}

impl<'a> Choices<'a> {
    /// Makes the choices of an input.
    pub fn new(input: &'a [u8]) -> Self {
        Self { rest: input }
    }

    /// Chooses a number below `count`.
    pub fn below(&mut self, count: usize) -> usize {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        usize::from(*first) % count.max(1)
    }

    /// Chooses one of several.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}
