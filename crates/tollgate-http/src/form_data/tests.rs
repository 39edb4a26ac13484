//! Valid and malformed forms.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

const TYPE: &str = "multipart/form-data; boundary=b";

fn read(content_type: &str, body: &str) -> Result<Vec<String>, FormError> {
    let show = |part: FormPart<'_>| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let filename = part.filename.as_deref().map_or("-".to_owned(), text);
        let content_type = part.content_type.map_or("-".to_owned(), text);
        format!("{}|{filename}|{content_type}|{}", text(&part.name), text(part.content))
    };
    FormParts::new(content_type.as_bytes(), body.as_bytes())?.map(|part| part.map(show)).collect()
}

fn one(head: &str) -> Result<Vec<String>, FormError> {
    read(TYPE, &format!("--b\r\n{head}\r\n\r\nx\r\n--b--"))
}

#[test]
fn a_form_is_cut_into_its_parts() {
    let check = |body: &str, expect: &[&str]| assert_eq!(read(TYPE, body).unwrap(), expect, "{body:?}");
    let a = "Content-Disposition: form-data; name=\"a\"\r\n";
    let file = "content-disposition:form-data;name=f; filename=\"f.txt\"\r\nContent-Type: text/plain\r\n";
    check("--b--", &[]);
    check("--b--\r\nepilogue", &[]);
    check(&format!("--b\r\n{a}\r\n1\r\n--b--\r\n"), &["a|-|-|1"]);
    check(&format!("preamble\r\n--b \t\r\n{a}\r\n1\r\n--b--"), &["a|-|-|1"]);
    check(&format!("--b\r\n{a}\r\n--b--"), &["a|-|-|"]);
    check(&format!("--b\r\n{a}\r\n\r\n--b--"), &["a|-|-|"]);
    check(&format!("--b\r\n{a}\r\n\r\n\r\n\r\n--b--"), &["a|-|-|\r\n\r\n"]);
    check(&format!("--b\r\n{a}\r\nx--b\n-b\r\n-b\r\n--b--"), &["a|-|-|x--b\n-b\r\n-b"]);
    check(
        &format!("--b\r\n{a}\r\n1\r\n--b\r\n{file}\r\nline\r\n\r\n--b\r\n{a}\r\n2\r\n--b--"),
        &["a|-|-|1", "f|f.txt|text/plain|line\r\n", "a|-|-|2"],
    );
}

#[test]
fn names_are_words_or_in_quotes() {
    let check = |parameters: &str, expect: &str| {
        let read = one(&format!("Content-Disposition: form-data{parameters}"));
        assert_eq!(read.unwrap(), [format!("{expect}|-|x")], "{parameters}");
    };
    check("; name=a", "a|-");
    check(" ;NAME = a".replace(" = ", "=").as_str(), "a|-");
    check("; name=\"\"; filename=\"\"", "|");
    check("; name=\"a;b=c\"; filename=\"q\\\"\\\\.txt\"", "a;b=c|q\"\\.txt");
    check("; name=a; filename=\"C:\\dir\\f.txt\"", "a|C:\\dir\\f.txt");
    check("; name=a; filename*=UTF-8''x%20y; other=1;", "a|x y");
    check("; name=a; filename*=\"UTF-8''%C3%BC\"", "a|\u{fc}");
    check("; name=a; filename*=UTF-8''x; filename=\"f\"", "a|f");
    check("; name=a; filename*=x", "a|x");
    check("; name=\"\u{fc}\"; filename=\"..%22\u{fc}\"", "\u{fc}|..%22\u{fc}");
}

#[test]
fn a_part_that_could_be_read_in_two_ways_is_refused() {
    let check = |head: &str, expect: &str| {
        let problem = match one(head) {
            Err(FormError::Part { at: 6, problem }) => problem,
            other => panic!("{head}: {other:?}"),
        };
        assert_eq!(problem, expect, "{head}");
    };
    let disposition = "Content-Disposition: form-data; name=a";
    check("Content-Type: text/plain", "has no content-disposition");
    check("", "has no content-disposition");
    check("Content-Disposition: attachment; name=a", "has a content-disposition other than form-data");
    check("Content-Disposition: form-data", "has no name parameter");
    check("Content-Disposition: form-data; filename=a", "has no name parameter");
    check(&format!("{disposition}; name=b"), "repeats a field or parameter");
    check(&format!("{disposition}; filename=a; FILENAME=b"), "repeats a field or parameter");
    check(&format!("{disposition}; filename*=a; FILENAME*=b"), "repeats a field or parameter");
    check(&format!("{disposition}\r\n{disposition}"), "repeats a field or parameter");
    check(
        &format!("{disposition}\r\nContent-Type: a/b\r\nContent-Type: a/b"),
        "repeats a field or parameter",
    );
    check(
        &format!("{disposition}\r\nContent-Transfer-Encoding: base64"),
        "has a content-transfer-encoding other than 7bit, 8bit, binary",
    );
    for parameter in ["; name=\"a", "; name=a b", "; name", "; name=", "; =a", "; n ame=a", "; name=\"a\"b"] {
        check(&format!("Content-Disposition: form-data{parameter}"), "has a malformed parameter");
    }
    check("no colon", "has a line without a colon");
    check(&format!("{disposition}\r\n folded: line"), "has a malformed line");
    check(&format!("{disposition}\r\nX: a\nb"), "has a malformed line");
    check(&format!("{disposition}\r\nX: a\0b"), "has a malformed line");
    assert!(one(&format!("{disposition}\r\nContent-Transfer-Encoding: 8BIT\r\nX-Other: 1")).is_ok());
}

#[test]
fn a_form_that_is_cut_off_anywhere_is_refused() {
    let body = "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--b\r\nContent-Disposition: form-data; name=c\r\n\r\n2\r\n--b--";
    assert_eq!(read(TYPE, body).unwrap(), ["a|-|-|1", "c|-|-|2"]);
    for end in 0..body.len() {
        let error = read(TYPE, &body[..end]).unwrap_err();
        let expect = if end < 3 { FormError::Start } else { FormError::End };
        assert_eq!(error, expect, "{end}");
    }
    assert_eq!(read(TYPE, "--bc\r\n\r\n"), Err(FormError::Delimiter { at: 4 }));
    assert_eq!(read(TYPE, "--b\n--b--"), Err(FormError::Delimiter { at: 4 }));
    assert_eq!(read(TYPE, "--b--c"), Err(FormError::Delimiter { at: 4 }));
    assert_eq!(read(TYPE, "a=1"), Err(FormError::Start));
}

#[test]
fn the_head_of_a_part_is_bounded() {
    let start = "Content-Disposition: form-data; name=";
    let longest = PART_HEAD_BYTES_MAX - start.len();
    assert!(one(&format!("{start}{}", "n".repeat(longest))).is_ok());
    let head = format!("{start}{}", "n".repeat(longest + 1));
    assert_eq!(one(&head), Err(FormError::PartHead { at: 6 }));
}

#[test]
fn the_boundary_is_that_of_the_content_type() {
    let check = |parameters: &str, expect: Option<&str>| {
        let content_type = format!("multipart/form-data{parameters}");
        let found = boundary(content_type.as_bytes());
        assert_eq!(found.as_deref(), expect.map(str::as_bytes), "{parameters}");
    };
    check("; boundary=----WebKitFormBoundary7MA4", Some("----WebKitFormBoundary7MA4"));
    check(";charset=utf-8 ; Boundary=\"a b;c\" ", Some("a b;c"));
    check("", None);
    check("; boundary=", None);
    check("; boundary=\"\"", None);
    check("; boundary=\"a \"", None);
    check("; boundary=a; boundary=a", None);
    check("; boundary=\"a", None);
    check(&format!("; boundary={}", "b".repeat(70)), Some(&"b".repeat(70)));
    check(&format!("; boundary={}", "b".repeat(71)), None);
}

proptest! {
    #[test]
    fn a_written_form_reads_back(parts in vec((word_of(), vec(any::<u8>(), 0..40)), 0..6), is_ended in any::<bool>()) {
        let mut body = Vec::new();
        for (name, content) in &parts {
            let head = format!("--b!\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(content);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"--b!--");
        if is_ended {
            body.extend_from_slice(b"\r\n");
        }
        let read = FormParts::new(b"multipart/form-data; boundary=\"b!\"", &body);
        let read: Vec<_> = read.unwrap().map(Result::unwrap).collect();
        let read: Vec<_> = read.iter().map(|part| (&*part.name, part.content)).collect();
        let written: Vec<_> = parts.iter().map(|(name, content)| (name.as_bytes(), &content[..])).collect();
        prop_assert_eq!(read, written);
    }

    #[test]
    fn bytes_of_any_kind_are_a_form_or_an_error(pieces in vec(piece(), 0..30), content_type in piece()) {
        let body = pieces.concat();
        for content_type in [TYPE.as_bytes(), &content_type] {
            if let Ok(parts) = FormParts::new(content_type, &body) {
                prop_assert!(parts.count() <= body.len());
            }
        }
    }
}

fn word_of() -> impl Strategy<Value = String> {
    "[a-z \\[\\];=]{0,8}"
}

/// Generates pieces of forms, because the parser would refuse fully random input at the first line.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let known: [&[u8]; 10] = [
        b"--b",
        b"--b\r\n",
        b"\r\n--b\r\n",
        b"--",
        b"\r\n",
        b"\r\n\r\n",
        b"Content-Disposition: form-data; name=",
        b"\"",
        b";boundary=b",
        b"\\",
    ];
    prop_oneof![4 => select(known.map(<[u8]>::to_vec).to_vec()), 1 => vec(any::<u8>(), 0..5)]
}
