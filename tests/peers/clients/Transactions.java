// Transactions of Kafka's Java client, right and wrong: arguments are the address, the transactional id, and a story.

import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringSerializer;

public final class Transactions {
    static String bootstrap, id;

    static KafkaProducer<String, String> producer(String clientId) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("transactional.id", id);
        properties.put("client.id", clientId);
        properties.put("max.block.ms", "30000");
        KafkaProducer<String, String> made =
            new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
        made.initTransactions();
        return made;
    }

    static void send(KafkaProducer<String, String> producer, int partition) throws Exception {
        Future<?> sent = producer.send(new ProducerRecord<>("t", partition, null, "x"));
        producer.flush();
        sent.get();
    }

    /** Leaves a transaction open until standard input ends. */
    static void hang() throws Exception {
        KafkaProducer<String, String> holder = producer("payments");
        holder.beginTransaction();
        send(holder, 0);
        System.out.println("begun");
        while (System.in.read() >= 0) { }
        holder.abortTransaction();
        holder.close();
    }

    static void fenced() throws Exception {
        KafkaProducer<String, String> first = producer("first"), second;
        first.beginTransaction();
        send(first, 0);
        second = producer("second");
        second.beginTransaction();
        send(second, 0);
        second.commitTransaction();
        try {
            send(first, 0);
            first.commitTransaction();
            throw new AssertionError("the first producer was not fenced");
        } catch (Exception error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            if (!(cause instanceof ProducerFencedException || cause instanceof InvalidProducerEpochException)) throw error;
        }
        first.close();
        second.close();
    }

    static void aborted() throws Exception {
        KafkaProducer<String, String> failing = producer("failing");
        for (int i = 0; i < 6; i++) {
            failing.beginTransaction();
            send(failing, 0);
            failing.abortTransaction();
        }
        failing.close();
    }

    static void right() throws Exception {
        for (int instance = 0; instance < 2; instance++) {
            KafkaProducer<String, String> right = producer("right");
            for (int i = 0; i < 6; i++) {
                right.beginTransaction();
                send(right, 0);
                right.commitTransaction();
                right.beginTransaction();
                send(right, 1);
                right.abortTransaction();
            }
            right.close();
        }
    }

    /** Commits offsets alone: the same ones again and again, or new ones. */
    static void offsets(boolean same) {
        KafkaProducer<String, String> idle = producer("idle");
        for (int i = 0; i < 12; i++) {
            idle.beginTransaction();
            OffsetAndMetadata offset = new OffsetAndMetadata(same ? 1 : i + 1);
            idle.sendOffsetsToTransaction(Map.of(new TopicPartition("t", 0), offset), new ConsumerGroupMetadata("g"));
            idle.commitTransaction();
        }
        idle.close();
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        id = arguments[1];
        switch (arguments[2]) {
            case "hang" -> hang();
            case "fenced" -> fenced();
            case "aborted" -> aborted();
            case "right" -> right();
            case "same-offsets" -> offsets(true);
            case "new-offsets" -> offsets(false);
            default -> throw new IllegalArgumentException(arguments[2]);
        }
        System.out.println("done");
    }
}
