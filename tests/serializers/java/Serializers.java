// Writes messages with Apicurio's serializer for Avro, in its three forms, with their schemas and what each one is. The
// client of its registry is replaced, so no registry runs. See tests/serializers/__main__.py.

import io.apicurio.registry.rest.client.RegistryClient;
import io.apicurio.registry.rest.v2.beans.ArtifactMetaData;
import io.apicurio.registry.serde.avro.AvroKafkaSerializer;
import java.io.InputStream;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.kafka.common.header.internals.RecordHeaders;

public class Serializers {
    static final String ORDER = "{\"type\":\"record\",\"name\":\"Order\",\"namespace\":\"shop\",\"fields\":["
        + "{\"name\":\"id\",\"type\":\"long\"},"
        + "{\"name\":\"to\",\"type\":[\"null\",\"string\",{\"type\":\"record\",\"name\":\"Person\",\"fields\":["
        + "{\"name\":\"name\",\"type\":\"string\"},{\"name\":\"boss\",\"type\":[\"null\",\"Person\"]}]}]},"
        + "{\"name\":\"kind\",\"type\":{\"type\":\"enum\",\"name\":\"Kind\",\"symbols\":[\"A\",\"B\"]}},"
        + "{\"name\":\"tags\",\"type\":{\"type\":\"map\",\"values\":{\"type\":\"array\",\"items\":\"int\"}}},"
        + "{\"name\":\"price\",\"type\":{\"type\":\"bytes\",\"logicalType\":\"decimal\",\"precision\":9,\"scale\":2}},"
        + "{\"name\":\"day\",\"type\":{\"type\":\"int\",\"logicalType\":\"date\"}},"
        + "{\"name\":\"raw\",\"type\":{\"type\":\"fixed\",\"name\":\"Raw\",\"size\":3}},"
        + "{\"name\":\"ratio\",\"type\":\"float\"}]}";
    static final String EXPECTED = "{\"id\": -1, \"to\": {\"name\": \"Zo\u00eb\", \"boss\": {\"name\": \"A\", \"boss\": null}}, "
        + "\"kind\": \"B\", \"tags\": {\"x\": [1, -2], \"y\": []}, \"price\": \"-12.50\", \"day\": \"2026-11-23\", "
        + "\"raw\": \"AAH/\", \"ratio\": 0.5}";

    static String registered = "";

    public static void main(String[] arguments) {
        write("apicurio-long", Map.of("apicurio.registry.headers.enabled", "false"));
        write("apicurio-header", Map.of("apicurio.registry.headers.enabled", "true"));
        write("apicurio-content", Map.of("apicurio.registry.headers.enabled", "true", "apicurio.registry.use-id", "contentId"));
        write("apicurio-confluent", Map.of("apicurio.registry.headers.enabled", "false",
            "apicurio.registry.id-handler", "io.apicurio.registry.serde.Legacy4ByteIdHandler"));
    }

    static void write(String topic, Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put("apicurio.registry.auto-register", "true");
        var headers = new RecordHeaders();
        var serializer = new AvroKafkaSerializer<GenericData.Record>(client());
        serializer.configure(all, false);
        byte[] value = serializer.serialize(topic, headers, order());
        Map<String, String> shown = new LinkedHashMap<>();
        headers.forEach(each -> shown.put(each.key(), base64(each.value())));
        System.out.println("{\"topic\": \"" + topic + "\", \"value\": \"" + base64(value) + "\", \"headers\": " + json(shown)
            + ", \"schema\": " + quoted(registered) + ", \"global_id\": 4711, \"content_id\": 815, \"expected\": "
            + EXPECTED + "}");
    }

    static GenericData.Record order() {
        Schema schema = new Schema.Parser().parse(ORDER);
        Schema personSchema = schema.getField("to").schema().getTypes().get(2);
        var boss = new GenericData.Record(personSchema);
        boss.put("name", "A");
        var person = new GenericData.Record(personSchema);
        person.put("name", "Zo\u00eb");
        person.put("boss", boss);
        var made = new GenericData.Record(schema);
        made.put("id", -1L);
        made.put("to", person);
        made.put("kind", new GenericData.EnumSymbol(schema.getField("kind").schema(), "B"));
        Map<String, List<Integer>> tags = new LinkedHashMap<>();
        tags.put("x", List.of(1, -2));
        tags.put("y", List.of());
        made.put("tags", tags);
        made.put("price", ByteBuffer.wrap(new byte[] {(byte) 0xfb, 0x1e}));
        made.put("day", 20780);
        made.put("raw", new GenericData.Fixed(schema.getField("raw").schema(), new byte[] {0, 1, (byte) 255}));
        made.put("ratio", 0.5f);
        return made;
    }

    /** A client that registers every schema under the same ids. */
    static RegistryClient client() {
        return (RegistryClient) Proxy.newProxyInstance(Serializers.class.getClassLoader(), new Class<?>[] {RegistryClient.class},
            (proxy, method, values) -> {
                for (Object value : values == null ? new Object[0] : values) {
                    if (value instanceof InputStream stream) {
                        registered = new String(stream.readAllBytes(), StandardCharsets.UTF_8);
                    }
                }
                if (method.getReturnType() != ArtifactMetaData.class) {
                    return null;
                }
                var made = new ArtifactMetaData();
                made.setGroupId("default");
                made.setId("order");
                made.setVersion("1");
                made.setGlobalId(4711L);
                made.setContentId(815L);
                return made;
            });
    }

    static String base64(byte[] data) {
        return Base64.getEncoder().encodeToString(data);
    }

    static String quoted(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }

    static String json(Map<String, String> texts) {
        var parts = texts.entrySet().stream().map(each -> quoted(each.getKey()) + ": " + quoted(each.getValue()));
        return "{" + String.join(", ", parts.toList()) + "}";
    }
}
