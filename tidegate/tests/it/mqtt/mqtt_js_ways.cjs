// Publishes with MQTT.js. Usage: node mqtt_js_ways.cjs HOST PORT VERSION QOS COUNT [CA]; the version is 4 or 5.
// With WEB in the environment it comes by WebSocket.
// The numbers 0..COUNT-1 go to the topic t.

const fs = require("node:fs");
const mqtt = require("mqtt");

const [host, port, version, qos, count, ca] = process.argv.slice(2);
const [plain, secure] = process.env.WEB ? ["ws", "wss"] : ["mqtt", "mqtts"];
const client = mqtt.connect({
  protocol: ca ? secure : plain,
  // By WebSocket it becomes part of a URL.
  host: process.env.WEB && host.includes(":") ? `[${host}]` : host,
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
