import com.thaiopensource.util.PropertyMapBuilder;
import com.thaiopensource.validate.*;
import com.thaiopensource.validate.rng.CompactSchemaReader;
import com.thaiopensource.validate.auto.AutoSchemaReader;
import java.io.*;
import java.nio.file.*;
import java.util.*;
import org.xml.sax.*;
import org.xml.sax.helpers.DefaultHandler;

/** Judges the cases of a folder by Jing: files N.rnc and N.rng with documents N-K.xml. Prints a line for each file. */
public class Jing {
    public static void main(String[] args) throws Exception {
        File[] files = new File(args[0]).listFiles((folder, name) -> name.endsWith(".rnc"));
        Arrays.sort(files);
        for (File schema : files) {
            String stem = schema.getPath().substring(0, schema.getPath().length() - 4);
            ValidationDriver compact = driver(CompactSchemaReader.getInstance());
            boolean isCorrect = load(compact, schema);
            print(schema, isCorrect);
            File xml = new File(stem + ".rng");
            print(xml, load(driver(new AutoSchemaReader()), xml));
            if (!isCorrect) continue;
            for (int k = 0; ; k++) {
                File document = new File(stem + "-" + k + ".xml");
                if (!document.exists()) break;
                print(document, compact.validate(ValidationDriver.fileInputSource(document)));
            }
        }
    }

    static ValidationDriver driver(SchemaReader reader) {
        PropertyMapBuilder properties = new PropertyMapBuilder();
        properties.put(ValidateProperty.ERROR_HANDLER, new DefaultHandler() {
            @Override public void error(SAXParseException e) {}
            @Override public void fatalError(SAXParseException e) {}
        });
        return new ValidationDriver(properties.toPropertyMap(), reader);
    }

    static boolean load(ValidationDriver driver, File file) throws Exception {
        try { return driver.loadSchema(ValidationDriver.fileInputSource(file)); } catch (SAXException e) { return false; }
    }

    static void print(File file, boolean verdict) { System.out.println(file.getName() + " " + verdict); }
}
