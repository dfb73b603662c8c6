import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a share group: ShareMember HOST:PORT CLIENT-ID GROUP TOPIC WORKLOAD [MILLISECONDS]. It prints a line for
 * each record, "OFFSET DELIVERY-COUNT", and one for each result of an acknowledgement, until it is killed, or
 * something comes from its standard input: then it closes the consumer, as a program should.
 *
 * accept: implicit acknowledgement. release, reject: explicit, of each record. late: it works on each poll's records
 * for so long, and then accepts them. renew: the same, but it renews the locks meanwhile.
 */
class ShareMember {
    public static void main(String[] args) throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", args[0]);
        settings.put("client.id", args[1]);
        settings.put("group.id", args[2]);
        String workload = args[4];
        long works = args.length > 5 ? Long.parseLong(args[5]) : 0;
        settings.put("share.acknowledgement.mode", workload.equals("accept") ? "implicit" : "explicit");
        try (KafkaShareConsumer<String, String> consumer =
                new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.setAcknowledgementCommitCallback((offsets, exception) -> {
                if (exception != null) print("callback " + exception.getClass().getSimpleName());
            });
            consumer.subscribe(java.util.List.of(args[3]));
            while (!closed()) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                for (ConsumerRecord<String, String> record : records)
                    print(record.offset() + " " + record.deliveryCount().orElse((short) 0));
                if (records.isEmpty() || workload.equals("accept")) continue;
                if (workload.equals("renew")) {
                    for (long waited = 0; waited < works; waited += 500) {
                        Thread.sleep(500);
                        acknowledge(consumer, records, AcknowledgeType.RENEW);
                        records = poll(consumer, records);
                    }
                } else Thread.sleep(works);
                acknowledge(consumer, records, switch (workload) {
                    case "release" -> AcknowledgeType.RELEASE;
                    case "reject" -> AcknowledgeType.REJECT;
                    default -> AcknowledgeType.ACCEPT;
                });
            }
        }
    }

    /** Polls until renewed records are returned again; without them, they cannot be acknowledged (KIP-1222). */
    static ConsumerRecords<String, String> poll(KafkaShareConsumer<String, String> consumer, ConsumerRecords<String, String> renewed) {
        for (int tries = 0; tries < 20; tries++) {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
            if (!records.isEmpty()) return records;
        }
        return renewed;
    }

    static void acknowledge(KafkaShareConsumer<String, String> consumer, ConsumerRecords<String, String> records, AcknowledgeType type) {
        for (ConsumerRecord<String, String> record : records) consumer.acknowledge(record, type);
        for (Map.Entry<TopicIdPartition, Optional<KafkaException>> each : consumer.commitSync().entrySet())
            print(type + " " + each.getValue().map(error -> error.getClass().getSimpleName()).orElse("done"));
    }

    static boolean closed() throws java.io.IOException {
        return System.in.available() > 0;
    }

    static void print(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
