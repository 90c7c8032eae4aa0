// pgjdbc on both types: getBytes, setBytes, streams, getObject, metadata, batches and statements that the
// server prepares, in text and binary transfer, in all query modes.
import java.io.*;
import java.sql.*;
import java.util.*;

public class Clients {
    static final byte[] CHUNK = new byte[10000];
    static final byte[] HEX = "\\x4142".getBytes();

    static String show(byte[] data) {
        return data == null ? "null" : data.length + " " + Arrays.hashCode(data) + " " + new String(data, 0, Math.min(data.length, 20), java.nio.charset.StandardCharsets.ISO_8859_1);
    }

    static List<String> scenario(String table, String options) throws Exception {
        Map<String, String> env = System.getenv();
        List<String> found = new ArrayList<>();
        String url = "jdbc:postgresql://" + env.get("PGHOST") + ":" + env.get("PGPORT") + "/" + env.get("PGDATABASE") + "?user=" + env.get("PGUSER") + options;
        try (Connection conn = DriverManager.getConnection(url); Statement st = conn.createStatement()) {
            st.execute("TRUNCATE " + table);
            byte[][] values = {{}, {0, 1}, CHUNK, HEX, null};
            try (PreparedStatement insert = conn.prepareStatement("INSERT INTO " + table + " VALUES (?, ?)")) {
                for (int i = 0; i < values.length; i++) {
                    insert.setInt(1, i);
                    insert.setBytes(2, values[i]);
                    insert.executeUpdate();
                }
                insert.setInt(1, 5);
                insert.setBinaryStream(2, new ByteArrayInputStream(CHUNK), CHUNK.length);
                insert.executeUpdate();
                insert.setInt(1, 6);
                insert.setObject(2, HEX);
                insert.addBatch();
                insert.setInt(1, 7);
                insert.setObject(2, CHUNK, Types.BINARY);
                insert.addBatch();
                found.add(Arrays.toString(insert.executeBatch()));
            }
            for (String sql : new String[] {"SELECT data FROM T ORDER BY id", "SELECT data FROM T ORDER BY data, id", "SELECT DISTINCT data FROM T ORDER BY 1"}) {
                for (int times = 0; times < 7; times++) {
                    try (PreparedStatement select = conn.prepareStatement(sql.replace(" T ", " " + table + " "))) {
                        for (int again = 0; again < 2; again++) {
                            ResultSet rs = select.executeQuery();
                            ResultSetMetaData meta = rs.getMetaData();
                            found.add(meta.getColumnTypeName(1) + " " + meta.getColumnType(1) + " " + meta.getColumnClassName(1) + " " + meta.getPrecision(1));
                            while (rs.next()) {
                                InputStream stream = rs.getBinaryStream(1);
                                found.add(show(rs.getBytes(1)) + " / " + show(stream == null ? null : stream.readAllBytes()) + " / " + (rs.getString(1) + "").replaceAll("B@[0-9a-f]+$", "B@") + " / " + (rs.getObject(1) == null ? null : rs.getObject(1).getClass()));
                            }
                        }
                    }
                }
            }
            try (PreparedStatement append = conn.prepareStatement("UPDATE " + table + " SET data = data || ? WHERE id = ? RETURNING data, length(data)");
                 PreparedStatement slice = conn.prepareStatement("SELECT substr(data, ?, ?), get_byte(data, ?) FROM " + table + " WHERE id = ? AND data > ?");
                 PreparedStatement same = conn.prepareStatement("UPDATE " + table + " SET data = ? WHERE id = 2")) {
                for (int i = 0; i < 8; i++) {
                    if (i == 6)
                        st.execute("ALTER TABLE " + table + " SET (fillfactor = 76)");
                    append.setBytes(1, i % 2 == 0 ? HEX : CHUNK);
                    append.setInt(2, 1);
                    ResultSet rs = append.executeQuery();
                    rs.next();
                    found.add(show(rs.getBytes(1)) + " " + rs.getObject(2).getClass() + " " + rs.getInt(2));
                    slice.setInt(1, 2);
                    slice.setShort(2, (short) 3);
                    slice.setInt(3, 1);
                    slice.setInt(4, 2);
                    slice.setBytes(5, HEX);
                    rs = slice.executeQuery();
                    while (rs.next())
                        found.add(show(rs.getBytes(1)) + " " + rs.getInt(2));
                    // what is read is what is stored again
                    rs = st.executeQuery("SELECT data FROM " + table + " WHERE id = 2");
                    rs.next();
                    same.setBytes(1, rs.getBytes(1));
                    same.executeUpdate();
                }
                ParameterMetaData parameters = append.getParameterMetaData();
                found.add(parameters.getParameterTypeName(1) + " " + parameters.getParameterClassName(1));
            }
            conn.setAutoCommit(false);
            try (PreparedStatement fetch = conn.prepareStatement("SELECT id, data FROM " + table + " ORDER BY data, id", ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY)) {
                fetch.setFetchSize(2);
                ResultSet rs = fetch.executeQuery();
                while (rs.next())
                    found.add(rs.getInt(1) + " " + show(rs.getBytes(2)));
            }
            try (Statement updatable = conn.createStatement(ResultSet.TYPE_SCROLL_SENSITIVE, ResultSet.CONCUR_UPDATABLE)) {
                ResultSet rs = updatable.executeQuery("SELECT id, data FROM " + table + " WHERE id = 3");
                rs.next();
                rs.updateBytes("data", HEX);
                rs.updateRow();
                rs.refreshRow();
                found.add(show(rs.getBytes("data")));
            }
            conn.commit();
        }
        return found;
    }

    public static void main(String[] args) throws Exception {
        boolean failed = false;
        for (int i = 0; i < CHUNK.length; i++)
            CHUNK[i] = (byte) i;
        for (String options : new String[] {"", "&binaryTransfer=false", "&prepareThreshold=1", "&preferQueryMode=simple", "&preferQueryMode=extendedForPrepared", "&preferQueryMode=extendedCacheEverything", "&prepareThreshold=-1"}) {
            String name = "pgjdbc " + (options.isEmpty() ? "(default)" : options.substring(1));
            List<String> plain, own;
            try {
                plain = scenario("plain", options);
                own = scenario("own", options);
            } catch (Exception e) {
                System.out.println("not ok " + name + " " + e);
                e.printStackTrace(System.out);
                failed = true;
                continue;
            }
            if (plain.equals(own) && plain.size() > 50) {
                System.out.println("ok " + name + ": " + plain.size() + " results");
                continue;
            }
            failed = true;
            System.out.println("not ok " + name);
            for (int i = 0; i < Math.max(plain.size(), own.size()); i++) {
                String a = i < plain.size() ? plain.get(i) : "-", b = i < own.size() ? own.get(i) : "-";
                if (!a.equals(b))
                    System.out.println("  bytea            " + a + "\n  appendable_bytea " + b);
            }
        }
        // metadata of the table itself: as appendable_bytea/docs/clients.md says
        Map<String, String> env = System.getenv();
        try (Connection conn = DriverManager.getConnection("jdbc:postgresql://" + env.get("PGHOST") + ":" + env.get("PGPORT") + "/" + env.get("PGDATABASE") + "?user=" + env.get("PGUSER"))) {
            ResultSet rs = conn.getMetaData().getColumns(null, "public", "own", "data");
            rs.next();
            String got = rs.getString("TYPE_NAME") + " " + JDBCType.valueOf(rs.getInt("DATA_TYPE"));
            boolean good = got.equals("appendable_bytea OTHER") || got.equals("appendable_bytea DISTINCT");
            String document = new String(java.nio.file.Files.readAllBytes(java.nio.file.Path.of(args[0])));
            good = good && document.contains("`" + got + "`");
            System.out.println((good ? "ok" : "not ok") + " reflection by pgjdbc: getColumns() says " + got);
            failed |= !good;
        }
        System.exit(failed ? 1 : 0);
    }
}
