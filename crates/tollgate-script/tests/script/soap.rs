//! Tests of `tollgate.soap`.

use tollgate_script::Outcome;

use crate::app::{App, finish, handler_of, request, text};

const SOAP_11: &str = "http://schemas.xmlsoap.org/soap/envelope/";
const SOAP_12: &str = "http://www.w3.org/2003/05/soap-envelope";
const XML: &str = "Content-Type: text/xml; charset=utf-8\r\n";
const SOAP_XML: &str = "Content-Type: application/soap+xml; action=\"urn:create\"\r\n";

/// A handler that shows the message, or replies the fault.
const SHOW: &str = "
    local message, fault, problem = tollgate.soap.body(req, { understood = { '{urn:s}Known' } })
    if not message then tollgate.log.info(problem) return fault end
    local id = tollgate.xml.text(message.content)
    return { json = { message.version, message.name, message.uri, message.action or 'none', #message.headers, id } }";

fn ask(source: &str, fields: &str, body: &str) -> Outcome {
    let app = App::new();
    let length = body.len();
    let head = format!("POST / HTTP/1.1\r\nHost: test\r\n{fields}Content-Length: {length}\r\n\r\n");
    finish(app.handler(&handler_of(source)).call(request(&head, body.as_bytes()))).unwrap()
}

fn envelope(namespace: &str, header: &str, body: &str) -> String {
    format!(
        "<e:Envelope xmlns:e=\"{namespace}\" xmlns:o=\"urn:o\">{header}<e:Body>{body}</e:Body></e:Envelope>"
    )
}

#[test]
fn the_message_of_an_envelope_has_its_name_namespace_and_action() {
    let check = |fields: &str, document: &str, expect: &str| {
        let outcome = ask(SHOW, fields, document);
        assert_eq!((outcome.status, text(&outcome).as_str()), (200, expect), "{document}");
    };
    let create = "<o:create><id>7</id></o:create>";
    let quoted = format!("{XML}SOAPAction: \"urn:create\"\r\n");
    check(&quoted, &envelope(SOAP_11, "", create), r#"["1.1","create","urn:o","urn:create",0,"7"]"#);
    let bare = format!("{XML}SOAPAction: urn:a\r\n");
    check(&bare, &envelope(SOAP_11, "", create), r#"["1.1","create","urn:o","urn:a",0,"7"]"#);
    check(SOAP_XML, &envelope(SOAP_12, "", create), r#"["1.2","create","urn:o","urn:create",0,"7"]"#);
    let inner = "<create xmlns=\"urn:i\">8</create>";
    check("", &envelope(SOAP_11, "", inner), r#"["1.1","create","urn:i","none",0,"8"]"#);
    let known = "<e:Header><s:Known xmlns:s=\"urn:s\" e:mustUnderstand=\"1\"/><o:Other/></e:Header>";
    check("", &envelope(SOAP_11, known, create), r#"["1.1","create","urn:o","none",2,"7"]"#);
    let plain = format!("<Envelope xmlns=\"{SOAP_11}\"><Body><a/></Body></Envelope>");
    check("", &plain, &format!("[\"1.1\",\"a\",\"{SOAP_11}\",\"none\",0,\"\"]"));
}

#[test]
fn an_envelope_that_is_refused_has_a_fault_of_its_version() {
    let check = |fields: &str, document: &str, status: u16, parts: [&str; 2]| {
        let outcome = ask(SHOW, fields, document);
        let content = text(&outcome);
        assert_eq!(outcome.status, status, "{document}: {content}");
        assert!(parts.iter().all(|part| content.contains(part)), "{document}: {content}");
    };
    let client = "<faultcode>s:Client</faultcode>";
    let sender = "<s:Value>s:Sender</s:Value>";
    check("", "<a", 500, [client, "<faultstring>"]);
    check(SOAP_XML, "<a/>", 400, [sender, ">the outermost element is a, allowed is Envelope</s:Text>"]);
    check("", &envelope(SOAP_12, "", "<a/>"), 500, ["s:VersionMismatch", SOAP_11]);
    check(SOAP_XML, &envelope(SOAP_11, "", "<a/>"), 500, ["s:VersionMismatch", SOAP_12]);
    check("", &envelope(SOAP_11, "", "text"), 500, [client, "the envelope has no Body with an element"]);
    let other = "<e:Header><o:Known e:mustUnderstand=\"true\"/></e:Header>";
    let reason = "the header block o:Known is not understood";
    check("", &envelope(SOAP_11, other, "<a/>"), 500, ["<faultcode>s:MustUnderstand</faultcode>", reason]);
    let harmless = "<e:Header><o:Known o:mustUnderstand=\"true\" e:mustUnderstand=\"0\"/></e:Header>";
    assert_eq!(ask(SHOW, "", &envelope(SOAP_11, harmless, "<o:a/>")).status, 200);
}

#[test]
fn replies_and_faults_are_written_in_the_version_of_the_request() {
    let check = |call: &str, fields: &str, status: u16, kind: &str, expect: &str| {
        let outcome = ask(&format!("return tollgate.soap.{call}"), fields, "");
        assert_eq!(outcome.status, status, "{call}");
        let lines: Vec<_> = outcome.headers.iter().map(|line| format!("{line:?}")).collect();
        assert!(lines.iter().any(|line| line.contains(kind)), "{call}: {lines:?}");
        let content = text(&outcome);
        assert_eq!(content.split_once('\n').unwrap().1, expect, "{call}");
    };
    let in_envelope = |namespace: &str, content: &str| {
        format!("<s:Envelope xmlns:s=\"{namespace}\"><s:Body>{content}</s:Body></s:Envelope>")
    };
    let reply = "reply(req, { tag = 'a', '1 < 2' })";
    check(reply, XML, 200, "text/xml; charset=utf-8", &in_envelope(SOAP_11, "<a>1 &lt; 2</a>"));
    check(
        reply,
        SOAP_XML,
        200,
        "application/soap+xml; charset=utf-8",
        &in_envelope(SOAP_12, "<a>1 &lt; 2</a>"),
    );
    let fault = "fault(req, 'Receiver', 'too late', { tag = 'why', 'x' })";
    let old = "<s:Fault><faultcode>s:Server</faultcode><faultstring>too late</faultstring>\
               <detail><why>x</why></detail></s:Fault>";
    check(fault, XML, 500, "text/xml", &in_envelope(SOAP_11, old));
    let new = "<s:Fault><s:Code><s:Value>s:Receiver</s:Value></s:Code><s:Reason>\
               <s:Text xml:lang=\"en\">too late</s:Text></s:Reason><s:Detail><why>x</why></s:Detail></s:Fault>";
    check(fault, SOAP_XML, 500, "application/soap+xml", &in_envelope(SOAP_12, new));
}

#[test]
fn wrong_arguments_are_errors_that_name_the_function() {
    let app = App::new();
    for (call, expect) in [
        (
            "fault(req, 'Oops', 'x')",
            "code of tollgate.soap.fault is Oops: allowed is Sender, Receiver, Client",
        ),
        ("fault(req, 'Sender', 7)", "reason of tollgate.soap.fault is a number: allowed is a string"),
        (
            "fault(req, 'Sender', 'x', 'y')",
            "detail of tollgate.soap.fault is a string: allowed is an element",
        ),
        ("reply(req, 'x')", "content of tollgate.soap.reply is a string: allowed is an element"),
        (
            "body(req, { understood = 'x' })",
            "understood of tollgate.soap.body is a string: allowed is a list",
        ),
    ] {
        let error = app.error(&format!("return tollgate.soap.{call}"));
        assert!(error.contains(expect), "{call}: {error}");
    }
}
