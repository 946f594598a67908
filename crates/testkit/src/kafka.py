# Another client than Haul's own code, for tests: BROKERS COMMAND ARGUMENT...; records come and go as JSON lines, bytes in base64.
import base64, json, sys, time
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition, ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient, NewTopic

brokers, command, *args = sys.argv[1:]
# Options of the client: -c name=value.
extra = {}
while "-c" in args:
    at = args.index("-c")
    name, _, value = args[at + 1].partition("=")
    extra[name] = value
    del args[at:at + 2]
base = {"bootstrap.servers": brokers, **extra}
un = lambda text: None if text is None else base64.b64decode(text)
en = lambda data: None if data is None else base64.b64encode(data).decode()


def wait(futures):
    for future in futures.values():
        future.result(30)


def deliver(producer, topic, record):
    headers = [(name, un(value)) for name, value in record.get("h", [])]
    more = {name: record[key] for name, key in (("partition", "p"), ("timestamp", "t")) if key in record}
    while True:
        try:
            return producer.produce(topic, value=un(record.get("v")), key=un(record.get("k")), headers=headers or None, **more)
        except BufferError:
            producer.poll(0.1)


def checked(error, message):
    if error:
        print(f"not delivered: {error}", file=sys.stderr)
        sys.exit(1)


def everything(topic, isolation):
    consumer = Consumer({**base, "group.id": "haul-test-dump", "isolation.level": isolation, "enable.auto.commit": False,
                         "enable.partition.eof": True, "auto.offset.reset": "earliest"})
    partitions = consumer.list_topics(topic, 30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
    left = set(partitions)
    while left:
        for message in consumer.consume(10000, 5):
            if message.error():
                if message.error().name() == "_PARTITION_EOF":
                    left.discard(message.partition())
                    continue
                raise KafkaException(message.error())
            left.add(message.partition())
            yield message
    consumer.close()


if command == "create":
    topic, partitions, *settings = args
    config = dict(s.split("=", 1) for s in settings)
    wait(AdminClient(base).create_topics([NewTopic(topic, int(partitions), 1, config=config)]))
elif command == "grow":
    from confluent_kafka.admin import NewPartitions
    wait(AdminClient(base).create_partitions([NewPartitions(args[0], int(args[1]))]))
elif command == "delete":
    wait(AdminClient(base).delete_topics(args))
elif command == "topics":
    print(json.dumps({t: len(m.partitions) for t, m in AdminClient(base).list_topics(timeout=30).topics.items() if not t.startswith("__")}))
elif command == "produce":
    producer = Producer({**base, "linger.ms": 5, "message.max.bytes": 20_000_000, "on_delivery": checked})
    for line in sys.stdin:
        deliver(producer, args[0], json.loads(line))
        producer.poll(0)
    assert producer.flush(60) == 0
elif command == "numbers":
    # TOPIC FROM TO PARTITIONS [PAD]: {"id": n, "text": "..."} with the number as key.
    topic, first, last, partitions, *pad = args
    filler = "x" * int(pad[0]) if pad else ""
    producer = Producer({**base, "linger.ms": 5, "queue.buffering.max.messages": 1000000, "on_delivery": checked})
    for n in range(int(first), int(last)):
        value = json.dumps({"id": n, "text": f"row {n} {filler}"})
        while True:
            try:
                producer.produce(topic, value=value, key=str(n), partition=n % int(partitions))
                break
            except BufferError:
                producer.poll(0.1)
        if n % 1000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0
elif command == "transaction":
    # TOPIC commit|abort|open: the records of standard input in one transaction. An open one is left so when its client goes.
    producer = Producer({**base, "transactional.id": f"haul-test-{time.time_ns()}", "transaction.timeout.ms": 600000})
    producer.init_transactions(30)
    producer.begin_transaction()
    for line in sys.stdin:
        deliver(producer, args[0], json.loads(line))
    producer.flush(30)
    if args[1] == "commit":
        producer.commit_transaction(30)
    elif args[1] == "abort":
        producer.abort_transaction(30)
elif command == "dump":
    isolation = args[1] if len(args) > 1 else "read_committed"
    for m in everything(args[0], isolation):
        headers = [[name, en(value)] for name, value in (m.headers() or [])]
        print(json.dumps({"p": m.partition(), "o": m.offset(), "k": en(m.key()), "v": en(m.value()), "h": headers,
                          "t": m.timestamp()[1], "tt": m.timestamp()[0]}))
elif command == "ids":
    # The field `id` of every value.
    isolation = args[1] if len(args) > 1 else "read_committed"
    for m in everything(args[0], isolation):
        print(json.loads(m.value())["id"])
elif command == "committed":
    group, topic = args
    consumer = Consumer({**base, "group.id": group})
    partitions = consumer.list_topics(topic, 30).topics[topic].partitions
    found = consumer.committed([TopicPartition(topic, p) for p in partitions], 30)
    print(json.dumps({p.partition: p.offset for p in found if p.offset >= 0}))
elif command == "delete-records":
    topic, partition, offset = args
    wait(AdminClient(base).delete_records([TopicPartition(topic, int(partition), int(offset))]))
else:
    sys.exit(f"no command {command}")
