//! A film as WebM (RFC 9559, Matroska).
//!
//! The film has one VP8 picture per second. Each picture is a key frame in a cluster of its own, followed by
//! a `Void` element, so that a small film has many bytes. The index (`Cues`) precedes all clusters.

/// Duration of the film. The film is red in the first half and blue in the second half.
pub(crate) const SECONDS: u32 = 240;
/// Bytes between two pictures. The whole film is therefore longer than a browser reads before it seeks to the
/// end.
const VOID_BYTES: usize = 80 << 10;

/// Returns the film.
pub(crate) fn film() -> Vec<u8> {
    let head = [info(), tracks()].concat();
    let clusters: Vec<_> = (0..SECONDS).map(cluster).collect();
    // All numbers have eight bytes, so the places of clusters do not depend on the contents of the index.
    let first = head.len() + index(0, &clusters).len();
    let content = [head, index(first, &clusters), clusters.concat()].concat();
    [ebml(), element(&[0x18, 0x53, 0x80, 0x67], &content)].concat()
}

fn ebml() -> Vec<u8> {
    let document_type = element(&[0x42, 0x82], b"webm");
    let versions = [number(&[0x42, 0x87], 2), number(&[0x42, 0x85], 2)].concat();
    element(&[0x1a, 0x45, 0xdf, 0xa3], &[document_type, versions].concat())
}

fn info() -> Vec<u8> {
    let nanoseconds_a_tick = number(&[0x2a, 0xd7, 0xb1], 1_000_000);
    let ticks = element(&[0x44, 0x89], &(f64::from(SECONDS) * 1000.0).to_be_bytes());
    let made_by = [element(&[0x4d, 0x80], b"test"), element(&[0x57, 0x41], b"test")].concat();
    element(&[0x15, 0x49, 0xa9, 0x66], &[nanoseconds_a_tick, ticks, made_by].concat())
}

fn tracks() -> Vec<u8> {
    let video = [number(&[0xb0], 64), number(&[0xba], 64)].concat();
    let entry = [number(&[0xd7], 1), number(&[0x73, 0xc5], 1), number(&[0x83], 1)].concat();
    let entry = [entry, element(&[0x86], b"V_VP8"), element(&[0xe0], &video)].concat();
    element(&[0x16, 0x54, 0xae, 0x6b], &element(&[0xae], &entry))
}

/// Returns the index with the offset of each cluster, counted from the end of the segment's head. The offset
/// of the first cluster is `first`.
fn index(first: usize, clusters: &[Vec<u8>]) -> Vec<u8> {
    let mut place = first;
    let mut points = Vec::new();
    for (second, cluster) in (0..).zip(clusters) {
        let positions = [number(&[0xf7], 1), number(&[0xf1], place as u64)].concat();
        let point = [number(&[0xb3], second * 1000), element(&[0xb7], &positions)].concat();
        points.extend(element(&[0xbb], &point));
        place += cluster.len();
    }
    element(&[0x1c, 0x53, 0xbb, 0x6b], &points)
}

fn cluster(second: u32) -> Vec<u8> {
    let picture = if second < SECONDS / 2 { RED } else { BLUE };
    // The head of a block says: track 1, at the time of the cluster, a key frame.
    let block = [&[0x81, 0, 0, 0x80], picture].concat();
    let time = number(&[0xe7], u64::from(second) * 1000);
    let void = element(&[0xec], &vec![0; VOID_BYTES]);
    element(&[0x1f, 0x43, 0xb6, 0x75], &[time, element(&[0xa3], &block), void].concat())
}

/// Returns an element with its length in eight bytes (RFC 8794).
fn element(id: &[u8], content: &[u8]) -> Vec<u8> {
    let length = (1 << 56) | content.len() as u64;
    [id, &length.to_be_bytes(), content].concat()
}

fn number(id: &[u8], number: u64) -> Vec<u8> {
    element(id, &number.to_be_bytes())
}

/// A red picture, made by `ffmpeg -f lavfi -i color=c=red:s=64x64 -frames:v 1 -c:v libvpx -b:v 20k -f ivf -`,
/// without the 44 bytes of IVF. The blue picture was made in the same way.
const RED: &[u8] = &[
    0xd0, 0x03, 0x00, 0x9d, 0x01, 0x2a, 0x40, 0x00, 0x40, 0x00, 0x00, 0x47, 0x08, 0x85, 0x85, 0x88, 0x99,
    0x84, 0x88, 0x02, 0x02, 0x02, 0x75, 0xaa, 0x03, 0xf8, 0x03, 0xfa, 0x02, 0x07, 0x1a, 0x4f, 0xc8, 0x2d,
    0x48, 0x4c, 0x01, 0x56, 0x30, 0x00, 0xfe, 0xfd, 0x6e, 0xf3, 0xff, 0xe4, 0x6f, 0xe3, 0xe7, 0x46, 0xff,
    0xc8, 0xe3, 0xff, 0xfc, 0x4a, 0x9e, 0xe3, 0x89, 0xe3, 0xff, 0xfc, 0x46, 0x80,
];
const BLUE: &[u8] = &[
    0x90, 0x03, 0x00, 0x9d, 0x01, 0x2a, 0x40, 0x00, 0x40, 0x00, 0x00, 0x47, 0x08, 0x85, 0x85, 0x88, 0x99,
    0x84, 0x88, 0x02, 0x02, 0x02, 0x75, 0xaa, 0x03, 0xf8, 0x02, 0x06, 0xe8, 0x4a, 0x30, 0x15, 0x64, 0x41,
    0xee, 0xcc, 0x4e, 0x00, 0xfe, 0xff, 0x4d, 0x12, 0xff, 0xfc, 0x4a, 0xa7, 0xf1, 0x2a, 0x9f, 0xc4, 0xaa,
    0x7f, 0xf1, 0x2a, 0x9f, 0xfd, 0x18, 0x7f, 0x0c, 0x3f, 0x86, 0x1f, 0xde, 0x10,
];
