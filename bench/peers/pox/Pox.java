import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import javax.xml.stream.XMLOutputFactory;
import javax.xml.stream.XMLStreamException;
import javax.xml.stream.XMLStreamWriter;
import org.apache.catalina.startup.Tomcat;
import org.apache.catalina.valves.AccessLogValve;

/**
 * Lists methods as XML: an embedded Tomcat writes the document by Woodstox for each request, and a buffered line of its
 * access log. Arguments: the port, the folder, and a file with one method a line: name, description, and then the name
 * and the type of each argument, separated by tabs.
 */
public class Pox extends HttpServlet {
    private static final XMLOutputFactory FACTORY = XMLOutputFactory.newInstance();
    private final List<String[]> methods;

    Pox(List<String[]> methods) {
        this.methods = methods;
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse reply) throws IOException {
        if (request.getRequestURI().equals("/fixed")) {
            reply.setContentType("text/plain");
            reply.getWriter().print("hello, world\n");
            return;
        }
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(4608);
        try {
            write(FACTORY.createXMLStreamWriter(bytes, "UTF-8"));
        } catch (XMLStreamException fault) {
            throw new IOException(fault);
        }
        reply.setContentType("application/xml");
        reply.setContentLength(bytes.size());
        bytes.writeTo(reply.getOutputStream());
    }

    private void write(XMLStreamWriter out) throws XMLStreamException {
        out.writeStartDocument();
        out.writeStartElement("services");
        for (String[] method : methods) {
            out.writeStartElement("method");
            out.writeAttribute("name", method[0]);
            out.writeStartElement("description");
            out.writeCharacters(method[1]);
            out.writeEndElement();
            for (int at = 2; at < method.length; at += 2) {
                out.writeEmptyElement("arg");
                out.writeAttribute("name", method[at]);
                out.writeAttribute("type", method[at + 1]);
            }
            out.writeEndElement();
        }
        out.writeEndElement();
        out.writeEndDocument();
        out.close();
    }

    public static void main(String[] arguments) throws Exception {
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(arguments[1]);
        tomcat.setHostname("127.0.0.1");
        tomcat.setPort(Integer.parseInt(arguments[0]));
        tomcat.getConnector().setProperty("maxKeepAliveRequests", "-1");
        tomcat.getConnector().setProperty("acceptCount", "4096");
        var context = tomcat.addContext("", null);
        List<String[]> methods =
                Files.readAllLines(Path.of(arguments[2])).stream().map(line -> line.split("\t")).toList();
        Tomcat.addServlet(context, "pox", new Pox(methods));
        context.addServletMappingDecoded("/*", "pox");
        AccessLogValve log = new AccessLogValve();
        log.setDirectory(arguments[1] + "/logs");
        log.setPattern("common");
        log.setBuffered(true);
        tomcat.getHost().getPipeline().addValve(log);
        tomcat.start();
        tomcat.getServer().await();
    }
}
