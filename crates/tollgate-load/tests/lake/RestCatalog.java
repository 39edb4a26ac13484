import java.io.File;
import java.net.InetSocketAddress;
import java.util.Map;
import org.apache.iceberg.Files;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.io.PositionOutputStream;
import org.apache.iceberg.io.SeekableInputStream;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/** The REST catalog of the tests of Apache Iceberg, over files of this machine: RestCatalog DATABASE FOLDER. */
public class RestCatalog {
  /** Files without the classes of Hadoop. */
  static class LocalFiles implements FileIO {
    static File at(String address) {
      return new File(address.replaceFirst("^file:/+", "/"));
    }

    public InputFile newInputFile(String address) {
      InputFile file = Files.localInput(at(address));
      return new InputFile() {
        public long getLength() {
          return file.getLength();
        }

        public SeekableInputStream newStream() {
          return file.newStream();
        }

        public String location() {
          return address;
        }

        public boolean exists() {
          return file.exists();
        }
      };
    }

    public OutputFile newOutputFile(String address) {
      at(address).getParentFile().mkdirs();
      OutputFile file = Files.localOutput(at(address));
      return new OutputFile() {
        public PositionOutputStream create() {
          return file.create();
        }

        public PositionOutputStream createOrOverwrite() {
          return file.createOrOverwrite();
        }

        public String location() {
          return address;
        }

        public InputFile toInputFile() {
          return newInputFile(address);
        }
      };
    }

    public void deleteFile(String address) {
      at(address).delete();
    }
  }

  public static void main(String[] arguments) throws Exception {
    JdbcCatalog catalog = new JdbcCatalog(properties -> new LocalFiles(), null, true);
    catalog.initialize(
        "tests",
        Map.of(
            "uri", "jdbc:sqlite:" + arguments[0],
            "warehouse", "file://" + arguments[1],
            "jdbc.schema-version", "V1"));
    Server server = new Server(new InetSocketAddress("127.0.0.1", 0));
    ServletContextHandler context = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
    context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
    server.setHandler(context);
    server.start();
    System.out.println(((ServerConnector) server.getConnectors()[0]).getLocalPort());
    System.out.flush();
    // The end of the input ends the server.
    while (System.in.read() >= 0) {}
    System.exit(0);
  }
}
