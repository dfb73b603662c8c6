"""Family L: frames whose layout differs from Kafka's."""
