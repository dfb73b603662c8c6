// Writes records.jsonl: keys and values that MirrorMaker 2 and Kafka Connect write to their topics, by their own classes.
//
//   mvn -q dependency:build-classpath -Dmdep.outputFile=/tmp/path && java -cp "$(cat /tmp/path)" Records.java > records.jsonl

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.storage.KafkaConfigBackingStore;
import org.apache.kafka.connect.storage.KafkaStatusBackingStore;
import org.apache.kafka.connect.util.ConnectorTaskId;

public class Records {
    static final String MIRROR = "org.apache.kafka.connect.mirror.";

    public static void main(String[] arguments) throws Exception {
        long time = 1795444801206L;
        mirror("heartbeats", "Heartbeat", "primary", "backup", time);
        mirror("primary.heartbeats", "Heartbeat", "primary", "b\u00fcro", time);
        var orders = new TopicPartition("primary.orders", 3);
        mirror("primary.checkpoints.internal", "Checkpoint", "billing", orders, 1234567890123L, 42L, "meta");
        mirror("mm2-offset-syncs.backup.internal", "OffsetSync", new TopicPartition("orders", 7), 99L, 98L);
        mirror("mm2-offset-syncs.backup.internal", "OffsetSync", new TopicPartition("t", 0), -1L, 0L);

        Map<String, String> settings = Map.of("database.password", "planted-1");
        var config = struct(KafkaConfigBackingStore.CONNECTOR_CONFIGURATION_V0, "properties", settings);
        var session = struct(KafkaConfigBackingStore.SESSION_KEY_V0, "key", "planted-2", "algorithm", "HmacSHA256",
            "creation-timestamp", time);
        var state = struct(KafkaConfigBackingStore.TARGET_STATE_V1, "state", "PAUSED", "state.v2", "STOPPED");
        var commit = struct(KafkaConfigBackingStore.CONNECTOR_TASKS_COMMIT_V0, "tasks", 2);
        var status = struct(schema(KafkaStatusBackingStore.class, "STATUS_SCHEMA_V0"), "state", "RUNNING",
            "worker_id", "w:8083", "generation", 4);
        for (boolean schemas : new boolean[] {false, true}) {
            connect(schemas, "connect-configs", KafkaConfigBackingStore.CONNECTOR_KEY("pg"), config);
            connect(schemas, "connect-configs", "task-pg-0",
                struct(KafkaConfigBackingStore.TASK_CONFIGURATION_V0, "properties", settings));
            connect(schemas, "_my-connect-configs", KafkaConfigBackingStore.COMMIT_TASKS_KEY("pg"), commit);
            connect(schemas, "connect-configs", KafkaConfigBackingStore.TARGET_STATE_KEY("pg"), state);
            connect(schemas, "mm2-configs.primary.internal", KafkaConfigBackingStore.SESSION_KEY_KEY, session);
            connect(schemas, "connect-status", "status-task-pg-0", status);
        }
        Map<String, Object> partition = Map.of("server", "pg");
        row("connect-offsets", json(false).fromConnectData("t", null, List.of("pg", partition)),
            json(false).fromConnectData("t", null, Map.of("lsn", 7)), "[pg, {server=pg}] {lsn=7}");
    }

    static void mirror(String topic, String name, Object... arguments) throws Exception {
        Class<?> type = Class.forName(MIRROR + name);
        Constructor<?> constructor = Arrays.stream(type.getDeclaredConstructors())
            .filter(each -> each.getParameterCount() == arguments.length).findFirst().orElseThrow();
        constructor.setAccessible(true);
        Object made = constructor.newInstance(arguments);
        row(topic, bytes(made, "recordKey"), bytes(made, "recordValue"), made.toString());
    }

    static byte[] bytes(Object of, String name) throws Exception {
        Method method = of.getClass().getDeclaredMethod(name);
        method.setAccessible(true);
        return (byte[]) method.invoke(of);
    }

    static Schema schema(Class<?> of, String name) throws Exception {
        Field field = of.getDeclaredField(name);
        field.setAccessible(true);
        return (Schema) field.get(null);
    }

    static Struct struct(Schema schema, Object... values) {
        Struct made = new Struct(schema);
        for (int index = 0; index < values.length; index += 2) {
            made.put((String) values[index], values[index + 1]);
        }
        return made;
    }

    static JsonConverter json(boolean schemas) {
        JsonConverter made = new JsonConverter();
        made.configure(Map.of("schemas.enable", schemas), false);
        return made;
    }

    static void connect(boolean schemas, String topic, String key, Struct value) {
        byte[] data = json(schemas).fromConnectData("t", value.schema(), value);
        row(topic, key.getBytes(StandardCharsets.UTF_8), data, key + " " + value);
    }

    static void row(String topic, byte[] key, byte[] value, String text) {
        Base64.Encoder base64 = Base64.getEncoder();
        System.out.println("{\"topic\": \"" + topic + "\", \"key\": \"" + base64.encodeToString(key) + "\", \"value\": \""
            + base64.encodeToString(value) + "\", \"text\": \"" + text + "\"}");
    }
}
