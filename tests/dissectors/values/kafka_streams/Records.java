// Writes records.jsonl: keys and values that Kafka Streams writes to its internal topics, by its own classes.
//
//   mvn -q dependency:build-classpath -Dmdep.outputFile=/tmp/path && java -cp "$(cat /tmp/path)" Records.java > records.jsonl
//
// The same bytes come from Kafka 3.9.1 (-Dkafka.version=3.9.1).

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.function.Supplier;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.SessionWindowedSerializer;
import org.apache.kafka.streams.kstream.TimeWindowedSerializer;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.Change;
import org.apache.kafka.streams.kstream.internals.ChangedSerializer;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.kstream.internals.TimeWindow;
import org.apache.kafka.streams.kstream.internals.foreignkeyjoin.CombinedKeySchema;
import org.apache.kafka.streams.kstream.internals.foreignkeyjoin.SubscriptionResponseWrapper;
import org.apache.kafka.streams.kstream.internals.foreignkeyjoin.SubscriptionResponseWrapperSerde;
import org.apache.kafka.streams.kstream.internals.foreignkeyjoin.SubscriptionWrapper;
import org.apache.kafka.streams.kstream.internals.foreignkeyjoin.SubscriptionWrapper.Instruction;
import org.apache.kafka.streams.kstream.internals.foreignkeyjoin.SubscriptionWrapperSerde;
import org.apache.kafka.streams.state.internals.SessionKeySchema;
import org.apache.kafka.streams.state.internals.TimestampedKeyAndJoinSide;
import org.apache.kafka.streams.state.internals.WindowKeySchema;

public class Records {
    static final long START = 1795444800000L;
    static final long END = 1795444801206L;
    static final Serde<String> STRINGS = Serdes.String();
    static final Serde<Long> LONGS = Serdes.Long();
    static final String JSON = "{\"card\":\"planted-1\"}";
    static final String OLDER = "{\"card\":\"planted-2\"}";
    static final String FK_JOIN = "app-KTABLE-FK-JOIN-SUBSCRIPTION-";

    public static void main(String[] arguments) throws Exception {
        Bytes text = Bytes.wrap("kunde-b\u00fc".getBytes(StandardCharsets.UTF_8));
        Bytes number = Bytes.wrap(LONGS.serializer().serialize("t", 500L));
        key("app-counts-changelog", "windowed-key", WindowKeySchema.toStoreKeyBinary(text, START, 0).get(),
            "'key': 'kunde-b\u00fc', 'window_start': " + START + ", 'sequence': 0");
        key("app-KSTREAM-JOINTHIS-0000000004-store-changelog", "windowed-key",
            WindowKeySchema.toStoreKeyBinary(number, END, 70000).get(),
            "'key': '00000000000001f4', 'window_start': " + END + ", 'sequence': 70000");
        key("app-visits-changelog", "session-key", SessionKeySchema.toBinary(text, START, END).get(),
            "'key': 'kunde-b\u00fc', 'window_start': " + START + ", 'window_end': " + END);
        key("app-visits-changelog", "session-key", SessionKeySchema.toBinary(number, START, START).get(),
            "'key': '00000000000001f4', 'window_start': " + START + ", 'window_end': " + START);
        key("app-again-repartition", "session-key", serialized(new SessionWindowedSerializer<>(STRINGS.serializer()),
            new Windowed<>("a", new SessionWindow(START, END))),
            "'key': 'a', 'window_start': " + START + ", 'window_end': " + END);
        for (String topic : new String[] {"app-again-repartition", "app-KTABLE-SUPPRESS-STATE-STORE-0000000007-changelog"}) {
            key(topic, "windowed-key", serialized(new TimeWindowedSerializer<>(STRINGS.serializer()),
                new Windowed<>("a", new TimeWindow(START, END))), "'key': 'a', 'window_start': " + START);
        }
        for (boolean isLeft : new boolean[] {true, false}) {
            var side = isLeft ? TimestampedKeyAndJoinSide.makeLeft("a", END) : TimestampedKeyAndJoinSide.makeRight("a", END);
            key("app-KSTREAM-OUTERSHARED-0000000005-store-changelog", "join-side-key",
                serialized(made("org.apache.kafka.streams.state.internals.TimestampedKeyAndJoinSideSerializer",
                    STRINGS.serializer()), side),
                "'timestamp': " + END + ", 'side': '" + (isLeft ? "left" : "right") + "', 'key': 'a'");
        }

        key(FK_JOIN + "STATE-STORE-0000000010-changelog", "combined-key", combined("fk-1", 500L),
            "'foreign_key': 'fk-1', 'primary_key': '00000000000001f4'");
        long[] hash = {0x0123456789abcdefL, -2L};
        String hex = "'0123456789abcdeffffffffffffffffe'";
        var subscriptions = new SubscriptionWrapperSerde<String>(() -> "t-pk", STRINGS).serializer();
        for (Instruction instruction : Instruction.values()) {
            value(FK_JOIN + "REGISTRATION-0000000006-topic", "subscription",
                serialized(subscriptions, new SubscriptionWrapper<>(hash, instruction, "pk-1", 3)),
                "'version': 1, 'instruction': '" + instruction + "', 'hash': " + hex
                + ", 'primary_key': 'pk-1', 'primary_partition': 3");
        }
        var old = new SubscriptionWrapper<>(null, Instruction.DELETE_KEY_AND_PROPAGATE, "pk-1", (byte) 0, null);
        value("app-join-subscription-registration-topic", "subscription", serialized(subscriptions, old),
            "'version': 0, 'instruction': 'DELETE_KEY_AND_PROPAGATE', 'hash': None, 'primary_key': 'pk-1'");
        value(FK_JOIN + "STATE-STORE-0000000010-changelog", "subscription",
            serialized(subscriptions, new SubscriptionWrapper<>(hash, Instruction.PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE, "pk-2", 0)),
            "'version': 1, 'instruction': 'PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE', 'hash': " + hex
            + ", 'primary_key': 'pk-2', 'primary_partition': 0");
        var responses = new SubscriptionResponseWrapperSerde<>(STRINGS).serializer();
        value(FK_JOIN + "RESPONSE-0000000014-topic", "subscription-response",
            serialized(responses, new SubscriptionResponseWrapper<>(hash, JSON, 3)),
            "'version': 0, 'hash': " + hex + ", 'value': {'card': 'planted-1'}");
        value(FK_JOIN + "RESPONSE-0000000014-topic", "subscription-response",
            serialized(responses, new SubscriptionResponseWrapper<String>(null, null, 3)),
            "'version': 0, 'hash': None, 'value': None");

        var changes = new ChangedSerializer<>(STRINGS.serializer());
        for (String[] pair : new String[][] {{JSON, OLDER}, {JSON, null}, {null, OLDER}}) {
            value("app-KTABLE-AGGREGATE-STATE-STORE-0000000003-repartition", "change",
                serialized(changes, new Change<>(pair[0], pair[1])), "'new': " + dict(pair[0]) + ", 'old': " + dict(pair[1]));
        }
    }

    static String dict(String json) {
        return json == null ? "None" : json.replace('"', '\'').replace(":", ": ");
    }

    @SuppressWarnings("unchecked")
    static <T> Serializer<T> made(String name, Object argument) throws Exception {
        Constructor<?> constructor = Class.forName(name).getDeclaredConstructors()[0];
        constructor.setAccessible(true);
        return (Serializer<T>) constructor.newInstance(argument);
    }

    static <T> byte[] serialized(Serializer<T> serializer, T data) {
        return serializer.serialize("t", new RecordHeaders(), data);
    }

    static byte[] combined(String foreignKey, Long primaryKey) throws Exception {
        Supplier<String> foreign = () -> "t-fk", primary = () -> "t-pk";
        var schema = new CombinedKeySchema<>(foreign, STRINGS, primary, LONGS);
        Method method = Arrays.stream(CombinedKeySchema.class.getDeclaredMethods())
            .filter(each -> each.getName().equals("toBytes") && !each.isSynthetic()).findFirst().orElseThrow();
        method.setAccessible(true);
        Object[] arguments = {foreignKey, primaryKey, new RecordHeaders()};
        return ((Bytes) method.invoke(schema, Arrays.copyOf(arguments, method.getParameterCount()))).get();
    }

    static void key(String topic, String type, byte[] data, String shown) {
        row(topic, "key", type, data, shown);
    }

    static void value(String topic, String type, byte[] data, String shown) {
        row(topic, "value", type, data, shown);
    }

    static void row(String topic, String part, String type, byte[] data, String shown) {
        System.out.println("{\"topic\": \"" + topic + "\", \"part\": \"" + part + "\", \"type\": \"" + type + "\", \"data\": \""
            + Base64.getEncoder().encodeToString(data) + "\", \"shown\": \"{" + shown + "}\"}");
    }
}
