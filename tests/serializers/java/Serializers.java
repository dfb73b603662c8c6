// Writes messages with Apicurio's serializers for Avro, Protobuf and JSON Schema, in their forms, with their schemas and
// what each one is. The client of the registry is replaced, so no registry runs. See tests/serializers/__main__.py.

import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.TimestampProto;
import com.google.protobuf.util.JsonFormat;
import io.apicurio.registry.rest.client.RegistryClient;
import io.apicurio.registry.rest.v2.beans.ArtifactMetaData;
import io.apicurio.registry.serde.avro.AvroKafkaSerializer;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaSerializer;
import io.apicurio.registry.serde.protobuf.ProtobufKafkaSerializer;
import io.apicurio.registry.utils.protobuf.schema.FileDescriptorUtils;
import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serializer;

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

    static final String COMMON = """
        syntax = "proto3"; package shop.common;
        enum Currency { CURRENCY_UNKNOWN = 0; EUR = 978; }
        message Money { int64 cents = 1; Currency currency = 2; }""";
    static final String SHOP = """
        syntax = "proto3"; package shop;
        import "shop/common/common.proto"; import "google/protobuf/timestamp.proto";
        message Order {
          message Line { string sku = 1; sint32 count = 2; message Tag { string name = 1; } repeated Tag tags = 3; }
          string id = 1; repeated Line lines = 2; map<string, common.Money> prices = 3; map<int32, string> notes = 4;
          oneof paid { string card = 5; common.Money cash = 6; }
          google.protobuf.Timestamp at = 7; optional uint32 rating = 8; bytes raw = 9; repeated double weights = 10;
        }
        message Unused { bool never = 1; }
        message Shipped { Order.Line line = 1; fixed64 number = 2; }""";
    static final String LINE = "{\"sku\": \"a\", \"count\": -2, \"tags\": [{\"name\": \"x\"}, {\"name\": \"\"}]}";

    static final String PERSON = """
        {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Person", "type": "object", "required": ["name"],
        "properties": {"name": {"type": "string"}, "age": {"type": "number"}, "home": {"$ref": "#/definitions/Place"}},
        "definitions": {"Place": {"type": "object", "properties": {"town": {"enum": ["A", "B"]}}}}}""";

    /** The latest schema that was registered, and those that it refers to, by name. */
    static String registered = "";
    static final Map<String, String> references = new LinkedHashMap<>();
    static String type = "AVRO";

    public static void main(String[] arguments) throws Exception {
        write("apicurio-long", Map.of("apicurio.registry.headers.enabled", "false"));
        write("apicurio-header", Map.of("apicurio.registry.headers.enabled", "true"));
        write("apicurio-content", Map.of("apicurio.registry.headers.enabled", "true", "apicurio.registry.use-id", "contentId"));
        write("apicurio-confluent", Map.of("apicurio.registry.headers.enabled", "false",
            "apicurio.registry.id-handler", "io.apicurio.registry.serde.Legacy4ByteIdHandler"));
        type = "PROTOBUF";
        for (var form : FORMS.entrySet()) {
            protobufMessages("protobuf-" + form.getKey(), form.getValue());
        }
        type = "JSON";
        registered = PERSON;
        references.clear();
        String person = "{\"name\": \"Zo\u00eb\", \"age\": 41.5, \"home\": {\"town\": \"B\"}}";
        for (var form : FORMS.entrySet()) {
            var serializer = new JsonSchemaKafkaSerializer<Object>(client(), true);
            write("json-" + form.getKey(), form.getValue(), serializer, new ObjectMapper().readValue(person, Map.class), person);
        }
    }

    static final Map<String, Map<String, Object>> FORMS = new LinkedHashMap<>();

    static {
        FORMS.put("long", Map.of("apicurio.registry.headers.enabled", "false"));
        FORMS.put("header", Map.of("apicurio.registry.headers.enabled", "true"));
    }

    static void protobufMessages(String topic, Map<String, Object> settings) throws Exception {
        FileDescriptor common = file("shop/common/common.proto", COMMON, Map.of());
        FileDescriptor shop = file("shop/shop.proto", SHOP, Map.of("shop/common/common.proto", COMMON), common,
            TimestampProto.getDescriptor());
        Descriptor order = shop.findMessageTypeByName("Order");
        protobuf(topic, settings, order, "{\"id\": \"7\", \"lines\": [" + LINE + "], \"prices\": {\"net\": {\"cents\": -5, "
            + "\"currency\": \"EUR\"}}, \"notes\": {\"-1\": \"\u00e4\"}, \"cash\": {\"cents\": 9007199254740993, "
            + "\"currency\": \"CURRENCY_UNKNOWN\"}, \"at\": \"2026-11-23T10:00:00Z\", \"rating\": 0, \"raw\": \"/wA=\", "
            + "\"weights\": [0.5, -1.0]}");
        protobuf(topic, settings, order, "{\"id\": \"\", \"lines\": [], \"prices\": {}, \"notes\": {}, \"card\": \"4711\", "
            + "\"raw\": \"\", \"weights\": []}");
        protobuf(topic, settings, shop.findMessageTypeByName("Shipped"),
            "{\"line\": " + LINE + ", \"number\": 18446744073709551615}");
    }

    static FileDescriptor file(String name, String text, Map<String, String> imported, FileDescriptor... files)
        throws Exception {
        String package_ = name.substring(0, name.lastIndexOf('/')).replace('/', '.');
        String base = name.substring(name.lastIndexOf('/') + 1);
        var read = FileDescriptorUtils.toFileDescriptorProto(text, base, Optional.of(package_), imported);
        return FileDescriptor.buildFrom(read.toBuilder().setName(name).build(), files);
    }

    static void protobuf(String topic, Map<String, Object> settings, Descriptor message, String text) throws Exception {
        var made = DynamicMessage.newBuilder(message);
        JsonFormat.parser().merge(text, made);
        references.clear();
        write(topic, settings, new ProtobufKafkaSerializer<DynamicMessage>(client()), made.build(), text);
    }

    static void write(String topic, Map<String, Object> settings) {
        write(topic, settings, new AvroKafkaSerializer<GenericData.Record>(client()), order(), EXPECTED);
    }

    static <T> void write(String topic, Map<String, Object> settings, Serializer<T> serializer, T data, String expected) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put("apicurio.registry.auto-register", String.valueOf(!type.equals("JSON")));
        var headers = new RecordHeaders();
        serializer.configure(all, false);
        byte[] value = serializer.serialize(topic, headers, data);
        Map<String, String> shown = new LinkedHashMap<>();
        references.remove(topic + "-value");
        headers.forEach(each -> shown.put(each.key(), base64(each.value())));
        System.out.println("{\"topic\": \"" + topic + "\", \"value\": \"" + base64(value) + "\", \"headers\": " + json(shown)
            + ", \"type\": \"" + type + "\", \"schema\": " + quoted(registered) + ", \"references\": " + json(references)
            + ", \"global_id\": 4711, \"content_id\": 815, \"expected\": " + expected + "}");
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
                        references.put(String.valueOf(values[1]), registered);
                    }
                }
                if (method.getReturnType() == InputStream.class) {
                    return new ByteArrayInputStream(registered.getBytes(StandardCharsets.UTF_8));
                }
                if (method.getReturnType() == List.class) {
                    return List.of(); // no references
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
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n") + "\"";
    }

    static String json(Map<String, String> texts) {
        var parts = texts.entrySet().stream().map(each -> quoted(each.getKey()) + ": " + quoted(each.getValue()));
        return "{" + String.join(", ", parts.toList()) + "}";
    }
}
