//! The bounds of schemas and of documents.

/// The bounds of a schema, over all files that it includes.
#[derive(Clone, Copy, Debug)]
pub struct SchemaLimits {
    /// Bytes of all files.
    pub bytes_max: usize,
    /// Number of files, with repeated includes.
    pub files_max: usize,
    /// Levels of patterns inside each other, through definitions as well.
    pub depth_max: usize,
    /// Number of patterns after all definitions are resolved.
    pub patterns_max: usize,
    /// Number of comparisons that the restrictions of section 7 need.
    pub comparisons_max: u64,
}

impl Default for SchemaLimits {
    fn default() -> Self {
        Self {
            bytes_max: 8 << 20,
            files_max: 256,
            depth_max: 256,
            patterns_max: 200_000,
            comparisons_max: 20_000_000,
        }
    }
}

/// The bounds of a document, and of the automaton that the documents of a thread share.
#[derive(Clone, Copy, Debug)]
pub struct ValidationLimits {
    /// Levels of elements.
    pub depth_max: usize,
    /// Bytes of text in an element whose text has a datatype. Such text is held until the element ends.
    pub data_bytes_max: usize,
    /// Units of work of one document. An event is one unit, and so is each pattern that a derivative visits.
    pub work_max: u64,
    /// Number of patterns that the automaton adds to the schema before it is emptied.
    pub patterns_max: usize,
    /// Number of transitions that the automaton keeps before it is emptied.
    pub transitions_max: usize,
}

impl Default for ValidationLimits {
    fn default() -> Self {
        Self {
            depth_max: 128,
            data_bytes_max: 1 << 20,
            work_max: u64::MAX,
            patterns_max: 100_000,
            transitions_max: 200_000,
        }
    }
}
