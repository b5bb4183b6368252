// Publishes with MQTT.js. Usage: node mqtt_js_ways.cjs HOST PORT VERSION QOS COUNT [CA]; the version is 4 or 5.
// The numbers 0..COUNT-1 go to the topic t.

const fs = require("node:fs");
const mqtt = require("mqtt");

const [host, port, version, qos, count, ca] = process.argv.slice(2);
const client = mqtt.connect({
  protocol: ca ? "mqtts" : "mqtt",
  host,
  port: Number(port),
  protocolVersion: Number(version),
  ca: ca && fs.readFileSync(ca),
  reconnectPeriod: 0,
});
client.on("error", (error) => {
  console.error(error.message);
  process.exit(1);
});
client.on("connect", async () => {
  const publishes = [...Array(Number(count)).keys()].map((number) =>
    client.publishAsync("t", String(number), { qos: Number(qos) }),
  );
  await Promise.all(publishes);
  await client.endAsync();
});
