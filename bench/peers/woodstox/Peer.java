import java.io.*;
import java.nio.file.*;
import javax.xml.stream.*;
import org.codehaus.stax2.*;
import org.codehaus.stax2.validation.*;

/** Reads a document by Woodstox, alone and with MSV, for some seconds of warming and then for some rounds. */
public class Peer {
    public static void main(String[] args) throws Exception {
        byte[] document = Files.readAllBytes(Path.of(args[1]));
        int rounds = Integer.parseInt(args[2]);
        long warm = Long.parseLong(args[3]) * 1_000_000_000L;
        XMLValidationSchema schema = XMLValidationSchemaFactory
            .newInstance(XMLValidationSchema.SCHEMA_ID_RELAXNG).createSchema(new File(args[0]));
        XMLInputFactory2 factory = (XMLInputFactory2) XMLInputFactory.newInstance();
        long end = System.nanoTime() + warm;
        while (System.nanoTime() < end) { read(factory, document, null); read(factory, document, schema); }
        for (int round = 0; round < rounds; round++) {
            long alone = read(factory, document, null);
            long both = read(factory, document, schema);
            System.out.println(round + " " + document.length + " " + alone + " " + both);
        }
    }

    static long read(XMLInputFactory2 factory, byte[] document, XMLValidationSchema schema) throws Exception {
        long start = System.nanoTime();
        XMLStreamReader2 reader =
            (XMLStreamReader2) factory.createXMLStreamReader(new ByteArrayInputStream(document));
        if (schema != null) reader.validateAgainst(schema);
        long count = 0;
        while (reader.hasNext()) {
            int type = reader.next();
            if (type == XMLStreamConstants.START_ELEMENT) {
                count += reader.getLocalName().length() + reader.getNamespaceURI().length();
                for (int i = 0; i < reader.getAttributeCount(); i++) count += reader.getAttributeValue(i).length();
            } else if (type == XMLStreamConstants.CHARACTERS) count += reader.getTextLength();
        }
        reader.close();
        if (count == 0) throw new IllegalStateException();
        return System.nanoTime() - start;
    }
}
